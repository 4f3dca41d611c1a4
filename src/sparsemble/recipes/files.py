"""Reading recipes: a built-in name or a TOML file, single settings overridden by dotted keys.

A recipe may say `extends = "name"`: it then changes only some settings of that recipe. A section of
another kind keeps the settings that both kinds have; `section = false` drops one.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Any

from sparsemble.errors import InputError
from sparsemble.extensions import kinds_of
from sparsemble.priors import AnyPrior
from sparsemble.recipes.networks import AnyNetwork
from sparsemble.recipes.recipe import Recipe
from sparsemble.samplers import AnySampler, AnySchedule
from sparsemble.settings import in_short
from sparsemble.store.limits import RECIPE_BYTES
from sparsemble.store.reading import read_text
from sparsemble.store.toml import parsed_toml
from sparsemble.tables.files import ENDINGS
from sparsemble.tasks import AnyTask

_KINDS = {
    "network": kinds_of(AnyNetwork),
    "prior": kinds_of(AnyPrior),
    "sampler": kinds_of(AnySampler),
    "schedule": kinds_of(AnySchedule),
    "task": kinds_of(AnyTask),
}
"""What each section's kinds are."""
_DEFAULT_KINDS = {"network": "feedforward", "sampler": "sgld"}
_DEEPEST = 20
"""Sections in one another."""
_NOT_DESCRIBED = ("seed", "name", "description", "data.measure", "baseline")
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
    return (_BUILTIN / f"{name}.toml").read_text(encoding="utf-8")


def load_recipe(source: str | Path, changes: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe in a TOML file or of a built-in name.

    `changes` override single settings by dotted key.

    >>> load_recipe("mnist-sgld-gsp-96", {"seed": 3}).seed
    3
    """
    fields = recipe_fields(source)
    fields.setdefault("name", Path(source).stem)
    return recipe_from(fields, changes, source=f"recipe {source}")


def recipe_from(
    given: Mapping[str, Any], changes: Mapping[str, Any] | None = None, *, source: str
) -> Recipe:
    """The recipe of given fields, with single settings overridden; errors name the source."""
    fields, changes = deepcopy(dict(given)), changes or {}
    # A section's kind comes first: it decides what else there is to set.
    for key in sorted(changes, key=lambda key: not key.endswith("kind")):
        _override(fields, key, changes[key])
    shown = [
        f"{key} = {_written(value)}" for key, value in changes.items() if key not in _NOT_DESCRIBED
    ]
    if shown and fields.get("description"):
        fields["description"] += f" (with {', '.join(shown)})"
    recipe: Recipe = Recipe.read(fields, source=source)
    return recipe


def _written(value: Any) -> str:
    return value if isinstance(value, str) else in_short(value)


def _text(path: Path) -> str:
    try:
        return read_text(path, RECIPE_BYTES)
    except InputError as error:
        raise InputError(f"recipe {error}") from None


def recipe_fields(source: str | Path) -> dict[str, Any]:
    """The fields of a recipe, together with those of the recipes it extends."""
    path = Path(source)
    if path.suffix.lower() in ENDINGS:
        raise InputError(
            f"{path} is a table, not a recipe: sparsemble learn --csv {path} --target COLUMN"
        )
    is_builtin = isinstance(source, str) and source in builtin_names()
    is_file = path.suffix == ".toml" or (path.is_file() and not is_builtin)
    text = _text(path) if is_file else recipe_toml(str(source))
    try:
        fields = parsed_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"recipe {source}: not valid TOML: {error}") from None
    except InputError as error:
        raise InputError(f"recipe {source}: {error}") from None
    if "extends" in fields:
        known = str(fields.pop("extends"))
        if known not in builtin_names():
            raise InputError(f"recipe {source} extends {known!r}, which is not a built-in one")
        fields = extended(recipe_fields(known), fields)
    return fields


def extended(known: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a recipe with those that another changes: sections merged, else replaced."""
    merged = dict(known)
    for key, value in changes.items():
        if not isinstance(known.get(key), dict):
            merged[key] = value
        elif value is False:
            del merged[key]
        elif isinstance(value, dict) and "kind" in value:
            merged[key] = _common(known[key], key, value["kind"]) | value
        elif isinstance(value, dict):
            merged[key] = extended(known[key], value)
        else:
            merged[key] = value
    return merged


def _common(fields: Mapping[str, Any], section: str, kind: Any) -> dict[str, Any]:
    """The settings of a section that another kind of it has, too."""
    known = _KINDS.get(section, {}).get(kind) if isinstance(kind, str) else None
    names = set() if known is None else set(known.model_fields)
    return {name: value for name, value in fields.items() if name in names}


def _override(fields: dict[str, Any], key: str, value: Any) -> None:
    """Set one setting; another `kind` keeps what both kinds have, `false` drops a section."""
    *path, leaf = key.split(".")
    if len(path) > _DEEPEST:
        raise InputError(f"setting {in_short(key)}: no setting lies that deep")
    for part in path:
        fields = fields.setdefault(part, {})
        if not isinstance(fields, dict):
            raise InputError(f"setting {key!r}: {part!r} is not a section")
    section = path[-1] if path else ""
    if leaf == "kind" and value != fields.get("kind", _DEFAULT_KINDS.get(section)):
        for name in set(fields) - set(_common(fields, section, value)):
            del fields[name]
    if value is False and isinstance(fields.get(leaf), dict):
        del fields[leaf]
    else:
        fields[leaf] = value
