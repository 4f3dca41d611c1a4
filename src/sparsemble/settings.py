"""Settings: small frozen values, validated where they enter.

Everything a user can configure (a schedule, a prior, a stage) is a `Settings`. The same class is
filled from Python keywords and from a recipe file, so limits and messages are written once.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from sparsemble.errors import CorruptFileError, InputError, shortened

LARGEST = 1e12
"""No number that is set need be larger; the product of any three is still one in single
precision."""
Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
"""A number above 0."""
NotNegative = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
"""A number, 0 or more."""
Factor = Annotated[float, Field(ge=1, le=LARGEST, allow_inf_nan=False)]
"""A number, 1 or more."""
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""A number of things, at least one."""
Seed = Annotated[int, Field(ge=0, lt=2**63)]
"""Where random numbers begin."""


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands there twice")
    return names


Names = Annotated[tuple[str, ...], AfterValidator(_different)]
"""Texts of which no two are the same."""


_MOST, _LONGEST = 10, 1000
"""Problems that are told at a time, and characters of what is told about each."""
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
    """Say what is wrong with each field, and what could be meant instead."""
    known = _places(model)
    problems = error.errors(include_url=False)
    said = list(dict.fromkeys(_explained(problem, model, known) for problem in problems))
    left = [f"and {len(said) - _MOST:,} more"] if len(said) > _MOST else []
    return "; ".join([*said[:_MOST], *left])


def _explained(problem: ErrorDetails, model: type[BaseModel], known: Places) -> str:
    path = [str(part) for part in problem["loc"] if part != OWN_KIND]
    kind, value, message = problem["type"], problem["input"], problem["msg"]
    is_section = kind in _SECTION_WANTED
    # Between two fields stands the kind of a union's member, which no recipe spells out.
    last = path[-1:] if not is_section or (path[-1:] and path[-1] in known) else []
    named = [part for part in path[:-1] if part in known or part.isdigit()] + last
    where = shortened(".".join(named) or model.__name__)
    if kind == "extra_forbidden":
        return f"unknown setting {where!r}{_meant(where, known)}"
    if kind == "missing":
        return f"missing setting {where!r}"
    if kind == "value_error":  # one of our own, which begins as it should
        message = message.removeprefix("Value error, ")
    elif is_section:
        message = f"is a section; set what is in it{_inside(where, known)}"
    else:
        message = message[:1].lower() + message[1:] + _remedy(problem)
    if kind == "unknown_kind" and isinstance(value, dict):
        where, value = f"{where}.kind", value.get("kind")
    shown = "" if isinstance(value, dict | BaseModel) else f" = {in_short(value)}"
    return f"{where}{shown}: {shortened(message, _LONGEST)}"


def in_short(value: Any) -> str:
    """A value as messages show it, however large it is.

    >>> in_short(10**5000), len(in_short([1] * 10**6))
    ('a number of very many digits', 220)
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes no number of more than 4300 digits
        return "a number of very many digits" if isinstance(value, int) else "a value too large"
    return shortened(text)


_SECTION_WANTED = ("model_type", "model_attributes_type", "dict_type")
_LIST_WANTED = ("tuple_type", "list_type")


def _meant(where: str, known: Places) -> str:
    """The setting that an unknown one may stand for: of that name elsewhere, or of a near one."""
    section, _, name = where.rpartition(".")
    if where in known.get(name, ()):
        return f": only another kind of {section} has it"
    if name in known:
        some = " or ".join(map(repr, known[name][:2]))
        return f"; did you mean {some}?"
    places = {n: f"{section}.{n}".strip(".") for n in known}
    beside = [n for n, place in places.items() if place in known[n]]
    if near := difflib.get_close_matches(name, beside, n=1):
        return f"; did you mean {places[near[0]]!r}?"
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f"; did you mean {known[near[0]][0]!r}?" if near else ""


def _inside(section: str, known: Places) -> str:
    """One setting of a section, to show how it is done."""
    for name in ("kind", "name", *known):
        if f"{section}.{name}" in known.get(name, ()):
            return f", as {section}.{name}=…"
    return ""


def _remedy(problem: ErrorDetails) -> str:
    """What to write instead, where that can be guessed."""
    value, limits = problem["input"], problem.get("ctx", {})
    if problem["type"] in _LIST_WANTED and isinstance(value, int | float | str):
        return f"; write it as a list, [{shortened(repr(value))}]"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 1 in (limits.get("lt"), limits.get("le")) and 5 <= value <= 100:
        return f": {value:g} % is {value / 100:g}"
    return ""


Places = dict[str, list[str]]
"""Where settings of a name are, as dotted keys."""


def _places(model: type[BaseModel]) -> Places:
    """All settings reachable from `model`, those near the top first."""
    found: Places = {}
    pending: list[tuple[str, type[BaseModel], tuple[type[BaseModel], ...]]] = [("", model, ())]
    while pending:
        prefix, current, above = pending.pop(0)
        for name, field in current.model_fields.items():
            place = f"{prefix}{name}"
            if place not in found.setdefault(name, []):
                found[name].append(place)
            inner = [own for own in _models_in(field.annotation) if own not in (*above, current)]
            pending += [(f"{place}.", own, (*above, current)) for own in inner]
    return found


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
