"""The toolkit of pages: what is shown is escaped, charts show their values, pictures are PNG."""

from __future__ import annotations

import html
import json
import math
import re
import struct
import zlib
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from sparsemble.pages import blocks
from sparsemble.pages.axes import axis, log_axis, spread_out, tick_label, whole_axis
from sparsemble.pages.charts import (
    Bars,
    Line,
    Mark,
    bar_chart,
    line_chart,
    reliability_chart,
    scatter_chart,
)
from sparsemble.pages.document import chart_file, charts_file, document
from sparsemble.pages.images import grey_png, ink_png
from sparsemble.pages.numbers import duration
from sparsemble.pages.render import render
from sparsemble.pages.spots import Spot, spot_chart

HOSTILE = "</script><script>alert(1)</script>\"'&"


# --- blocks ----------------------------------------------------------------------------------

FIGURE = blocks.Figure(
    HOSTILE,
    line_chart(
        HOSTILE,
        HOSTILE,
        [1],
        [Line(HOSTILE, (1.0,), label=HOSTILE)],
        x_label=HOSTILE,
        y_label=HOSTILE,
    ),
    HOSTILE,
)


@pytest.mark.parametrize(
    "block",
    [
        blocks.Paragraph(HOSTILE),
        blocks.Heading(HOSTILE),
        blocks.Listing([HOSTILE]),
        blocks.Table([HOSTILE], [[HOSTILE]], lead=True),
        FIGURE,
        blocks.Grid([FIGURE]),
        blocks.Folded(HOSTILE, [blocks.Heading(HOSTILE)]),
        blocks.Section(HOSTILE, HOSTILE, [blocks.Heading(HOSTILE)]),
    ],
    ids=lambda block: type(block).__name__,
)
def test_text_in_a_block_is_shown_as_it_is(block):
    shown = str(block)
    assert "<script" not in shown
    assert HOSTILE in html.unescape(shown)
    assert "&amp;lt;" not in shown  # escaped once


def test_a_fragment_is_html_already():
    section = blocks.Section("a", "b", [blocks.Fragment(Markup("<hr class='own'>"))])
    assert "<hr class='own'>" in str(section)


def test_columns_of_numbers_and_of_text_are_told_apart():
    shown = str(blocks.Table(["a", "b", "c"], [["1", "2", "3"]], texts=(0, 2)))
    assert re.findall(r'<t[hd][^>]*class="(\w+)"', shown) == ["text", "number", "text"] * 2


def test_a_template_refuses_to_be_filled_in_part():
    with pytest.raises(UndefinedError, match="is undefined"):
        render("pages/templates/chart.html", title="t")


def test_a_document_links_to_its_sections():
    sections = [blocks.Section("one", "First", ()), blocks.Section("two", "Second", ())]
    page = document("t", sections, heading="h", lead="l", footer="a < b")
    assert re.findall(r'href="#(\w+)">(\w+)', page) == [("one", "First"), ("two", "Second")]
    assert re.findall(r'<section id="(\w+)"', page) == ["one", "two"]
    assert "<footer>a &lt; b</footer>" in page


# --- charts ----------------------------------------------------------------------------------


def shapes(chart: str, kind: str) -> list[dict[str, str]]:
    """The attributes of all shapes of a class."""
    found: list[dict[str, str]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if kind in dict(attrs).get("class", "").split():
                found.append(dict(attrs))

    Reader().feed(chart)
    return found


def test_charts_leave_out_what_is_not_a_number():
    chart = line_chart(
        "t",
        "d",
        [1, 2, 3, 4],
        [Line("a", (1.0, float("nan"), 2.0, 3.0), label="end")],
        x_label="x",
        y_label="y",
        levels=[Mark(2.5, "level")],
    )
    path = re.search(r'd="([^"]*)"', chart).group(1)
    assert (path.count("M"), path.count("L")) == (2, 1)
    assert "null" in chart
    assert "nan" not in chart.lower()


def read_out(chart: str) -> dict:
    return json.loads(html.unescape(re.search(r'data-chart="([^"]*)"', chart).group(1)))


@pytest.mark.parametrize("number", [5000, 5001, 401])
def test_long_lines_are_thinned_but_keep_both_ends(number):
    values = tuple(float(k) for k in range(number))
    chart = line_chart("t", "d", range(number), [Line("a", values)], x_label="x", y_label="y")
    assert len(chart) < 20_000
    read = read_out(chart)
    assert (read["x"][0], read["x"][-1]) == (0, number - 1)
    assert read["lines"][0]["y"] == read["x"]
    assert len(read["x"]) <= 401


def test_a_plot_leaves_room_for_wide_numbers_beside_it():
    def left(*values):
        chart = line_chart("t", "d", [1, 2], [Line("a", values)], x_label="x", y_label="y")
        return read_out(chart)["left"]

    assert left(1.0, 2.0) == 54
    # Seven figures of the 17 pixels that a phone's letters have are some 70 wide.
    assert left(101.944, 101.952) > 75


def test_the_word_of_an_upright_mark_stands_above_every_curve():
    chart = line_chart(
        "t",
        "d",
        [1, 2, 3, 4],
        [Line("a", (1.0, 1.0, 1.0, 1.0))],
        x_label="x",
        y_label="share",
        low=0,
        marks=[Mark(2, "burn-in"), Mark(2, "again"), Mark(9, "outside")],
    )
    words = {w: float(y) for y, w in re.findall(r'<text[^>]* y="([-\d.]+)"[^>]*>([^<]+)', chart)}
    highest = min(float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", chart))
    top = float(re.search(r'viewBox="0 (-?\d+)', chart).group(1))
    assert top + 12 < words["share"] < words["again"] < words["burn-in"] < highest
    assert "outside" not in words


def test_bars_are_as_high_as_their_values():
    chart = bar_chart("t", "d", [0.0, 0.5, 1.0], [Bars("n", (1.0, 3.0))], x_label="x", y_label="y")
    low, high = (float(h) for h in re.findall(r'height="([\d.]+)"', chart))
    assert high == pytest.approx(3 * low, rel=1e-3)
    assert "n: 3 from 0.5 to 1" in chart


def test_a_histogram_may_begin_below_zero():
    edges = [-0.0002, -0.0001, 0.0, 0.0001]
    chart = bar_chart("t", "d", edges, [Bars("n", (2.0, 4.0, 1.0))], x_label="x", y_label="y")
    bars = shapes(chart, "bar")
    assert [one["data-tip"] for one in bars] == [
        "n: 2 from −0.0002 to −0.0001",
        "n: 4 from −0.0001 to 0",
        "n: 1 from 0 to 0.0001",
    ]
    places = [float(one["x"]) for one in bars]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=1e-2)
    assert ">−0.0002</text>" in chart


def test_reliable_predictions_lie_on_the_diagonal_and_empty_bins_nowhere():
    bins = [(0.5, 0.5, 0.25), (math.nan, math.nan, 0.0), (1.0, 1.0, 0.75)]
    chart = reliability_chart("t", "d", [("one", bins)])
    (diagonal,) = shapes(chart, "diagonal")
    middle, end = shapes(chart, "dot")
    assert (end["cx"], end["cy"]) == (diagonal["x2"], diagonal["y2"])
    halfway = (float(diagonal["x1"]) + float(diagonal["x2"])) / 2
    assert float(middle["cx"]) == pytest.approx(halfway)
    assert float(middle["r"]) < float(end["r"])
    assert end["data-tip"] == "one: right 100% at a confidence of 100% (75.0% of the predictions)"


SQUARE = {"x_label": "True", "y_label": "Predicted", "diagonal": True}


def test_points_lie_where_their_values_are():
    chart = scatter_chart("t", "d", [(0, 0), (10, 10), (10, 5), (math.nan, 1)], **SQUARE)
    (diagonal,) = shapes(chart, "diagonal")
    begins = complex(float(diagonal["x1"]), float(diagonal["y1"]))
    zero, ten, beside = (complex(float(d["cx"]), float(d["cy"])) for d in shapes(chart, "dot"))
    for point in (zero, ten):  # as far up as across, from where the diagonal begins
        away = point - begins
        assert -away.imag == pytest.approx(away.real, abs=1e-2)
    assert beside.real == ten.real
    assert beside.imag == pytest.approx((zero.imag + ten.imag) / 2, abs=1e-2)
    assert shapes(chart, "dot")[2]["data-tip"] == "True 10\nPredicted 5"


def test_a_band_reaches_from_its_lower_to_its_upper_heights():
    band = [(0, 1, 3), (10, 2, 4)]
    chart = scatter_chart("t", "d", [(5, 0), (5, 5)], x_label="x", y_label="y", band=band)
    (shape,) = shapes(chart, "band")
    corners = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) ([\d.]+)", shape["d"])]
    low, high = (float(one["cy"]) for one in shapes(chart, "dot"))
    heights = [5 * (low - y) / (low - high) for _, y in corners]
    assert heights == pytest.approx([3, 4, 2, 1], abs=0.01)
    assert corners[0][0] == corners[3][0] < corners[1][0] == corners[2][0]


def test_many_points_are_thinned_and_keep_what_is_said_of_them():
    points = [(float(k), float(-k)) for k in range(5001)]
    tips = [f"number {k}" for k in range(5001)]
    chart = scatter_chart("t", "d", points, x_label="x", y_label="y", tips=tips)
    dots = shapes(chart, "dot")
    assert 1000 < len(dots) <= 2001
    assert (dots[0]["data-tip"], dots[-1]["data-tip"]) == ("number 0", "number 5000")
    places = [float(one["cx"]) for one in dots]
    assert places == sorted(places)


def test_a_chart_of_nothing_is_an_empty_plot():
    assert shapes(scatter_chart("t", "d", [], **SQUARE), "dot") == []


# --- pictures and axes -----------------------------------------------------------------------


def decoded(png: bytes) -> tuple[tuple[int, ...], np.ndarray, dict[bytes, bytes]]:
    """A PNG of unfiltered lines: header, samples, other chunks; every checksum verified."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind] = body
        at += 12 + length
    assert next(iter(chunks)) == b"IHDR"
    assert list(chunks)[-1] == b"IEND"
    header = struct.unpack(">IIBBBBB", chunks.pop(b"IHDR"))
    width, height, depth = header[:3]
    raw = np.frombuffer(zlib.decompress(chunks.pop(b"IDAT")), np.uint8).reshape(height, -1)
    assert not raw[:, 0].any()
    bits = np.unpackbits(raw[:, 1:], axis=1)[:, : width * depth].reshape(height, width, depth)
    return header, (bits * (1 << np.arange(depth)[::-1])).sum(-1), chunks


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 8)])
def test_ink_is_a_png_of_sixteen_opacities(shape):
    levels = (np.arange(shape[0] * shape[1]) % 16).reshape(shape)
    header, values, chunks = decoded(ink_png(levels))
    assert header == (shape[1], shape[0], 4, 3, 0, 0, 0)
    assert (values == levels).all()
    assert list(chunks[b"tRNS"]) == [17 * k for k in range(16)]
    assert chunks[b"PLTE"] == bytes(48)


def test_grey_is_a_png_of_bytes():
    values = np.array([[0, 128, 255], [1, 2, 3]])
    header, found, _ = decoded(grey_png(values))
    assert header == (3, 2, 8, 0, 0, 0, 0)
    assert (found == values).all()


@pytest.mark.parametrize("levels", [np.full((2, 2), 16), np.zeros((0, 2)), np.zeros(3)])
def test_what_is_no_picture_is_refused(levels):
    with pytest.raises(ValueError, match="levels 0 to 15"):
        ink_png(levels)


def test_axes_have_round_ticks_and_cover_the_values():
    found = axis([0.013, 0.087, math.nan], 0, 100)
    assert found.ticks == (0.0, 0.02, 0.04, 0.06, 0.08, 0.1)
    assert (found(0.0), found(0.1)) == (0, 100)
    flat = axis([3.0, 3.0], 0, 1)
    assert flat.low < 3 < flat.high
    nearly = axis([2.30610736, 2.30610737], 0, 1)
    assert len(set(map(tick_label, nearly.ticks))) == len(nearly.ticks) > 2
    assert whole_axis(1, 18, 0, 1).ticks == (1.0, 5.0, 10.0, 15.0)
    for kind in (axis, log_axis):
        assert kind([1.0, 5.0, 1e308, -1e308, math.inf], 0, 1) == kind([1.0, 5.0], 0, 1)
    assert axis([-1.0], 0, 1, low=0.0).low == 0  # also where all lies below what was asked for
    assert log_axis([1.0, 5.0], 0, 1)(0.0) == 0
    assert len(whole_axis(10**15, 10**15 + 3, 0, 1).ticks) == 4  # and does not count from 0


def test_labels_are_moved_apart_in_order():
    assert spread_out([10, 11, 50], 14, 0, 100) == [10, 24, 50]
    assert spread_out([99, 98], 14, 0, 100) == [100, 86]


@pytest.mark.parametrize(
    ("seconds", "said"), [(12, "12 s"), (119, "119 s"), (300, "5 min"), (9000, "2.5 h")]
)
def test_durations_are_said_plainly(seconds, said):
    assert duration(seconds) == said


def test_the_names_of_points_lie_beside_them_and_apart():
    spots = [Spot(f"name {k}", 1 + k / 50, 0.5, tone=k % 2, tip=f"tip {k}") for k in range(4)]
    chart = spot_chart("t", "d", [*spots, Spot("no", math.nan, 1)], x_label="x", y_label="y")
    assert [dot["data-tip"] for dot in shapes(chart, "dot")] == [f"tip {k}" for k in range(4)]
    assert re.findall(r">(name \d)<", chart) == [f"name {k}" for k in range(4)]
    places = {(word["x"], word["y"], word["class"]) for word in shapes(chart, "label")}
    assert len(places) == 4
    assert shapes(chart, "line") == []
    joined = spot_chart("t", "d", spots, x_label="x", y_label="y", joined=True)
    assert len(shapes(joined, "line")) == 2


def test_faint_points_stay_behind_the_others_and_are_not_joined():
    spots = [Spot("a", 1, 2), Spot("", 2, 5, faint=True), Spot("b", 3, 1)]
    chart = spot_chart("t", "d", spots, x_label="x", y_label="y", joined=True)
    assert [dot["class"] for dot in shapes(chart, "dot")] == ["dot t0 many", "dot t0", "dot t0"]
    assert len(shapes(chart, "label")) == 2
    (steps,) = re.findall(r'<path class="line t0 faint" d="([^"]*)"', chart)
    assert re.sub("[^A-Z]", "", steps) == "ML"


def test_a_chart_can_be_a_file_of_its_own():
    chart = spot_chart("t", "d", [Spot("a", 1, 2)], x_label="x", y_label="y")
    root = ElementTree.fromstring(chart_file(chart))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "--t0" in root.find("{http://www.w3.org/2000/svg}style").text


def test_a_joined_line_goes_on_where_values_are_missing():
    places, values = (1, 2, 3), (1.0, math.nan, 2.0)
    for joined, strokes in ((False, "MM"), (True, "ML")):
        line = Line("a", values, joined=joined)
        chart = str(line_chart("t", "d", places, [line], x_label="", y_label=""))
        (steps,) = re.findall(r'<path class="line t0" d="([^"]*)"', chart)
        assert re.sub("[^A-Z]", "", steps) == strokes


def test_charts_in_one_file_stand_below_each_other():
    chart = line_chart("a < b", "d", (1, 2), [Line("a", (1.0, 2.0))], x_label="", y_label="")
    drawing = ElementTree.fromstring(charts_file([chart, chart]))
    assert drawing.get("viewBox") == "0 0 480 580"
    moved = [part.get("transform") for part in drawing if part.tag.endswith("}g")]
    assert moved == ["translate(0 0)", "translate(0 290)"]
