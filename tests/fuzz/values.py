"""Plain values, as JSON and TOML hold them, spoiled at one place."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

_DEEP = 992
"""Levels that Python's own reader of JSON still takes."""
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3,
    7,
    1024,
    100_000,
    10**9,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    10**30,
    0.0,
    -0.0,
    1e-320,
    1e-30,
    0.5,
    -1.5,
    1e10,
    3e38,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "a",
    "NaN",
    "inf",
    "0",
    "__class__",
    "__init__",
    "../outside",
    "/dev/zero",
    "os:system",
    "torch:load",
    "=1+1",
    "\x1b[31mred\x07",
    "\ud800",
    "\x00",
    "name\nname",
    "ö" * 50,
    "x" * 70_000,
    [],
    {},
    [[]],
    [None],
    [0] * 3000,
    {"": None},
    {"kind": "os:system"},
    {"value": "x"},
    {"size": [1, {}]},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all that a value holds, itself first."""
    yield path
    items = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = enumerate(value[:200])
    for key, inner in items:
        yield from places(inner, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """What lies at a path."""
    for key in path:
        value = value[key]
    return value


def spoiled(value: Any, chance: Random) -> Any:
    """The value with one to three changes."""
    changed = deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        known = [path for path in places(changed) if path]
        if not known:
            return chance.choice(ODD)
        *above, key = chance.choice(known)
        parent = at(changed, tuple(above))
        if chance.random() < 0.05:  # the last change: what is so deep cannot be copied
            parent[key] = _nested(chance.choice((3, 50, _DEEP)), list_of=chance.random() < 0.5)
            break
        _change(parent, key, changed, known, chance)
    return changed


def _change(parent: Any, key: Any, whole: Any, known: list[Any], chance: Random) -> None:
    """Spoil one entry of a list or an object."""
    old = parent[key]
    how = chance.randrange(9)
    if how == 0:
        del parent[key]
    elif how == 1 and isinstance(parent, dict):
        parent[chance.choice(("", "kind", "name", "units", "x" * 300, "\ud800", f"{key}x"))] = old
    elif how == 2:
        parent[key] = [old]
    elif how == 3:
        parent[key] = deepcopy(at(whole, chance.choice(known)))
    elif how in (4, 5) and isinstance(old, int | float) and not isinstance(old, bool):
        parent[key] = _other_number(old, chance)
    elif how == 4 and isinstance(old, str):
        parent[key] = _other_text(old, chance)
    elif how in (4, 5) and isinstance(old, list) and old:
        parent[key] = _other_list(old, chance)
    elif how == 4 and isinstance(old, dict) and old:
        some, other = chance.choice(list(old)), chance.choice(list(old))
        old[some], old[other] = old[other], old[some]
    else:
        parent[key] = deepcopy(chance.choice(ODD))


def _nested(levels: int, *, list_of: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if list_of else {"a": value}
    return value


def _other_number(old: float, chance: Random) -> Any:
    return chance.choice(
        (old + 1, old - 1, -old, old * 2, old * 10**6, old * 10**30, float(old), str(old), old == 1)
    )


def _other_text(old: str, chance: Random) -> str:
    return chance.choice(
        (
            old[:-1],
            old + old,
            old.upper(),
            old + "\x00",
            f"../{old}",
            f" {old}",
            old[::-1],
            old * 99,
        )
    )


def _other_list(old: list[Any], chance: Random) -> list[Any]:
    return deepcopy(
        chance.choice((old[:-1], old[1:], old[::-1], old + old, old * 500, [old[0]] * len(old)))
    )
