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
    """What no other block says, as HTML of its own: filled by `render`, never made from data."""

    html: Markup


@dataclass(frozen=True)
class Paragraph(Block):
    """A paragraph; `kind` is a class of the page's style, as `soft`."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Heading(Block):
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Listing(Block):
    """A numbered list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Quote(Block):
    """Lines of a quoted text."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Code(Block):
    """Text in a typewriter's letters, its lines as they are."""

    text: str


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
class Cards(Block):
    """Main figures at a glance: a name, a figure and a note for each."""

    cards: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Scale(Block):
    """What colours mean, from `low` to `high`; `kind` names the colours in the page's style."""

    low: str
    high: str
    kind: str


@dataclass(frozen=True)
class Picture(Block):
    """A raster picture in ink of the page's colours, which a click enlarges.

    `tiles` draws lines between equal parts of its rows; `square` keeps its own proportions.
    """

    png: bytes
    label: str
    tiles: int = 1
    square: bool = False


@dataclass(frozen=True)
class Pictures(Block):
    """Pictures side by side, a note below each."""

    pictures: Sequence[tuple[Picture, str]]


@dataclass(frozen=True)
class Figure(Block):
    """A chart or pictures with a heading and what they say."""

    title: str
    drawing: Markup | Picture | Pictures
    caption: str = ""


@dataclass(frozen=True)
class Grid(Block):
    """Figures side by side as far as there is room; `kind` is a class of the page's style."""

    figures: Sequence[Figure]
    kind: str = "grid"


@dataclass(frozen=True)
class Folded(Block):
    """Something long that opens on demand."""

    summary: str
    blocks: Sequence[Block]
