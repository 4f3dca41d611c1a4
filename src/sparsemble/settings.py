"""Settings: small frozen values, validated where they enter.

Everything a user can configure (a schedule, a prior, a stage) is a `Settings`. The same class is
filled from Python keywords and from a recipe file, so limits and messages are written once.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError

from sparsemble.errors import CorruptFileError, InputError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number above 0."""


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands there twice")
    return names


Names = Annotated[tuple[str, ...], AfterValidator(_different)]
"""Texts of which no two are the same."""


OWN_KIND = "own"
"""How errors call the place of a section that is a class of the user's own; never shown."""


class Settings(BaseModel):
    """A frozen value object; a bad or unknown field raises `InputError` with one clear message."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True
    )

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(explain(error, type(self))) from None

    # Nested settings are validated as plain fields, so that an error names the whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def model_dump(self, **how: Any) -> dict[str, Any]:
        """The fields as plain values; what cannot be written down raises `InputError`."""
        try:
            return super().model_dump(**how)
        except PydanticSerializationError as error:
            if isinstance(error.__cause__, InputError):
                raise error.__cause__ from None
            raise

    @classmethod
    def read(cls, fields: Any, *, source: str) -> Any:
        """Validate `fields` that came from `source` (a file, a manifest), naming it in errors."""
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise InputError(f"{source}: {explain(error, cls)}") from None

    @classmethod
    def read_back(cls, fields: Any, path: Path) -> Any:
        """The same of a file that this package writes: whatever is wrong there, it is corrupt."""
        try:
            return cls.read(fields, source=str(path))
        except InputError as error:
            raise CorruptFileError(str(error)) from None


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Say what is wrong with each field, with the nearest known name for an unknown one."""
    lines = []
    known = _field_names(model)
    for problem in error.errors(include_url=False, include_context=False):
        path = [str(part) for part in problem["loc"] if part != OWN_KIND]
        # Between two fields stands the kind of a union's member, which no recipe spells out.
        named = [part for part in path[:-1] if part in known or part.isdigit()] + path[-1:]
        where = ".".join(named) or model.__name__
        if problem["type"] == "extra_forbidden":
            others = [name for name in known if name != path[-1]]
            near = difflib.get_close_matches(path[-1], others, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            lines.append(f"unknown setting {where!r}{hint}")
        elif problem["type"] == "missing":
            lines.append(f"missing setting {where!r}")
        else:
            message = problem["msg"]
            if problem["type"] == "value_error":  # one of our own, which begins as it should
                message = message.removeprefix("Value error, ")
            else:
                message = message[:1].lower() + message[1:]
            value = problem["input"]
            if problem["type"] == "unknown_kind" and isinstance(value, dict):
                where, value = f"{where}.kind", value.get("kind")
            shown = "" if isinstance(value, dict | BaseModel) else f" = {value!r}"
            lines.append(f"{where}{shown}: {message}")
    return "; ".join(lines)


def _field_names(model: type[BaseModel]) -> list[str]:
    """Names of all fields reachable from `model`, for suggestions."""
    names: list[str] = []
    pending, seen = [model], set()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for name, field in current.model_fields.items():
            names.append(name)
            pending += _models_in(field.annotation)
    return names


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
