"""The page: one HTML file with everything in it, readable without a network, on paper, on a phone.

Its only script is the one in `report.js`; the policy in its head lets no other run, and nothing be
loaded.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from sparsemble.reports.facts import Facts, collect
from sparsemble.reports.markup import Html, element
from sparsemble.reports.sections.background import repeating
from sparsemble.reports.sections.classes import calibration, confusions, doubts
from sparsemble.reports.sections.learning import stages, traces
from sparsemble.reports.sections.overview import advice, overview
from sparsemble.reports.sections.parts import Section
from sparsemble.reports.sections.structure import costs, patterns, spreads
from sparsemble.reports.sections.words import reading, sample_text
from sparsemble.runs import RunFolder
from sparsemble.store import write_atomically


def write_report(
    run: Path,
    out: Path | None = None,
    data_folder: Path | None = None,
    *,
    samples_folder: Path | None = None,
    code: Sequence[str] = (),
) -> Path:
    """Explain a finished run in one HTML file, by default `report.html` in its folder.

    `samples_folder` is where the samples lie if runs share them; `code` names the user's own
    functions that the recipe may call.
    """
    target = out or RunFolder(run).report
    facts = collect(
        run,
        samples_folder=samples_folder,
        data_folder=data_folder,
        code=code,
        without=target,
    )
    write_atomically(target, page(facts).encode())
    return target


def page(facts: Facts) -> str:
    """The whole file."""
    sections = _sections(facts)
    style, script = (Html(_resource(name)) for name in ("report.css", "report.js"))
    title = f"{facts.summary.recipe}, seed {facts.summary.seed}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title}: a sparse ensemble"),
        element("style", style),
    )
    body = element(
        "body",
        element(
            "div",
            _top(facts),
            _contents(sections),
            element("main", *(section.html() for section in sections)),
            element(
                "footer",
                f"Written by sparsemble {facts.background.environment.get('sparsemble', '')} from ",
                element("code", facts.background.folder),
            ),
            class_="page",
        ),
        element("div", id="tip", hidden=True, role="status"),
        element("dialog", id="large", aria_label="Enlarged picture"),
        element("script", script),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _sections(facts: Facts) -> list[Section]:
    found = [overview(facts), advice(facts), stages(facts), traces(facts)]
    if facts.classes is not None:
        found += [calibration(facts.classes), confusions(facts.classes), doubts(facts.classes)]
    if facts.text is not None:
        found += [reading(facts.text), sample_text(facts.text)]
    spread = spreads(facts)
    found += [patterns(facts), *([spread] if spread is not None else []), costs(facts)]
    return [*found, repeating(facts)]


def _top(facts: Facts) -> Html:
    summary = facts.summary
    chips = [
        f"{summary.members} {summary.kind}",
        f"measured on {summary.measured_on}",
        f"seed {summary.seed}",
    ]
    return element(
        "header",
        element(
            "div",
            element("h1", summary.recipe),
            element("p", summary.description, class_="soft"),
            element("ul", *(element("li", chip) for chip in chips), class_="chips"),
        ),
        element("button", "light / dark", type="button", class_="theme"),
        class_="top",
    )


def _contents(sections: Sequence[Section]) -> Html:
    links = (element("li", element("a", s.title, href=f"#{s.anchor}")) for s in sections)
    return element("nav", element("ol", *links), class_="contents", aria_label="Contents")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _resource(name: str) -> str:
    return (files("sparsemble.reports") / name).read_text(encoding="utf-8")
