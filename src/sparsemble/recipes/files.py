"""Reading recipes: a built-in name or a TOML file, single settings overridden by dotted keys.

A recipe may say `extends = "name"`: it then changes only some settings of that built-in recipe. A
section it gives a `kind` of its own replaces the other's whole, but for the sampler's, whose kinds
have the same settings; `section = false` drops one.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from sparsemble.errors import InputError
from sparsemble.recipes.models import Recipe

_UNSAID_KIND = "feedforward"
"""The kind of a network section that names none."""
_ALIKE = ("sampler",)
"""Sections whose kinds have the same settings, so that another kind clears none of them."""
_UNTOLD = ("seed", "name", "description", "data.measure")
"""Changes that make no other recipe of one."""
_BUILTIN = files("sparsemble.recipes") / "builtin"


def builtin_names() -> list[str]:
    """Names of the recipes that come with the package."""
    names = [entry.name for entry in _BUILTIN.iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def recipe_toml(name: str) -> str:
    """The text of a recipe: a built-in one, or a file."""
    if name.endswith(".toml") and Path(name).is_file():
        return _text(Path(name))
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
    fields = _read(source)
    fields.setdefault("name", Path(source).stem)
    changes = changes or {}
    # A section's kind comes first: it decides what else there is to set.
    for key in sorted(changes, key=lambda key: not key.endswith("kind")):
        _override(fields, key, changes[key])
    told = [f"{key} = {value}" for key, value in changes.items() if key not in _UNTOLD]
    if told and fields.get("description"):
        fields["description"] += f" (with {', '.join(told)})"
    recipe: Recipe = Recipe.read(fields, source=f"recipe {source}")
    return recipe


def baseline_of(recipe: Recipe) -> Recipe | None:
    """The recipe that one is compared with, on the same data and with the same seed.

    It is a built-in one: run folders name it, too, and must not name a file of anyone's.
    """
    if recipe.baseline is None:
        return None
    if recipe.baseline not in builtin_names():
        raise InputError(f"baseline = {recipe.baseline!r} is not a built-in recipe")
    baseline = load_recipe(recipe.baseline, {"seed": recipe.seed})
    return baseline.model_copy(update={"data": recipe.data})


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {path}: cannot be read ({error})") from None


def _read(source: str | Path) -> dict[str, Any]:
    """The fields of a recipe, together with those of the recipes it extends."""
    path = Path(source)
    is_builtin = isinstance(source, str) and source in builtin_names()
    is_file = path.suffix == ".toml" or (path.is_file() and not is_builtin)
    text = _text(path) if is_file else recipe_toml(str(source))
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"recipe {source}: not valid TOML: {error}") from None
    if "extends" in fields:
        extended = str(fields.pop("extends"))
        if extended not in builtin_names():
            raise InputError(f"recipe {source} extends {extended!r}, which is not a built-in one")
        fields = _extended(_read(extended), fields)
    return fields


def _extended(known: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Sections merged, anything else replaced."""
    merged = dict(known)
    for key, value in changes.items():
        if not isinstance(known.get(key), dict):
            merged[key] = value
        elif value is False:
            del merged[key]
        elif isinstance(value, dict) and ("kind" not in value or key in _ALIKE):
            merged[key] = _extended(known[key], value)
        else:
            merged[key] = value
    return merged


def _override(fields: dict[str, Any], key: str, value: Any) -> None:
    """Set one setting; another `kind` clears its section, `false` drops one."""
    *path, leaf = key.split(".")
    for part in path:
        fields = fields.setdefault(part, {})
        if not isinstance(fields, dict):
            raise InputError(f"setting {key!r}: {part!r} is not a section")
    alike = path[-1:] and path[-1] in _ALIKE
    if leaf == "kind" and not alike and value != fields.get("kind", _UNSAID_KIND):
        fields.clear()
    if value is False and isinstance(fields.get(leaf), dict):
        del fields[leaf]
    else:
        fields[leaf] = value
