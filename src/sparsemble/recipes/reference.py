"""Every setting a recipe can have, with its limits, default and meaning, read off the models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparsemble.recipes.recipe import Recipe

_LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
}
_FAR = 1_000_000
_TYPES = {"integer": "whole number", "number": "number", "boolean": "true, false", "string": "text"}


@dataclass(frozen=True)
class Setting:
    """One setting; `only` says for which kind of its section it is there."""

    key: str
    only: str
    values: str
    default: str
    meaning: str


def settings_reference() -> list[Setting]:
    """All of them, in the order of the models."""
    schema = Recipe.model_json_schema()
    found: dict[tuple[str, str, str], Setting] = {}
    for setting in _settings(schema, schema["$defs"], "", "", {}):
        # What several kinds of a section have in common is listed once.
        key = (setting.key, setting.values, setting.meaning)
        if key in found:
            only = ", ".join(filter(None, (found[key].only, setting.only)))
            setting = replace(setting, only=only)
        found[key] = setting
    return list(found.values())


def _settings(
    schema: Mapping[str, Any],
    known: Mapping[str, Any],
    prefix: str,
    only: str,
    listed: dict[str, str],
) -> Iterator[Setting]:
    """`listed` says which sections were described already, and where."""
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        place = f"{prefix}{name}"
        sections = [ref for option in _options(field) if (ref := option.get("$ref")) is not None]
        names = [ref.rpartition("/")[2] for ref in sections]
        if names and names[0] in listed:
            yield Setting(place, only, "section", "", f"As {listed[names[0]]}.")
            continue
        if len(names) > 1 and "kind" in known[names[0]]["properties"]:
            kinds = ", ".join(_kind(known[section]) for section in names)
            yield Setting(f"{place}.kind", "", kinds, "", "What the section is.")
        for section in names:
            listed[section] = place
            kind = _kind(known[section]) if len(names) > 1 else only
            yield from _settings(known[section], known, f"{place}.", kind, listed)
        if not names and not (name == "kind" and "const" in field):
            default = "" if name in required else _shown(field.get("default"))
            meaning = " ".join(field.get("description", "").split())
            yield Setting(place, only, _values(field, known), default, meaning)


def _options(field: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives of a field, however they are nested."""
    for key in ("anyOf", "oneOf"):
        if key in field:
            return [found for option in field[key] for found in _options(option)]
    return [field]


def _kind(section: Mapping[str, Any]) -> str:
    """What a recipe writes to have this section rather than another."""
    fields = section["properties"]
    named = fields.get("kind") or fields["name"]
    return ", ".join(map(str, named.get("enum", [named.get("const")])))


def _values(field: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    found = []
    for option in _options(field):
        if "enum" in option:
            found.append(", ".join(map(str, option["enum"])))
        elif "const" in option:
            found.append(str(option["const"]))
        elif option.get("type") == "array":
            found.append(
                f"list of {_values(option['items'], known)}" if "items" in option else "list"
            )
        elif "$ref" in option:
            found.append(_kind(known[option["$ref"].rpartition("/")[2]]))
        elif option.get("type") != "null":
            limits = [
                text.format(f"{option[k]:g}") for k, text in _LIMITS.items() if _told(option, k)
            ]
            found.append(" ".join([_TYPES.get(option.get("type", ""), "text"), *limits]))
    return " or ".join(found)


def _told(option: Mapping[str, Any], limit: str) -> bool:
    """Is a limit one that anybody might come near?"""
    return limit in option and option[limit] <= _FAR


def _shown(default: Any) -> str:
    if default is None:
        return "–"
    return str(default).lower() if isinstance(default, bool) else str(default)
