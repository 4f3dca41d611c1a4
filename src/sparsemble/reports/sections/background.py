"""What is needed to repeat the run: recipe, environment, files."""

from __future__ import annotations

from sparsemble.reports.facts import Facts
from sparsemble.reports.markup import element, joined, table
from sparsemble.reports.numbers import size
from sparsemble.reports.sections.parts import Section, folded, said


def repeating(facts: Facts) -> Section:
    """Recipe, environment and files."""
    known = facts.background
    total = sum(number for _, number in known.files)
    parts = [
        said("Saved as a file, this recipe gives the same run: sparsemble learn recipe.toml"),
        folded("Recipe", element("pre", element("code", known.recipe))),
        table(["Computed with", ""], list(known.environment.items()), texts=(0, 1)),
        folded(
            f"{len(known.files)} files in {known.folder}, {size(total)}",
            table(["File", "Size"], [(name, size(number)) for name, number in known.files]),
        ),
    ]
    return Section("repeating", "Recipe, environment, files", joined(parts))
