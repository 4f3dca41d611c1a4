"""The file around the sections: one HTML file, readable without a network, on paper, on a phone.

Its only script is that of `theme.js` and `report.js`; the policy in its head lets no other run, and
nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files

from markupsafe import Markup

from sparsemble.pages.blocks import Section
from sparsemble.pages.render import render

_CHART = r'<svg class="chart" role="img" viewBox="0 (\S+) (\S+) (\S+)"[^>]*>(.*)</svg>'
_WIDTH = 720
"""Of a chart in a file of its own, in pixels."""


def document(
    title: str,
    sections: Sequence[Section],
    *,
    heading: str,
    lead: str,
    chips: Sequence[str] = (),
    footer: str = "",
) -> str:
    """A whole page.

    Args:
        title: What the browser calls it.
        sections: Its contents, each reached by a link at the top or side.
        heading: What stands at its top.
        lead: What stands below the heading.
        chips: A few words each on what the page is about.
        footer: What stands at its end.
    """
    own = script("theme", "report")
    page = render(
        "pages/templates/page.html",
        title=title,
        sections=sections,
        heading=heading,
        lead=lead,
        chips=chips,
        footer=footer,
        style=style("colours", "report", "chart"),
        script=own,
        digest=base64.b64encode(hashlib.sha256(own.encode()).digest()).decode(),
    )
    return str(page)


def charts_file(charts: Sequence[Markup]) -> str:
    """Charts below each other as an SVG file of their own."""
    shapes, width, height = Markup(), 0.0, 0.0
    for chart in charts:
        found = re.fullmatch(_CHART, str(chart).strip(), re.DOTALL)
        assert found is not None
        top, wide, high = (float(found[k]) for k in (1, 2, 3))
        place = Markup('<g transform="translate(0 {:g})">').format(height - top)
        shapes += place + Markup(found[4]) + Markup("</g>\n")
        width, height = max(width, wide), height + high
    titles = Markup(" / ").join(
        Markup(found[1]) for c in charts if (found := re.search("<title>(.*?)</title>", c))
    )
    whole = Markup('<svg class="chart" role="img" viewBox="0 0 {:g} {:g}">\n<title>{}</title>\n')
    return chart_file(whole.format(width, height, titles) + shapes + Markup("</svg>\n"))


def chart_file(chart: Markup) -> str:
    """A chart as an SVG file of its own."""
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
    styled = f"<style>{style('colours', 'chart')}</style>"
    first, _, rest = str(chart).partition("<title>")
    return f"{first.replace('<svg ', opened, 1)}{styled}\n<title>{rest}"


def style(*names: str) -> Markup:
    """Style sheets of pages, one after the other."""
    return Markup("").join(_resource(f"{name}.css") for name in names)


def script(*names: str) -> Markup:
    """Scripts of pages, one after the other."""
    return Markup("").join(_resource(f"{name}.js") for name in names)


def _resource(name: str) -> Markup:
    return Markup((files("sparsemble.pages") / name).read_text(encoding="utf-8"))
