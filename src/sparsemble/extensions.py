"""Code of the user's own: priors, samplers, schedules, tasks and functions, by import path.

What the library offers for a setting is a closed list; a subclass of the user's stands beside it.
From Python it is given as it is; a recipe names it as its kind: `kind = "package.module:Class"`.
Such a name is followed only when the user gave it: on the command line, or in a recipe file of
theirs. What a run folder says is never enough (`permitted`).
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Union, get_args

from pydantic import (
    Discriminator,
    PlainValidator,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    Tag,
    WithJsonSchema,
    WrapSerializer,
)

from sparsemble.errors import InputError
from sparsemble.settings import OWN_KIND, Settings

PATTERN = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
_permitted: ContextVar[tuple[str, ...] | None] = ContextVar("permitted", default=None)


@contextmanager
def permitted(paths: Sequence[str], source: str) -> Iterator[None]:
    """Follow only these import paths while something of another origin, `source`, is read."""
    token = _permitted.set((source, *paths))
    try:
        yield
    finally:
        _permitted.reset(token)


def check_permitted(path: str) -> None:
    """Raise `InputError` unless the user named this code."""
    allowed = _permitted.get()
    if allowed is not None and path not in allowed[1:]:
        raise InputError(f"{allowed[0]} runs code of your own: name it with --code {path}")


def imported(path: str) -> Any:
    """What an import path names; modules are also looked for in the current folder."""
    if not re.match(PATTERN, path):
        raise InputError(f"{path!r} is not an import path: write package.module:name")
    check_permitted(path)
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except Exception as error:  # whatever a module of the user's raises
        raise InputError(
            f"{path}: cannot import {module_name!r} ({type(error).__name__}: {error})"
        ) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{path}: module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    return found


def import_path(thing: Any) -> str:
    """The path under which a class or function can be imported again."""
    path = f"{thing.__module__}:{getattr(thing, '__qualname__', '')}"
    if not re.match(PATTERN, path):
        raise InputError(
            f"{thing!r} cannot be found again when the run is resumed: define it at the top of a "
            "module"
        )
    return path


def open_union(
    base: type[Settings],
    *kinds: type[Settings],
    default: str | None = None,
    from_function: Callable[[Any], Settings] | None = None,
) -> Any:
    """The type of a setting: one of `kinds`, told apart by `kind`, or another subclass of `base`.

    Args:
        base: What every choice is a subclass of.
        kinds: The library's own choices, each with a `kind` of its own.
        default: The kind of a section that names none.
        from_function: Turns a plain function into a `base`, where functions are welcome.
    """
    known = {kind.model_fields["kind"].default: kind for kind in kinds}
    expected = (
        f"one of {', '.join(map(str, known))}, or the import path of your own {base.__name__}, "
        "package.module:Class"
    )

    def tag(value: Any) -> str | None:
        if isinstance(value, dict):
            kind = value.get("kind", default)
            if not isinstance(kind, str):
                return None
            return OWN_KIND if ":" in kind else kind
        return next((kind for kind, cls in known.items() if type(value) is cls), OWN_KIND)

    def own(value: Any) -> Settings:
        if isinstance(value, str) and ":" not in value:
            raise InputError(f"must be a section whose kind is {expected}")
        return _own_settings(value, base, from_function)

    def written(value: Any, dump: SerializerFunctionWrapHandler, how: SerializationInfo) -> Any:
        if type(value) in kinds:
            return dump(value)
        if not isinstance(value, base):
            raise InputError(f"{value!r} is no {base.__name__}: give it to the settings themselves")
        return described(value, exclude_none=how.exclude_none)

    choices = [Annotated[kind, Tag(name)] for name, kind in known.items()]
    custom = Annotated[
        base,  # type: ignore[valid-type]
        PlainValidator(own),
        WithJsonSchema({"type": "string"}),
        Tag(OWN_KIND),
    ]
    return Annotated[
        Union[(*choices, custom)],
        Discriminator(
            tag,
            custom_error_type="unknown_kind",
            custom_error_message=f"kind must be {expected}",
        ),
        # Around the whole union: within it, pydantic would try the other kinds after an error.
        WrapSerializer(written),
    ]


def _own_settings(
    value: Any, base: type[Settings], from_function: Callable[[Any], Settings] | None
) -> Settings:
    """Settings of the user's own: an instance, a section that names a class, or a function."""
    fields, name = {}, repr(value)
    if isinstance(value, dict):
        fields = {key: field for key, field in value.items() if key != "kind"}
        value = value["kind"]
    if isinstance(value, str):
        name, value = value, imported(value)
    if isinstance(value, type) and issubclass(value, base):
        if inspect.isabstract(value):
            missing = ", ".join(sorted(value.__abstractmethods__))
            raise InputError(f"{name} does not define {missing}")
        return value(**fields)
    if fields:
        raise InputError(f"{name} is no class of settings: it takes no {', '.join(fields)}")
    if isinstance(value, base):
        return value
    if callable(value) and not isinstance(value, type) and from_function is not None:
        return from_function(value)
    raise InputError(f"{name} is no {base.__name__}")


def kinds_of(union: Any) -> dict[str, type[Settings]]:
    """The library's own choices of an `open_union`, by kind."""
    choices = (get_args(choice) for choice in get_args(get_args(union)[0]))
    return {tag.tag: kind for kind, *_, tag in choices if tag.tag != OWN_KIND}


def described(own: Settings, *, exclude_none: bool = False) -> dict[str, Any]:
    """The fields of a user's own settings, with where their class is found."""
    fields = own.model_dump(mode="json", exclude_none=exclude_none)
    kind = str(fields.get("kind", ""))
    return {**fields, "kind": kind if ":" in kind else import_path(type(own))}
