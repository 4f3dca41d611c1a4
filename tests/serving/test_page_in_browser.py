"""The page in a real browser: digits are drawn, rows filled in, texts gone on with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from browser import CHROMIUM, browsing
from deployed_kinds import numbers, text
from served import running
from sparsemble.ensemble import Ensemble

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")

ANSWER = "document.querySelector('#answer .said')?.textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("profile")) as opened:
        opened.size(1300, 1000)
        yield opened
        assert opened.said == []


def circle(turn: float) -> tuple[float, float]:
    return 0.5 + 0.2 * math.cos(math.tau * turn), 0.5 + 0.33 * math.sin(math.tau * turn)


STROKES = {
    "0": [[circle(k / 20) for k in range(21)]],
    "4": [[(0.55, 0.15), (0.28, 0.6), (0.75, 0.6)], [(0.6, 0.4), (0.58, 0.88)]],
}


def draw(browser, strokes):
    left, top, width = browser.value(
        "(({left, top, width}) => [left, top, width])"
        "(document.getElementById('drawing').getBoundingClientRect())"
    )
    for stroke in strokes:
        browser.drag([(left + width * x, top + width * y) for x, y in stroke])


def is_whole(browser, width: int) -> bool:
    """Does everything fit, so that nothing scrolls sideways?"""
    browser.size(width, 1000)
    found = browser.value("document.documentElement.scrollWidth <= innerWidth")
    browser.size(1300, 1000)
    return found


def test_a_digit_that_is_drawn_is_predicted_as_the_ensemble_predicts_what_it_sees(
    browser, class_run
):
    ensemble = Ensemble.load(class_run)
    with running(ensemble) as address:
        browser.open(address)
        for digit, strokes in STROKES.items():
            browser.value("document.querySelector('button[type=reset]').click()")
            draw(browser, strokes)
            browser.until(f"{ANSWER} === '{digit}'")
        seen = browser.value(
            "[...document.getElementById('seen').getContext('2d').getImageData(0, 0, 8, 8).data]"
        )
        evidence = ensemble.evidence(16 / 255 * np.array([seen[3::4]], np.float32))
        note = "parseFloat(document.querySelector('#answer .note').textContent.match(/[0-9.]+/))"
        browser.until(f"Math.abs({note} - {100 * float(evidence.mean(0).max())}) < 1")
        shown = browser.value(
            "[...document.querySelectorAll('#members .said')].map((own) => own.textContent)"
        )
        assert shown == [str(vote) for vote in evidence.argmax(-1).flatten().tolist()]
        assert "members say 4" in browser.value("document.getElementById('agreement').textContent")
        assert is_whole(browser, 500)


def test_a_row_that_is_filled_in_is_predicted_and_what_is_wrong_is_said(browser):
    ensemble = numbers("predicted")
    with running(ensemble) as address:
        browser.open(address)
        browser.until(ANSWER)
        browser.value("document.querySelectorAll('#asking input')[2].select()")
        browser.type("7")
        row = np.array([[0, 1, 7, 3, 4, 5]], np.float32)
        price, rent = ensemble.predict(row)[0]
        browser.until(f"{ANSWER}?.startsWith('price {price:,.0f}')")
        assert f"rent {rent:.3g}" in browser.value(ANSWER)
        browser.value("document.querySelectorAll('#asking input')[2].select()")
        browser.type("1e39")
        browser.until("!document.getElementById('trouble').hidden")
        said = browser.value("document.getElementById('trouble').textContent")
        assert "hold NaN or infinity" in said
        assert is_whole(browser, 500)
    browser.said.clear()  # the browser itself notes that a request was refused


def test_a_text_goes_on_by_itself_and_word_by_word(browser):
    with running(text()) as address:
        browser.open(address)
        first = browser.until(ANSWER)
        browser.value(
            "[...document.querySelectorAll('#answer button')]"
            f".find((own) => own.title === '{first}')"
            ".click()"
        )
        assert browser.value("document.querySelector('textarea').value") == first
        browser.value("document.querySelector('textarea').select()")
        browser.type("a b c")
        browser.value("document.querySelector('button[type=submit]').click()")
        browser.until("document.querySelector('textarea').value.length > 8")
        assert browser.value("document.querySelector('textarea').value").startswith("a b c")
        assert is_whole(browser, 500)
