"""What is needed to repeat the run: recipe, environment, files."""

from __future__ import annotations

from markupsafe import Markup

from sparsemble.pages.blocks import Folded, Fragment, Paragraph, Section, Table
from sparsemble.pages.numbers import size
from sparsemble.reports.facts import Facts


def repeating(facts: Facts) -> Section:
    """Recipe, environment and files."""
    known = facts.background
    total = sum(number for _, number in known.files)
    files = [(name, size(number)) for name, number in known.files]
    recipe = Markup("<pre><code>{}</code></pre>").format(known.recipe)
    blocks = [
        Paragraph("Saved as a file, this recipe gives the same run: sparsemble learn recipe.toml"),
        Folded("Recipe", [Fragment(recipe)]),
        Table(["Computed with", ""], list(known.environment.items()), texts=(0, 1)),
        Folded(
            f"{len(files)} files in {known.folder}, {size(total)}", [Table(["File", "Size"], files)]
        ),
    ]
    return Section("repeating", "Recipe, environment, files", blocks)
