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

from browser import CHROMIUM
from sparsemble.data import digits, grammar
from sparsemble.ensemble import Ensemble
from sparsemble.learning.findings import Change, Finding
from sparsemble.pages.blocks import Section, Table
from sparsemble.reports import Facts, collect, page, write_report
from sparsemble.reports.opening import open_run
from sparsemble.reports.page import _sections as page_sections
from sparsemble.reports.sections.learning import traces
from sparsemble.tasks.sections.class_facts import ClassFacts, class_facts
from sparsemble.tasks.sections.classification import calibration, confusions, doubts
from sparsemble.tasks.sections.language import reading, sample_text
from sparsemble.tasks.sections.text_facts import TextFacts, text_facts

pytestmark = pytest.mark.slow

VOID = {"br", "hr", "img", "input", "link", "meta"}


@pytest.fixture(scope="module")
def every(class_run, text_run, number_run) -> dict[str, Facts]:
    runs = {"digits": class_run, "grammar": text_run, "diabetes": number_run}
    return {name: collect(run) for name, run in runs.items()}


@pytest.fixture(scope="module")
def classes(class_run) -> ClassFacts:
    test = digits()[1]
    return class_facts(Ensemble.load(class_run).evidence(test.inputs), test)


@pytest.fixture(scope="module")
def read(text_run) -> TextFacts:
    ensemble = Ensemble.load(text_run)
    return text_facts(ensemble.task, ensemble, grammar().validation, seed=0)


def of_classes(classes: ClassFacts) -> tuple[Section, ...]:
    return calibration(classes), confusions(classes), doubts(classes)


def of_text(read: TextFacts) -> tuple[Section, ...]:
    return reading(read), sample_text(read)


@pytest.fixture(scope="module", params=["digits", "grammar", "diabetes"])
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def facts(name, every) -> Facts:
    return every[name]


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


def test_every_chart_shows_something_and_reads_out_what_it_shows(written):
    for chart in written.split('<svg class="chart"')[1:]:
        drawn, _, _ = chart.partition("</svg>")
        assert re.search(r'<(path class="line[^"]*" d="M|rect class="bar|circle class="dot)', drawn)
    for attributes in Walk(written).all("svg", "chart"):
        read = json.loads(attributes.get("data-chart") or '{"x": [], "lines": []}')
        assert {len(line["y"]) for line in read["lines"]} <= {len(read["x"])}


def test_every_member_can_be_chosen(facts, written):
    walk = Walk(written)
    members = [str(k) for k in range(len(facts.sizes.members))]
    assert [option["value"] for option in walk.all("option")] == members
    parts = [a for _, a in walk.elements if a.get("data-among") == "member"]
    assert [part["data-item"] for part in parts] == members
    assert ["hidden" in part for part in parts] == [k != "0" for k in members]


def test_a_page_stays_small(every):
    for facts in every.values():
        assert len(page(facts)) < 300_000


HOSTILE = "</script></style><script>alert(1)</script><img src=//x onerror=alert(1)>\"'&"
# What the page decides by, not what it shows as it stands.
KEPT_FIELDS = {"stage", "column", "metrics", "outcome", "kind", "key", "style", "better"}
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


@pytest.fixture
def poisoned_sections(name, classes, read, number_run) -> tuple[Section, ...]:
    """What the task shows, of hostile names and words."""
    if name == "digits":
        return of_classes(poisoned(classes))
    if name == "grammar":
        return of_text(poisoned(read))
    run = open_run(number_run)
    task = run.task.model_copy(update={"target_names": (HOSTILE,)})
    data = replace(run.held.data, target_names=(HOSTILE,))
    held = replace(run.held, name=HOSTILE, data=data)
    return tuple(task.sections(run.ensemble, held, 0))


def test_no_text_from_data_becomes_markup(facts, written, poisoned_sections):
    bare = poisoned(replace(facts, predictions=()))
    found = page(replace(bare, predictions=poisoned_sections))
    tags = [tag for tag, _ in Walk(found).elements]
    assert tags == [tag for tag, _ in Walk(written).elements]
    assert found.count("&lt;script&gt;alert(1)") > 50
    assert "<script>alert" not in found
    shown = {name for _, attributes in Walk(found).elements for name in attributes}
    assert "onerror" not in shown


def test_a_tasks_sections_are_those_of_its_facts(every, classes, read):
    for name, sections in (("digits", of_classes(classes)), ("grammar", of_text(read))):
        assert list(map(str, sections)) == list(map(str, every[name].predictions))


def test_many_classes_are_shown_by_their_confusions(every, classes):
    names = tuple(f"kind {k}" for k in range(40))
    counts = np.zeros((40, 40), dtype=int)
    counts[3, 7] = 5
    crowded = replace(classes, class_names=names, confusion=tuple(map(tuple, counts.tolist())))
    found = page(replace(every["digits"], predictions=of_classes(crowded)))
    assert "kind 3 taken for kind 7: 5" in found
    assert 'class="confusion"' not in found


def test_what_is_the_same_everywhere_is_said_not_listed(every, classes, read):
    alike = replace(classes, by_information=(), by_entropy=())
    found = page(replace(every["digits"], predictions=of_classes(alike)))
    assert 'class="doubts"' not in found
    assert "The members disagree about no example more than others, so none is shown." in found
    assert "The ensemble is as sure of one example as of any other, so none is shown." in found
    plain = replace(read, most=(), least=())
    found = page(replace(every["grammar"], predictions=of_text(plain)))
    assert found.count("Nowhere more than elsewhere: at every word of this text") == 2
    assert '<th scope="col" class="text">After</th>' not in found


def test_costs_name_layers_not_modules(every):
    heads = re.findall(r"<th[^>]*>(FLOPs[^<]*)", page(every["digits"]))
    layers = ["FLOPs, layer 1", "FLOPs, layer 2", "FLOPs, layer 3", "FLOPs in all"]
    assert heads == ["FLOPs", *layers, *layers, "FLOPs"]


def test_pictures_are_explained_in_words_that_hold_for_light_and_dark(written):
    assert "the stronger the ink, the larger the weight" in written
    assert "dark" not in "".join(re.findall(r"<(?:p|figcaption)[^>]*>[^<]*", written))


def test_what_was_not_judged_is_shown_as_that(every):
    answers = (
        Finding("stationarity", None, "neutral", "trace too short to judge"),
        Finding("members", None, "good", "fine", judged_on="the test images: choose otherwise"),
    )
    found = page(replace(every["digits"], advice=answers))
    items = re.search(r'<ul class="advice">(.*?)</ul>', found, re.S).group(1).split("</li>")
    assert 'class="neutral"' in items[0]
    assert "to know" in items[0]
    assert "Judged on" not in items[0]
    assert "Judged on the test images: choose otherwise." in items[1]
    assert "Nothing asks for a change." in found


def test_changes_are_shown_as_options_to_copy(every):
    changes = (Change("chain.burn_in", 10, 30), Change("chain.epochs", 60, 80))
    answer = Finding("stationarity", -9.0, "attention", "it falls", changes)
    found = page(replace(every["digits"], advice=(answer,)))
    assert "<code>--set chain.burn_in=30 --set chain.epochs=80</code>" in found


def test_a_baseline_is_drawn_only_where_it_compares(every):
    facts = every["digits"]
    assert ">baseline</text>" not in page(facts)
    own, single = facts.summary.contenders
    beside = replace(
        facts.summary, contenders=(own, replace(single, name="b"), single), baseline=single
    )
    assert page(replace(facts, summary=beside)).count(">baseline</text>") == 2
    part = tuple(replace(curves, whole=False) for curves in facts.curves)
    assert ">baseline</text>" not in page(replace(facts, summary=beside, curves=part))


# --- on the command line ---------------------------------------------------------------------


def test_the_command_writes_into_the_run_and_says_where(command, class_run, tmp_path):
    code, out, _ = command("report", class_run)
    assert code == 0
    assert out.strip() == str(class_run / "report.html")
    first = (class_run / "report.html").read_text()
    # The report does not list itself, so that writing it again gives the same.
    assert command("report", class_run, "--out", tmp_path / "deep" / "other.html")[0] == 0
    assert "report.html" in (tmp_path / "deep" / "other.html").read_text()
    assert command("report", class_run)[0] == 0
    assert (class_run / "report.html").read_text() == first
    (class_run / "report.html").unlink()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("run.json", "is not a run folder: it has no run.json"),
        ("result.json", "is not finished: sparsemble resume"),
        ("ensemble", "is not finished: sparsemble resume"),
    ],
)
def test_what_cannot_be_reported_is_one_clear_line(command, class_run, tmp_path, missing, message):
    folder = shutil.copytree(class_run, tmp_path / "run")
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
const failed = [], check = (fine, what) => { if (!fine) failed.push(what); };
addEventListener("error", (e) => failed.push(e.message));
addEventListener("unhandledrejection", (e) => failed.push(String(e.reason)));
console.error = (...words) => failed.push(words.join(" "));
addEventListener("load", () => setTimeout(() => {
  const page = document.documentElement, tip = document.getElementById("tip");
  const at = (node) => node.getBoundingClientRect();
  const all = (what) => [...document.querySelectorAll(what)];
  const seen = (node) => node.closest("[hidden], details:not([open])") === null;

  check(innerWidth === WIDTH, "the page is as wide as asked");
  check(page.scrollWidth <= innerWidth, "the page does not scroll sideways");
  for (const node of all("figure, svg.chart, button.picture, img").filter(seen))
    check(at(node).width > 20 && at(node).height > 20, "has a size: " + node.outerHTML);
  for (const image of all("img").filter(seen)) check(image.naturalWidth, "is an image");
  for (const text of all("svg.chart text").filter(seen)) {
    const own = at(text), svg = text.ownerSVGElement, chart = at(svg);
    const size = parseFloat(getComputedStyle(text).fontSize);
    check(size * chart.width / svg.viewBox.baseVal.width > 10, "is legible: " + text.textContent);
    check(own.left > chart.left - 1 && own.right < chart.right + 1 && own.top > chart.top - 1,
          "is not cut off: " + text.textContent);
  }
  for (const box of all(".scroll").filter(seen))
    check(box.matches(".wide.more-right") === box.scrollWidth > box.clientWidth + 1,
          "a table that goes on says so");

  const ink = () => getComputedStyle(document.querySelector("img.ink")).filter;
  page.dataset.theme = "light";
  check(ink() === "none", "ink is dark on light pages");
  page.dataset.theme = "dark";
  check(ink() === "invert(1)", "ink is light on dark pages");
  delete page.dataset.theme;

  const chart = document.querySelector("svg[data-chart]"), box = at(chart);
  const where = { clientX: box.left + box.width / 2, clientY: box.top + 50, bubbles: true };
  chart.dispatchEvent(new PointerEvent("pointermove", where));
  check(!tip.hidden && tip.innerText.startsWith("Sample "), "a chart is read out at the pointer");
  chart.dispatchEvent(new PointerEvent("pointerleave", {}));
  check(tip.hidden, "the read-out goes with the pointer");
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  check(!tip.hidden, "a chart is read out by keys");
  document.querySelector(".bar").dispatchEvent(new PointerEvent("pointerover", where));
  check(tip.innerText.includes(" from "), "a bar is read out");

  const select = document.querySelector("select");
  select.value = "1";
  select.dispatchEvent(new Event("change"));
  const chosen = all("[data-among=member]").filter((node) => !node.hidden);
  check(chosen.map((node) => node.dataset.item).join() === "1", "the member chosen is shown");

  const picture = all("button.picture").find(seen), large = document.getElementById("large");
  picture.click();
  check(large.open && at(large.querySelector("img")).height > at(picture).height, "it enlarges");
  large.click();
  check(!large.open, "it closes");
  const paper = () => getComputedStyle(document.body).backgroundColor, before = paper();
  document.querySelector("button.theme").click();
  check(before !== paper(), "the theme changes");
  dispatchEvent(new Event("beforeprint"));
  check(all("details:not([open])").length === 0, "everything is printed");

  const out = document.createElement("pre");
  out.id = "failed";
  out.textContent = JSON.stringify(failed);
  document.body.append(out);
}, 50));
</script>
"""


def in_a_frame(text: str, width: int) -> str:
    """A page as narrow as no window of the browser is; what its probe says is handed out."""
    return f"""<!doctype html><title>frame</title>
<iframe style="width:{width}px;height:1500px;border:0" srcdoc="{html.escape(text)}"></iframe>
<script>
addEventListener("load", () => setInterval(() => {{
  const out = document.querySelector("iframe").contentDocument.getElementById("failed");
  if (out && !document.getElementById("failed")) document.body.append(out.cloneNode(true));
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
@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.thorough), 390])
def test_in_a_browser_everything_is_seen_and_answers(written, tmp_path, width):
    probe = PROBE.replace("WIDTH", str(width))
    copy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', lambda _: probe, written)
    (tmp_path / "probed.html").write_text(in_a_frame(copy, width))
    dom, said = browse(tmp_path / "probed.html")
    (failed,) = re.findall(r'<pre id="failed">(.*?)</pre>', dom, re.S)
    assert (json.loads(html.unescape(failed)), said) == ([], "")


@needs_browser
def test_the_page_as_it_is_leaves_the_console_empty(written, tmp_path):
    (tmp_path / "report.html").write_text(written)
    dom, said = browse(tmp_path / "report.html")
    assert said == ""
    assert 'aria-label="' in dom.split('<svg class="chart"')[1][:3000]  # its script has run


@needs_browser
def test_a_script_that_is_not_the_pages_own_does_not_run(every, tmp_path):
    added = page(every["digits"]).replace(
        "</body>", "<script>document.title = 'owned'</script></body>"
    )
    (tmp_path / "report.html").write_text(added)
    dom, said = browse(tmp_path / "report.html")
    assert "<title>owned" not in dom
    assert "Content Security Policy" in said


def test_write_report_is_the_same_from_python(class_run, tmp_path):
    assert write_report(class_run, tmp_path / "here.html") == tmp_path / "here.html"
    assert (tmp_path / "here.html").read_text().startswith("<!doctype html>")


def test_what_training_cost_stands_in_a_table(facts):
    training, members = facts.training, facts.summary.members
    (section,) = [s for s in page_sections(facts) if s.anchor == "training"]
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert table.header[-2:] == ["of one dense network", f"of {members} dense networks"]
    *stages, total, dense = table.rows
    assert [row[0] for row in stages] == ["sampling", "retraining"]
    assert [row[1] for row in (total, dense)] == [
        f"{training.total.epochs:.4g}",
        f"{facts.result.recipe.chain.epochs}",
    ]
    assert float(total[-1].rstrip("×")) == pytest.approx(
        training.total.flops / training.dense.flops / members, abs=0.006
    )


def test_the_cost_of_epochs_is_drawn_where_it_changes(facts):
    (trace, *_) = facts.traces
    assert "FLOPs of an epoch" not in str(traces(facts))
    (chain, *_) = trace.chains
    falling = tuple(flops / (1 + k) for k, flops in enumerate(chain.flops))
    shed = replace(trace, chains=(replace(chain, flops=falling),))
    drawn = str(traces(replace(facts, traces=(shed,))))
    assert "FLOPs of an epoch" in drawn
    assert "Seconds of an epoch" in drawn
