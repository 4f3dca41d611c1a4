"""HTML as values: whatever is not already HTML is escaped when it is put into an element.

element("p", "a < b", class_="note")  →  <p class="note">a &lt; b</p>
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

_VOID = {"br", "hr", "img", "input", "link", "meta"}

Attribute = str | int | float | bool | None


class Html(str):
    """Text that is HTML already; made by `element` and `joined`, never from data."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: Attribute) -> Html:
    """An element; children that are no `Html` are escaped.

    `class_` and `data_tip` stand for `class` and `data-tip`; `None` and `False` leave an attribute
    out, `True` gives it without a value.
    """
    shown = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{joined(children)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Parts one after the other, what is no `Html` escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    texts: Collection[int] = (0,),
    lead: bool = False,
) -> Html:
    """A table that scrolls sideways where it is too wide.

    The first cell of a row is its head; columns not among `texts` hold numbers; with `lead` the
    first row stands out.
    """
    kinds = ["text" if k in texts else "number" for k in range(len(header))]
    head = [element("th", c, scope="col", class_=k) for c, k in zip(header, kinds, strict=True)]
    body = []
    for row in rows:
        cells = [element("th", row[0], scope="row", class_=kinds[0])]
        cells += [element("td", c, class_=k) for c, k in zip(row[1:], kinds[1:], strict=True)]
        body.append(element("tr", *cells))
    whole = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_="lead" if lead else None,
    )
    return element("div", whole, class_="scroll", tabindex=0)


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _plain(value: str | int | float | bool) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
