"""Recipes of version 0.1, as result files hold them, in the words of this version.

Result files are kept for years, and tables are made of them: their recipes must load, and equal the
ones they were made by.
"""

from __future__ import annotations

from typing import Any

from sparsemble.tasks.legacy import task_of_recipe

_SAMPLER_FIELDS = {"sgld": (), "psgld": ("smoothing", "damping"), "sghmc": ("friction",)}
_COMMON = ("kind", "temperature", "noise")
_WORDS = {"valid": "validation"}


def is_old(fields: Any) -> bool:
    """Is it of version 0.1, where every recipe has a window?"""
    return isinstance(fields, dict) and "window" in fields


def upgraded(fields: dict[str, Any]) -> dict[str, Any]:
    """A recipe's fields, renamed and moved to where they are today."""
    recipe = dict(fields)
    network, data = recipe.get("network"), recipe.get("data")
    recipe["task"] = task_of_recipe(network, recipe.pop("window"))
    if network:
        recipe["network"] = _renamed(network, {"spread": "init_range"})
    if data:
        moved = _renamed(data, {"held_out": "validation"})
        if "measure" in moved:
            moved["measure"] = _WORDS.get(moved["measure"], moved["measure"])
        if moved.get("files"):
            moved["files"] = _renamed(moved["files"], _WORDS)
        recipe["data"] = moved
    for stage in ("chain", "retrain"):
        if recipe.get(stage):
            recipe[stage] = {**recipe[stage], "schedule": _schedule(recipe[stage]["schedule"])}
    chain = recipe["chain"]
    recipe["chain"] = {**chain, "sampler": _sampler(chain["sampler"])}
    return recipe


def _renamed(fields: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in fields.items()}


def _schedule(fields: dict[str, Any]) -> dict[str, Any]:
    return _renamed(fields, {"rate": "lr"})


def _sampler(fields: dict[str, Any]) -> dict[str, Any]:
    """Every sampler had the settings of all."""
    kept = (*_COMMON, *_SAMPLER_FIELDS[fields["kind"]])
    return {key: value for key, value in fields.items() if key in kept}
