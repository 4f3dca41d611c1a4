"""Records as lines of text, each with a checksum of its own, so that a file of them can grow."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from math import isfinite, nan
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sparsemble.errors import CorruptFileError
from sparsemble.stages.history import EpochRecord, Jump, Record, Rollback, SampleRecord, Shed
from sparsemble.store import parsed_json, read_plain

_LARGEST = 256 << 20
"""Bytes of a file of them: a million records."""
_MOST = 2**53
"""Steps, epochs or examples: what is counted is a number that can be drawn."""
_KINDS: dict[str, type[Record]] = {
    "epoch": EpochRecord,
    "sample": SampleRecord,
    "jump": Jump,
    "shed": Shed,
    "rollback": Rollback,
}
"""What a line can be."""


def as_line(record: Record) -> str:
    """A record with its checksum."""
    kind = next(name for name, known in _KINDS.items() if isinstance(record, known))
    said = {key: value for key, value in asdict(record).items() if value is not None}
    text = json.dumps({"kind": kind, **_without_nan(said)})
    return f"{_checksum(text)} {text}\n"


def lines_of(file: Path) -> list[str]:
    """The whole lines of a file that may not be there."""
    if not file.exists():
        return []
    text = read_plain(file, _LARGEST).decode(errors="replace")
    # A kill can leave half a line at the end; it belongs to no checkpoint.
    return text[: text.rfind("\n") + 1].splitlines()


def records_in(file: Path) -> Iterable[Record]:
    """What the lines of a file say."""
    for line in lines_of(file):
        try:
            checksum, _, text = line.partition(" ")
            if checksum != _checksum(text):
                raise ValueError
            fields = parsed_json(text, "a line")
            kind = fields.pop("kind")
            record = _fields_of(kind).validate_python(asdict(_KINDS[kind](**_with_nan(fields))))
            if any(isinstance(own, int) and abs(own) > _MOST for own in vars(record).values()):
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CorruptFileError(f"{file} has a damaged line: {line[:80]!r}") from None
        yield record


@cache
def _fields_of(kind: str) -> TypeAdapter[Record]:
    """What checks the fields of such records; made once, as that takes longer than a check."""
    return TypeAdapter(_KINDS[kind])


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _without_nan(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN and no infinity."""
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in fields.items()}


def _with_nan(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: nan if v is None else v for k, v in fields.items()}
