"""What a request may say: its fields, their limits, and what is wrong with one in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MOST_ROWS = 1000
MOST_LETTERS = 10_000
MOST_WORDS = 500


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


def _short(row: Any) -> Any:
    if isinstance(row, str) and len(row) > MOST_LETTERS:
        raise ValueError(f"a text has at most {MOST_LETTERS:,} letters, this one {len(row):,}")
    return row


_AnyRow = Annotated[Any, AfterValidator(_short)]


class Rows(_Request):
    """Rows to predict for."""

    rows: Annotated[list[_AnyRow], Field(min_length=1, max_length=MOST_ROWS)]
    """One for each example: a list of numbers, an object by the names of columns, or a text."""
    members: bool = False
    """Also what each member predicts, and how far they agree?"""


class Row(_Request):
    """One row, to be looked at."""

    row: _AnyRow
    """As those of `Rows`."""


class Beginning(_Request):
    """A text to go on with."""

    text: Annotated[str, Field(max_length=MOST_LETTERS)] = ""
    """How it begins: words apart by spaces."""
    words: Annotated[int, Field(ge=1, le=MOST_WORDS)] = 20
    """How many are drawn."""
    temperature: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 1.0
    """Below 1 the probable words are preferred."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """The same seed draws the same words."""


def in_a_sentence(problems: Sequence[Any]) -> str:
    """What is wrong with a request, of the problems that its checking found."""
    return "; ".join(dict.fromkeys(map(_sentence, problems)))


def _sentence(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"][1:]) or "the body"
    if problem["type"] == "json_invalid":
        return f"the body is no JSON: {' '.join(map(str, problem['ctx'].values()))}"
    if where == "the body":
        return "the body must be an object in JSON, sent as Content-Type: application/json"
    if problem["type"] == "missing":
        return f"{where} is missing"
    if problem["type"] == "extra_forbidden":
        return f"{where}: there is no such field"
    message = str(problem["msg"])
    return f"{where}: {message[:1].lower()}{message[1:]}"
