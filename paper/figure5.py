"""Figure 5: where the recurrent weights of one member are left, for every way to group weights.

A run's folder is large and often gone by the time that the next row has been run, so what the
figure shows of it is kept beside the result files, a small file for every grouping.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from paper.ptb import ROWS, SizeName, run_folders
from sparsemble.ensemble import Ensemble
from sparsemble.pages.drawing import WIDTH, svg
from sparsemble.pages.images import data_uri, ink_png
from sparsemble.pages.shapes import word
from sparsemble.reports.measures.patterns import MatrixPictures, pictures_of
from sparsemble.runs import RunFolder
from sparsemble.settings import Settings
from sparsemble.store import read_json, write_json

GROUPINGS = {"untied": "Untied weights", "tied": "Tied weights", "iss": "ISS"}
_GATES = 4
_BESIDE = 2
"""Matrices beside each other: what a layer reads, and what it carries."""


class Matrix(Settings):
    """A matrix with all gates: units that it makes, units that it reads."""

    shape: tuple[int, int]
    kept: float
    """The share of its weights that is left."""
    picture: str
    """Where they are: a PNG for a page, with the gates beside each other as in the paper."""


class Pattern(Settings):
    """The recurrent layers of the first member of a run."""

    run: str
    """Whose result file says what it was run by."""
    matrices: list[Matrix]

    @property
    def kept(self) -> float:
        """The share of all their weights that is left."""
        sizes = [matrix.shape[0] * matrix.shape[1] for matrix in self.matrices]
        left = (m.kept * size for m, size in zip(self.matrices, sizes, strict=True))
        return sum(left) / sum(sizes)


def keep_patterns(size: SizeName, out: Path, work: Path) -> None:
    """Write down what the figure shows of the runs in `work`, of every grouping the first."""
    seen = set()
    for folder in _pruned_runs(size, work):
        grouping = str(RunFolder(folder).recipe().grouping)
        if grouping in GROUPINGS and grouping not in seen:
            seen.add(grouping)
            write_json(_file(size, grouping, out), _pattern(folder).model_dump(mode="json"))


def kept_patterns(size: SizeName, out: Path) -> dict[str, Pattern]:
    """What was written down, by the titles of groupings."""
    files = {title: _file(size, grouping, out) for grouping, title in GROUPINGS.items()}
    return {
        title: Pattern.read_back(read_json(file), file)
        for title, file in files.items()
        if file.is_file()
    }


def draw_patterns(size: SizeName, out: Path) -> Markup | None:
    """The matrices of every grouping that was written down, a layer in a row."""
    patterns = kept_patterns(size, out)
    if not patterns:
        return None
    shapes, top = [], 0.0
    for title, pattern in patterns.items():
        name = f"{title}: {100 * pattern.kept:.0f} % of these weights left"
        shapes.append(word(name, "name", 4, top + 16))
        top += 26
        for first in range(0, len(pattern.matrices), _BESIDE):
            drawn, height = _layer(pattern.matrices[first : first + _BESIDE], top)
            shapes += drawn
            top += height + 8
        top += 8
    about = "; ".join(f"{title}: {len(own.matrices)} matrices" for title, own in patterns.items())
    return svg("Sparsity patterns of one member's recurrent layers", about, shapes, height=top)


def _layer(matrices: list[Matrix], top: float) -> tuple[list[Markup], float]:
    """Pictures of matrices beside each other, and how high they are."""
    wide = WIDTH / _BESIDE - 8
    heights = [wide * matrix.shape[1] / matrix.shape[0] for matrix in matrices]
    image = Markup(
        '<rect x="{0:.6g}" y="{1:.6g}" width="{2:.6g}" height="{3:.6g}" style="fill:#f7ecc9"/>'
        '<image href="{4}" x="{0:.6g}" y="{1:.6g}" width="{2:.6g}" height="{3:.6g}" '
        'preserveAspectRatio="none" style="image-rendering:pixelated"/>'
    )
    drawn = [
        image.format(4 + place * (wide + 8), top, wide, high, matrix.picture)
        for place, (matrix, high) in enumerate(zip(matrices, heights, strict=True))
    ]
    return drawn, max(heights)


def _pruned_runs(size: SizeName, work: Path) -> Iterator[Path]:
    """The folders of finished runs with pruned members, in the order of the tables."""
    for row in dict.fromkeys(row.recipe for row in ROWS):
        for folder in run_folders(row, size, work):
            if RunFolder(folder).recipe().prune is not None and RunFolder(folder).ensemble.is_dir():
                yield folder


def _pattern(folder: Path) -> Pattern:
    member = Ensemble.load(RunFolder(folder).ensemble)[0]
    pictures = pictures_of(member, member.layout.with_sizes(member.origin.sizes), None)
    # A folder is called after its row, its seed and its recipe's digest.
    run = folder.name.rpartition("-")[0]
    return Pattern(run=run, matrices=[_matrix(own) for own in pictures if own.tiles == _GATES])


def _matrix(own: MatrixPictures) -> Matrix:
    picture = data_uri(ink_png(own.pruned.levels.T))
    return Matrix(shape=own.shape, kept=own.kept, picture=picture)


def _file(size: SizeName, grouping: str, out: Path) -> Path:
    return out / f"figure5-{size}-{grouping}.json"
