"""How fast a run goes, and how long the rest will take."""

import pytest

from sparsemble.progress.remaining import Speed


def test_the_speed_is_that_of_the_last_minute():
    now = [0.0]
    speed = Speed(0, clock=lambda: now[0])
    assert speed.left(1000) is None
    for second in range(1, 101):  # a slow beginning
        now[0] = second
        speed.mark(second)
    assert speed.left(1000) == pytest.approx(900)
    for second in range(101, 181):  # ten times as fast
        now[0] = second
        speed.mark(100 + 10 * (second - 100))
    assert speed.per_second == pytest.approx(10)
    assert speed.left(1000) == pytest.approx(10)
    now[0] = 181
    speed.mark(500)  # thrown back
    assert speed.left(1000) is None
    now[0] = 183
    speed.mark(520)
    assert speed.per_second == pytest.approx(10)
