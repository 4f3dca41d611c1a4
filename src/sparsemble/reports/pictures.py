"""The charts of a report as files of their own, to be shown elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from sparsemble.pages.blocks import Block, Figure, Folded, Grid, Section
from sparsemble.pages.document import chart_file
from sparsemble.store import write_text


def write_pictures(sections: Iterable[Section], folder: Path) -> list[Path]:
    """Write every chart as an SVG file that is called by its title.

    Args:
        sections: Of a report.
        folder: For the files; one of the same name is replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for figure in _figures(sections):
        name = re.sub(r"\W+", "-", figure.title.lower()).strip("-")
        if "<svg" not in figure.drawing or folder / f"{name}.svg" in written:
            continue
        written.append(folder / f"{name}.svg")
        write_text(written[-1], chart_file(figure.drawing))
    return written


def _figures(blocks: Iterable[Block]) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Grid):
            yield from block.figures
        elif isinstance(block, Section | Folded):
            yield from _figures(block.blocks)
