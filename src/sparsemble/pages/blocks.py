"""What sections are made of. Every block is HTML through the macro of its name in `blocks.html`.

In a template `{{ block }}` shows a block; text in its fields is escaped there.

>>> str(Paragraph("a < b"))
'<p>a &lt; b</p>'
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sparsemble.pages.render import render_block


class Block:
    """A part of a section; its fields are the arguments of its macro."""

    def __html__(self) -> Markup:
        return render_block(type(self).__name__.lower(), **vars(self))

    def __str__(self) -> str:
        return str(self.__html__())


@dataclass(frozen=True)
class Section(Block):
    """A part of a page; it stands in the table of contents under its title."""

    anchor: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Fragment(Block):
    """What no other block can show, as HTML: made by `render` or `Markup.format`."""

    html: Markup


@dataclass(frozen=True)
class Paragraph(Block):
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Heading(Block):
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Listing(Block):
    """A numbered list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table(Block):
    """A table that scrolls sideways where it is too wide.

    The first cell of a row is its head; columns not among `texts` hold numbers; with `lead` the
    first row stands out.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Collection[int] = (0,)
    lead: bool = False


@dataclass(frozen=True)
class Figure(Block):
    """A chart with its heading and what it says."""

    title: str
    drawing: Markup
    caption: str = ""


@dataclass(frozen=True)
class Grid(Block):
    """Figures side by side as far as there is room."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Folded(Block):
    """Something long that opens on demand."""

    summary: str
    blocks: Sequence[Block]
