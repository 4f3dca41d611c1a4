"""A prediction as people look at it: one answer, a few words, and bars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

MOST_BARS = 12
"""More classes than these are not all drawn, but only the most probable."""
_FEW_BARS = 8


@dataclass(frozen=True)
class Bar:
    """From one value to another, in the task's own units."""

    label: str
    text: str
    """Its value in words."""
    low: float
    high: float
    middle: float | None = None
    """Where between them the answer itself is, if that is not the end."""
    ends: tuple[float, float] | None = None
    """Of the scale; by default that of all bars with this label."""


@dataclass(frozen=True)
class View:
    """What one member, or all of them together, predict for one example."""

    answer: str
    note: str = ""
    bars: tuple[Bar, ...] = ()


def share(value: float) -> str:
    """A probability in words.

    >>> share(0.931), share(0.0004), share(0.99996)
    ('93.1 %', '< 0.1 %', '> 99.9 %')
    """
    if value < 0.001:
        return "< 0.1 %"
    return "> 99.9 %" if value > 0.999 else f"{100 * value:.1f} %"


def short(value: float) -> str:
    """A number in three figures, a large one without its fraction.

    >>> short(144.0612), short(-0.0123456), short(1234567.8), short(3.0)
    ('144', '-0.0123', '1,234,568', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def view_of_probabilities(names: Sequence[str], probabilities: Tensor) -> View:
    """One example's classes or words: all in their order if they are few, else the most probable.

    Args:
        names: What they are called.
        probabilities: One for each.
    """
    values = probabilities.tolist()
    best = max(range(len(values)), key=values.__getitem__)
    shown: Sequence[int] = range(len(values))
    ends = (0.0, 1.0)
    if len(values) > MOST_BARS:
        shown, ends = probabilities.topk(_FEW_BARS).indices.tolist(), (0.0, values[best])
    bars = (Bar(names[k], share(values[k]), 0.0, values[k], ends=ends) for k in shown)
    return View(names[best], share(values[best]), tuple(bars))


def view_of_intervals(
    names: Sequence[str], means: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> View:
    """One example's numbers, each with the interval that holds nine of ten.

    Args:
        names: What they are called.
        means: What is expected of each.
        lows: Where the intervals begin.
        highs: Where they end.
    """
    bars = tuple(
        Bar(name, f"{short(low)} to {short(high)}", low, high, mean)
        for name, mean, low, high in zip(names, means, lows, highs, strict=True)
    )
    if len(names) == 1:
        return View(short(means[0]), f"nine of ten from {bars[0].text}", bars)
    answers = [f"{name} {short(mean)}" for name, mean in zip(names, means, strict=True)]
    return View(", ".join(answers), "bars hold nine of ten", bars)


def votes(answers: Sequence[str], verb: str) -> str:
    """How many members are for which answer, in words.

    >>> votes(["3", "3", "8"], "say")
    '2 of 3 members say 3, 1 says 8'
    >>> votes(["3", "3"], "say")
    'both members say 3'
    >>> votes(["3"], "say")
    'the only member says 3'
    """
    counts = Counter(answers).most_common()
    if len(answers) == 1:
        return f"the only member {verb}s {answers[0]}"
    if len(counts) == 1:
        all_of_them = "both" if len(answers) == 2 else f"all {len(answers)}"
        return f"{all_of_them} members {verb} {answers[0]}"
    first, *others = [
        (count, f"{verb}s {answer}" if count == 1 else f"{verb} {answer}")
        for answer, count in counts
    ]
    named = [f"{count} {words}" for count, words in others[:3]]
    rest = sum(count for count, _ in others[3:])
    named += [f"{rest} something else"] if rest else []
    return ", ".join([f"{first[0]} of {len(answers)} members {first[1]}", *named])
