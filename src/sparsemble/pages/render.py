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


def render(template: str, **values: object) -> Markup:
    """A file of `templates`, filled; a value that is missing raises."""
    return Markup(_environment().get_template(template).render(values))


def render_block(name: str, **fields: object) -> Markup:
    """One of the macros in `blocks.html`, filled."""
    html: Markup = getattr(_environment().get_template("blocks.html").module, name)(**fields)
    return html


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from sparsemble.pages import images, numbers

    environment = Environment(
        loader=PackageLoader("sparsemble.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (
        *(numbers.figure, numbers.count, numbers.size, numbers.duration),
        *(images.grey_png, images.data_uri),
    )
    environment.filters.update({function.__name__: function for function in filters})
    return environment
