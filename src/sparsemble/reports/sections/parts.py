"""What all sections are made of."""

from __future__ import annotations

from dataclasses import dataclass

from sparsemble.reports.markup import Html, element


@dataclass(frozen=True)
class Section:
    """A part of the page with its place in the table of contents."""

    anchor: str
    title: str
    body: Html

    def html(self) -> Html:
        """The section itself."""
        return element("section", element("h2", self.title), self.body, id=self.anchor)


def framed(title: str, drawing: Html, caption: str = "") -> Html:
    """A figure with its heading and what it says."""
    parts = [element("h4", title), drawing]
    if caption:
        parts.append(element("figcaption", caption))
    return element("figure", *parts)


def folded(summary: str, *parts: str) -> Html:
    """Something long that opens on demand."""
    return element("details", element("summary", summary), *parts)


def said(*sentences: str) -> Html:
    """A paragraph."""
    return element("p", " ".join(sentences))
