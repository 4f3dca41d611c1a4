"""The paper's recipes: those on MNIST are built-in ones, those on Penn Treebank the rows of
`ptb.toml` at its sizes.

`python -m paper.recipes` lists the latter; with a name it prints one as a recipe file, which
`sparsemble learn` and `sparsemble search` take.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w

from sparsemble.errors import InputError
from sparsemble.recipes import Recipe, builtin_names, load_recipe
from sparsemble.recipes.files import extended, recipe_from

_FILE = Path(__file__).with_name("ptb.toml")
_ABOUT = ("at", "extends", "with", "sizes")
"""What a row says beside settings."""


def ptb_names() -> list[str]:
    """The recipes on Penn Treebank, `ptb-SIZE-ROW`."""
    return list(_places())


def paper_recipe(name: str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe of the paper; `changes` override single settings by dotted key.

    >>> paper_recipe("ptb-large-sgld-gsp-pr-iss").prior.penalty
    1.5e-05
    """
    if name in builtin_names():
        return load_recipe(name, changes)
    return recipe_from(_fields(name), changes, source=f"recipe {name}")


def _fields(name: str) -> dict[str, Any]:
    if name not in _places():
        raise InputError(f"no recipe {name!r} in {_FILE}; there are {', '.join(ptb_names())}")
    size, row = _places()[name]
    found = _row(row, size)
    return {**found, "name": name, "description": f"PTB, {size}: {found['description']}"}


def _row(name: str, size: str) -> dict[str, Any]:
    """The settings of a row at a size: those it builds on, its parts' and its own."""
    tables = _tables()
    row = _at(tables["rows"][name], size)
    if "extends" in row:
        settings = _row(row["extends"], size)
    else:
        settings = extended(tables["all"], tables["sizes"][size])
    for part in row.get("with", ()):
        settings = extended(settings, _at(tables["parts"][part], size))
    own = {key: value for key, value in row.items() if key not in _ABOUT}
    return extended(settings, own)


def _at(table: dict[str, Any], size: str) -> dict[str, Any]:
    """A row or a part with its exceptions at a size."""
    general = {key: value for key, value in table.items() if key != "at"}
    return extended(general, table.get("at", {}).get(size, {}))


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


@cache
def _places() -> dict[str, tuple[str, str]]:
    """Size and row of every recipe."""
    tables = _tables()
    return {
        f"ptb-{size}-{name}": (size, name)
        for size in tables["sizes"]
        for name, row in tables["rows"].items()
        if size in row.get("sizes", tables["sizes"])
    }


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print(tomli_w.dumps(_fields(wanted)), end="")
    if not sys.argv[1:]:
        print("\n".join(ptb_names()))
