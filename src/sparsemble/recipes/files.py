"""Reading recipes: a built-in name or a TOML file, single settings overridden by dotted keys."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from sparsemble.errors import InputError
from sparsemble.recipes.models import Recipe

_BUILTIN = files("sparsemble.recipes") / "builtin"


def builtin_names() -> list[str]:
    """Names of the recipes that come with the package."""
    names = [entry.name for entry in _BUILTIN.iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def recipe_toml(name: str) -> str:
    """The text of a built-in recipe."""
    if name not in builtin_names():
        near = difflib.get_close_matches(name, builtin_names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(builtin_names())}"
        raise InputError(f"no built-in recipe {name!r} and no such file; {hint}")
    return (_BUILTIN / f"{name}.toml").read_text()


def load_recipe(source: str | Path, changes: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe in a TOML file or of a built-in name.

    `changes` override single settings by dotted key.

    >>> load_recipe("mnist-sgld-gsp-96", {"seed": 3}).seed
    3
    """
    path = Path(source)
    is_file = path.suffix == ".toml" or path.is_file()
    try:
        text = path.read_text() if is_file else recipe_toml(str(source))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {source}: cannot be read ({error})") from None
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"recipe {source}: not valid TOML: {error}") from None
    fields.setdefault("name", path.stem)
    for key, value in (changes or {}).items():
        _override(fields, key, value)
    recipe: Recipe = Recipe.read(fields, source=f"recipe {source}")
    return recipe


def _override(fields: dict[str, Any], key: str, value: Any) -> None:
    *path, leaf = key.split(".")
    for part in path:
        fields = fields.setdefault(part, {})
        if not isinstance(fields, dict):
            raise InputError(f"setting {key!r}: {part!r} is not a section")
    fields[leaf] = value
