"""The report as a page: well-formed, self-contained, safe, and alive in a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from sparsemble.recipes import load_recipe
from sparsemble.reports import Facts, collect, page, write_report
from sparsemble.reports.charts import Bars, Line, Mark, bar_chart, line_chart
from sparsemble.reports.markup import element, table
from sparsemble.reports.measures.advice import Advice
from sparsemble.runs.results import run_recipe

QUICK = {
    "chain.chains": 2,
    "chain.epochs": 6,
    "chain.burn_in": 2,
    "chain.interval": 4,
    "retrain.epochs": 2,
}
QUICK_TEXT = {
    "baseline": None,
    "data.portion": 0.05,
    "network.hidden": [10, 8],
    "chain.epochs": 2,
    "chain.burn_in": 0,
    "chain.interval": 1,
    "retrain.epochs": 1,
}
VOID = {"br", "hr", "img", "input", "link", "meta"}
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "run"
    run_recipe(load_recipe("digits", QUICK), folder)
    return folder


@pytest.fixture(scope="module")
def both(images, tmp_path_factory) -> dict[str, Facts]:
    text = tmp_path_factory.mktemp("grammar") / "run"
    run_recipe(load_recipe("grammar", QUICK_TEXT), text)
    return {"digits": collect(images), "grammar": collect(text)}


@pytest.fixture(scope="module", params=["digits", "grammar"])
def facts(request, both) -> Facts:
    return both[request.param]


@pytest.fixture(scope="module")
def written(facts) -> str:
    return page(facts)


class Walk(HTMLParser):
    """All elements with their attributes and text; fails where a tag is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} is given twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        return [
            a
            for t, a in self.elements
            if t == tag and kind in ["", *(a.get("class") or "").split()]
        ]


def test_every_tag_is_closed_and_every_link_has_its_target(written):
    walk = Walk(written)
    ids = Counter(a["id"] for _, a in walk.elements if "id" in a)
    assert set(ids.values()) == {1}
    links = [a["href"] for _, a in walk.elements if "href" in a]
    assert links
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    labelled = {a["for"] for a in walk.all("label")}
    assert labelled <= set(ids)


def test_nothing_is_loaded_from_anywhere(written):
    walk = Walk(written)
    for tag, attributes in walk.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/png;base64,")), (tag, value)
    style = "".join(text for tag, text in walk.texts if tag == "style")
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", written)


def test_only_the_pages_own_script_may_run(written):
    walk = Walk(written)
    (script,) = [text for tag, text in walk.texts if tag == "script"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [a["content"] for a in walk.all("meta") if "http-equiv" in a]
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert not any(name.startswith("on") for _, a in walk.elements for name in a)
    assert "innerHTML" not in script


def test_every_figure_is_there_and_holds_data(facts, written):
    walk = Walk(written)
    charts = walk.all("svg", "chart")
    members = len(facts.sizes.members)
    matrices = len(facts.pictures[0])
    # Curves and their counterparts over the number of members, four or three traces of stage 1,
    # two of stage 2, histograms of weights and of every family.
    expected = 2 * len(facts.curves) + 4 + 2 + 1 + len(facts.spreads.families)
    expected += 2 if facts.classes else 0
    assert len(charts) == expected
    drawn = written.split('<svg class="chart"')[1:]
    for one in drawn:
        assert re.search(r'<(path class="line[^"]*" d="M|rect class="bar|circle class="dot)', one)
    for attributes in charts:
        if attributes.get("data-chart"):
            read = json.loads(attributes["data-chart"])
            assert read["lines"]
            assert all(len(line["y"]) == len(read["x"]) for line in read["lines"])
    titles = [text for tag, text in walk.texts if tag == "title"]
    assert len(titles) == 1 + len(charts)
    assert len(walk.all("button", "picture")) >= 2 * members * matrices
    assert len([a for _, a in walk.elements if a.get("data-among") == "member"]) == members
    assert len(walk.all("option")) == members
    assert len(walk.all("section")) == len(walk.all("a"))
    if facts.classes:
        assert len(walk.all("table", "confusion")) == 1
        assert len(walk.all("ul", "doubts")) == 2
    else:
        reading = written.split('class="reading"')[1].split("</p>")[0]
        assert reading.count("<span") == 160
        assert "A text of its own" in written


def test_a_page_stays_small(both):
    assert len(page(both["digits"])) < 300_000
    assert len(page(both["grammar"])) < 300_000


HOSTILE = "</script></style><script>alert(1)</script><img src=//x onerror=alert(1)>\"'&"
# What the page decides by, not what it shows as it stands.
KEPT_FIELDS = {"stage", "metric", "metrics", "outcome", "kind"}
KEPT_VALUES = {"attention", "neutral", "good", "<eos>"}


def poisoned(value, name=""):
    """The same facts with a hostile text wherever there is text."""
    if isinstance(value, str):
        kept = not value or name in KEPT_FIELDS or value in KEPT_VALUES
        return value if kept else value + HOSTILE
    if is_dataclass(value):
        return replace(
            value, **{f.name: poisoned(getattr(value, f.name), f.name) for f in fields(value)}
        )
    if isinstance(value, tuple):
        return tuple(poisoned(one, name) for one in value)
    if isinstance(value, dict):
        return {key + HOSTILE: poisoned(one) for key, one in value.items()}
    return value


def test_no_text_from_data_becomes_markup(facts, written):
    found = page(poisoned(facts))
    tags = [tag for tag, _ in Walk(found).elements]
    assert tags == [tag for tag, _ in Walk(written).elements]
    assert found.count("&lt;script&gt;alert(1)") > 50
    assert "<script>alert" not in found
    shown = {name for _, attributes in Walk(found).elements for name in attributes}
    assert "onerror" not in shown


def test_what_is_not_html_is_escaped_once():
    assert element("p", "a < b & c", class_="x") == '<p class="x">a &lt; b &amp; c</p>'
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"
    assert element("img", alt='"', hidden=True, src=None) == '<img alt="&quot;" hidden>'
    assert "<th" in table(["<"], [["<"]])
    assert "&lt;" in table(["<"], [["<"]])


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


def test_many_classes_are_shown_by_their_confusions(both):
    facts = both["digits"]
    names = tuple(f"kind {k}" for k in range(40))
    counts = np.zeros((40, 40), dtype=int)
    counts[3, 7] = 5
    crowded = replace(
        facts.classes, class_names=names, confusion=tuple(map(tuple, counts.tolist()))
    )
    found = page(replace(facts, classes=crowded))
    assert "kind 3 taken for kind 7: 5" in found
    assert 'class="confusion"' not in found


def test_what_is_the_same_everywhere_is_said_not_listed(both):
    classes = replace(both["digits"].classes, by_information=(), by_entropy=())
    found = page(replace(both["digits"], classes=classes))
    assert 'class="doubts"' not in found
    assert "The members disagree about no example more than others, so none is shown." in found
    assert "The ensemble is as sure of one example as of any other, so none is shown." in found
    text = replace(both["grammar"].text, most=(), least=())
    found = page(replace(both["grammar"], text=text))
    assert found.count("Nowhere more than elsewhere: at every word of this text") == 2
    assert '<th scope="col" class="text">After</th>' not in found


def test_costs_name_layers_not_modules(both):
    heads = re.findall(r"<th[^>]*>(FLOPs[^<]*)", page(both["digits"]))
    layers = ["FLOPs, layer 1", "FLOPs, layer 2", "FLOPs, layer 3", "FLOPs in all"]
    assert heads == ["FLOPs", *layers, *layers]


def test_pictures_are_explained_in_words_that_hold_for_light_and_dark(written):
    assert "the stronger the ink, the larger the weight" in written
    assert "dark" not in "".join(re.findall(r"<(?:p|figcaption)[^>]*>[^<]*", written))


def test_what_was_not_judged_is_shown_as_that(both):
    answers = (
        Advice("stationarity", "neutral", "trace too short to judge"),
        Advice("members", "good", "fine", judged_on="the test images: choose otherwise"),
    )
    found = page(replace(both["digits"], advice=answers))
    items = re.search(r'<ul class="advice">(.*?)</ul>', found).group(1).split("</li>")
    assert 'class="neutral"' in items[0]
    assert "not judged" in items[0]
    assert "Judged on" not in items[0]
    assert "Judged on the test images: choose otherwise." in items[1]
    assert "Nothing asks for a change." in found


def test_a_baseline_is_drawn_only_where_it_compares(both):
    facts = both["digits"]
    assert ">baseline</text>" not in page(facts)
    own, single = facts.summary.contenders
    beside = replace(
        facts.summary, contenders=(own, replace(single, name="b"), single), baseline=single
    )
    assert page(replace(facts, summary=beside)).count(">baseline</text>") == 2
    part = tuple(replace(curves, whole=False) for curves in facts.curves)
    assert ">baseline</text>" not in page(replace(facts, summary=beside, curves=part))


# --- on the command line ---------------------------------------------------------------------


def test_the_command_writes_into_the_run_and_says_where(command, images, tmp_path):
    code, out, _ = command("report", images)
    assert code == 0
    assert out.strip() == str(images / "report.html")
    first = (images / "report.html").read_text()
    # The report does not list itself, so that writing it again gives the same.
    assert command("report", images, "--out", tmp_path / "deep" / "other.html")[0] == 0
    assert "report.html" in (tmp_path / "deep" / "other.html").read_text()
    assert command("report", images)[0] == 0
    assert (images / "report.html").read_text() == first
    (images / "report.html").unlink()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("run.json", "is not a run folder: it has no run.json"),
        ("result.json", "is not finished: sparsemble resume"),
        ("ensemble", "is not finished: sparsemble resume"),
    ],
)
def test_what_cannot_be_reported_is_one_clear_line(command, images, tmp_path, missing, message):
    folder = shutil.copytree(images, tmp_path / "run")
    (folder / missing).rename(tmp_path / "moved")
    code, out, err = command("report", folder)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (folder / "report.html").exists()


def test_the_command_shows_an_example(command):
    code, out, _ = command("report", "--help")
    assert code == 0
    assert "Example: sparsemble report runs/digits" in " ".join(out.split())


# --- in a browser ----------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")

PROBE = """
<script>
window.wrong = [];
addEventListener("error", (e) => wrong.push(e.message));
addEventListener("unhandledrejection", (e) => wrong.push(String(e.reason)));
console.error = (...words) => wrong.push(words.join(" "));
addEventListener("load", () => setTimeout(() => {
  const at = (node) => node.getBoundingClientRect();
  const all = (what) => [...document.querySelectorAll(what)];
  const seen = (node) => node.closest("[hidden], details:not([open])") === null;
  const sized = (node) => at(node).width > 20 && at(node).height > 20;
  const flat = (what) => all(what).filter((n) => seen(n) && !sized(n)).length;
  const found = {};
  found.figures = all("figure").filter(seen).length;
  found.flat = flat("figure") + flat("svg.chart") + flat("button.picture") + flat("img");
  found.broken = all("img").filter((i) => seen(i) && !i.naturalWidth).length;
  found.wide = document.documentElement.scrollWidth - innerWidth;
  const letters = all("svg.chart text").filter(seen);
  found.letters = Math.min(...letters.map((t) => {
    const chart = t.ownerSVGElement;
    return parseFloat(getComputedStyle(t).fontSize) * at(chart).width / chart.viewBox.baseVal.width;
  }));
  found.clipped = letters.filter((t) => {
    const own = at(t), chart = at(t.ownerSVGElement);
    return own.left < chart.left - 1 || own.right > chart.right + 1 || own.top < chart.top - 1;
  }).map((t) => t.textContent);
  const tables = all(".scroll").filter(seen);
  found.beyond = tables.filter((b) => b.scrollWidth > b.clientWidth + 1).length;
  found.told = tables.filter((b) => b.matches(".wide.more-right")).length;
  found.viewport = innerWidth;
  const ink = document.querySelector("img.ink"), kept = () => getComputedStyle(ink).filter;
  const page = document.documentElement;
  page.dataset.theme = "light";
  found.inks = [kept()];
  page.dataset.theme = "dark";
  found.inks.push(kept());
  delete page.dataset.theme;
  const tip = document.getElementById("tip");
  const chart = document.querySelector("svg[data-chart]"), box = at(chart);
  const where = { clientX: box.left + box.width / 2, clientY: box.top + 50, bubbles: true };
  chart.dispatchEvent(new PointerEvent("pointermove", where));
  found.read = tip.hidden ? null : tip.innerText;
  chart.dispatchEvent(new PointerEvent("pointerleave", {}));
  found.left = tip.hidden;
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  found.keyed = !tip.hidden;
  document.querySelector(".bar").dispatchEvent(new PointerEvent("pointerover", where));
  found.bar = tip.innerText;
  const select = document.querySelector("select");
  select.value = "1";
  select.dispatchEvent(new Event("change"));
  found.chosen = all("[data-among=member]").filter((n) => !n.hidden).map((n) => n.dataset.item);
  const picture = all("button.picture").find(seen), large = document.getElementById("large");
  picture.click();
  found.enlarged = large.open && at(large.querySelector("img")).height > at(picture).height;
  large.click();
  found.closed = !large.open;
  const dark = () => getComputedStyle(document.body).backgroundColor;
  const before = dark();
  document.querySelector("button.theme").click();
  found.theme = before !== dark();
  dispatchEvent(new Event("beforeprint"));
  found.folded = all("details:not([open])").length;
  dispatchEvent(new Event("afterprint"));
  found.wrong = wrong;
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
}, 50));
</script>
"""


def in_a_frame(text: str, width: int) -> str:
    """A page as narrow as no window of the browser is; what it found is handed out."""
    return f"""<!doctype html><title>frame</title>
<iframe style="width:{width}px;height:1500px;border:0" srcdoc="{html.escape(text)}"></iframe>
<script>
addEventListener("load", () => setInterval(() => {{
  const found = document.querySelector("iframe").contentDocument.getElementById("found");
  if (found && !document.getElementById("found")) document.body.append(found.cloneNode(true));
}}, 50));
</script>"""


def browse(file: Path) -> tuple[str, str]:
    """The page's elements after its scripts have run, and what the console said."""
    answer = subprocess.run(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={file.parent / 'profile'}",
            "--window-size=1280,2000",
            "--virtual-time-budget=5000",
            "--enable-logging=stderr",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    said = [line for line in answer.stderr.splitlines() if "CONSOLE" in line]
    return answer.stdout, "\n".join(said)


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser_every_figure_has_a_size_and_answers(written, facts, tmp_path, width):
    copy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', PROBE, written)
    (tmp_path / "probed.html").write_text(in_a_frame(copy, width))
    dom, said = browse(tmp_path / "probed.html")
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, re.S).group(1)))
    assert found["viewport"] == width
    assert (found["wrong"], said) == ([], "")
    assert found["figures"] >= 10
    assert (found["flat"], found["broken"]) == (0, 0)
    assert found["wide"] <= 0, "the page scrolls sideways"
    assert found["letters"] > 10, "letters too small to read"
    assert found["clipped"] == []
    assert found["told"] == found["beyond"]
    assert width > 390 or found["beyond"] > 0
    assert found["inks"] == ["none", "invert(1)"]
    assert found["read"].startswith("Sample ")
    assert "retrained, averaged" in found["read"]
    assert found["left"]
    assert found["keyed"]
    assert " from " in found["bar"]
    assert found["chosen"] == ["1"]
    assert found["enlarged"]
    assert found["closed"]
    assert found["theme"]
    assert found["folded"] == 0


@needs_browser
def test_the_page_as_it_is_leaves_the_console_empty(written, tmp_path):
    (tmp_path / "report.html").write_text(written)
    dom, said = browse(tmp_path / "report.html")
    assert said == ""
    assert 'aria-label="' in dom.split('<svg class="chart"')[1][:3000]  # its script has run


@needs_browser
def test_a_script_that_is_not_the_pages_own_does_not_run(both, tmp_path):
    added = page(both["digits"]).replace(
        "</body>", "<script>document.title = 'owned'</script></body>"
    )
    (tmp_path / "report.html").write_text(added)
    dom, said = browse(tmp_path / "report.html")
    assert "<title>owned" not in dom
    assert "Content Security Policy" in said


def test_write_report_is_the_same_from_python(images, tmp_path):
    assert write_report(images, tmp_path / "here.html") == tmp_path / "here.html"
    assert (tmp_path / "here.html").read_text().startswith("<!doctype html>")
