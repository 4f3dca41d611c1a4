"""What is needed to repeat the run: recipe, environment, files."""

from __future__ import annotations

from sparsemble.pages.blocks import Code, Folded, Paragraph, Section, Table
from sparsemble.pages.numbers import size
from sparsemble.reports.facts import Facts


def repeating(facts: Facts) -> Section:
    """Recipe, environment and files."""
    known = facts.background
    total = sum(number for _, number in known.files)
    files = [(name, size(number)) for name, number in known.files]
    blocks = [
        Paragraph("Saved as a file, this recipe gives the same run: sparsemble learn recipe.toml"),
        Folded("Recipe", [Code(known.recipe)]),
        Table(["Computed with", ""], list(known.environment.items()), texts=(0, 1)),
        Folded(
            f"{len(files)} files in {known.folder}, {size(total)}", [Table(["File", "Size"], files)]
        ),
    ]
    return Section("repeating", "Recipe, environment, files", blocks)
