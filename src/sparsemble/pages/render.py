"""Templates filled with values; whatever is not already HTML (`Markup`) is escaped.

Jinja is imported when the first template is filled, so that whoever only makes blocks does not wait
for it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

_BLOCKS = "pages/templates/blocks.html"


def render(template: str, **values: object) -> Markup:
    """A template, named by its path within the package, filled; a missing value raises."""
    return Markup(_environment().get_template(template).render(values))


def render_block(name: str, **fields: object) -> Markup:
    """One of the macros in `blocks.html`, filled."""
    html: Markup = getattr(_environment().get_template(_BLOCKS).module, name)(**fields)
    return html


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from sparsemble.pages import images, numbers

    environment = Environment(
        loader=PackageLoader("sparsemble", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for shown in (numbers.figure, numbers.count, numbers.size, numbers.duration):
        environment.filters[shown.__name__] = shown
    for drawn in (images.ink_png, images.grey_png, images.data_uri):
        environment.filters[drawn.__name__] = drawn
    return environment
