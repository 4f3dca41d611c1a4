"""The cells of one column as NumPy has them: what they are, and which are missing.

Numbers, and what can be counted as such (true or false, dates, times, durations), are doubles, NaN
where missing; an infinite one stays. Texts are looked at once for each that is different: they have
no space at their ends, and one that is empty is missing. Every library's column comes out the same,
so that a table may come from any.
"""

from __future__ import annotations

import datetime
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sparsemble.tables.frames import needed

if TYPE_CHECKING:
    from narwhals import Series

Countable = Literal["number", "truth", "date", "duration", "time"]
Kind = Countable | Literal["text", "nothing", "other"]

_DAY = 86_400_000.0
"""Milliseconds."""
EXACT = 2.0**53
"""Whole numbers up to here are what they are."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
WORDS: dict[str, str] = {
    "number": "numbers",
    "truth": "true or false",
    "date": "dates",
    "duration": "durations",
    "time": "times of day",
    "text": "texts",
    "nothing": "nothing",
}
"""What a column of each kind holds."""
TRUTHS = {"false": 0.0, "true": 1.0}


@dataclass(frozen=True)
class Cells:
    """What one column holds."""

    kind: Kind
    values: np.ndarray
    """Doubles, NaN where missing; of texts, which of the `known` ones, -1 where missing."""
    known: tuple[str, ...] = ()
    """The different texts."""
    what: str = ""
    """Of other kinds: what they are."""
    start: int = 0
    """How many rows of the table come before these."""

    @cached_property
    def missing(self) -> np.ndarray:
        """Which of them are; of what is not understood none is known to be."""
        found: np.ndarray = self.values < 0 if self.kind == "text" else np.isnan(self.values)
        return found

    @property
    def words(self) -> str:
        """What they are, in a sentence."""
        return WORDS.get(self.kind, self.what)

    @cached_property
    def is_same(self) -> bool:
        """Is it the same in every row?"""
        return len(self.values) > 0 and bool((self.values == self.values[0]).all())

    @cached_property
    def _written(self) -> tuple[list[str], np.ndarray]:
        """The different ones as texts, and where among them each is, -1 where missing."""
        if self.kind == "text":
            return list(self.known), self.values
        known = self.values[~self.missing]
        different, places = np.unique(known, return_inverse=True)
        truths = {0.0: "false", 1.0: "true"} if self.kind == "truth" else {}
        codes = np.full(len(self.values), -1)
        codes[~self.missing] = places
        return [truths.get(value, plain(value)) for value in different.tolist()], codes

    @property
    def names(self) -> list[str]:
        """The different ones as texts, whole numbers without a point, in no order."""
        return self._written[0]

    @property
    def codes(self) -> np.ndarray:
        """Which of the `names` each is, -1 where missing."""
        return self._written[1]

    @property
    def ordered(self) -> list[str]:
        """The different ones as texts: numbers by size, texts by the alphabet."""
        values = [number(text) for text in self.names]
        if all(value is not None for value in values):
            return [text for _, text in sorted(zip(values, self.names, strict=True))]
        return sorted(self.names)

    def row(self, place: int) -> str:
        """One of them, as people count the rows of the table."""
        return f"row {self.start + place + 1}"

    def text(self, row: int) -> str:
        """One of them as a text."""
        code = int(self.codes[row])
        return self.names[code] if code >= 0 else ""

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Cells:
        """Texts without the space at their ends, missing where nothing is left."""
        places: dict[str, int] = {}
        raw = np.fromiter(
            (places.setdefault(text, len(places)) for text in texts), np.int64, len(texts)
        )
        stripped = [text.strip() for text in places]
        known = {text: place for place, text in enumerate(dict.fromkeys(filter(None, stripped)))}
        if not known:
            return cls("nothing", np.full(len(texts), np.nan))
        return cls("text", np.array([known.get(text, -1) for text in stripped])[raw], tuple(known))

    @classmethod
    def of_another_kind(cls, count: int, what: str) -> Cells:
        """What is not understood."""
        return cls("other", np.zeros(count), what=f"values of type {what}")


def plain(value: float) -> str:
    """A number as people write it.

    >>> plain(3.0), plain(0.25)
    ('3', '0.25')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def number(text: str) -> float | None:
    """The number that a text is, if it is a finite one.

    >>> number("1e3"), number("1_000"), number("inf")
    (1000.0, None, None)
    """
    try:
        value = float(text.replace("_", "?"))  # which Python alone reads
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def day(text: str) -> float | None:
    """The days since 1970 of a date as ISO 8601 writes it, with a time of day or without.

    >>> day("1970-01-02"), day("1970-01-02 12:00"), day("2 January")
    (1.0, 1.5, None)
    """
    if not _DATE.fullmatch(text):
        return None
    try:
        return _counted(datetime.datetime.fromisoformat(text))
    except (ValueError, OverflowError):  # a day that is before all years in UTC
        return None


def in_date(days: float) -> str:
    """Days since 1970 as a date, with a time of day unless it is midnight.

    >>> in_date(1.0), in_date(1.5)
    ('1970-01-02', '1970-01-02 12:00')
    """
    then = np.datetime64(round(days * _DAY), "ms").astype("datetime64[m]")
    return str(then).removesuffix("T00:00").replace("T", " ")


def cells_of(series: Series[Any]) -> Cells:
    """The cells of a narwhals column."""
    narwhals, dtype = needed("narwhals"), series.dtype
    if series.null_count() == len(series):
        return Cells("nothing", np.full(len(series), np.nan))
    if dtype.is_numeric():
        return Cells("number", _floats(series))
    if dtype == narwhals.Boolean:
        return Cells("truth", _floats(series))
    if dtype in (narwhals.String, narwhals.Categorical, narwhals.Enum):
        return Cells.of_texts(_texts(series))
    if dtype in (narwhals.Date, narwhals.Datetime):
        return Cells("date", _floats(series.dt.timestamp("ms")) / _DAY)
    if dtype == narwhals.Duration:
        return Cells("duration", _floats(series.dt.total_milliseconds()) / _DAY + 0.0)
    if dtype == narwhals.Time:
        return Cells("time", _times(series))
    if dtype == narwhals.Object:
        return cells_of_values(series.to_list())
    return Cells.of_another_kind(len(series), str(dtype))


def _floats(series: Series[Any]) -> np.ndarray:
    try:
        values: np.ndarray = series.cast(needed("narwhals").Float64).to_numpy()
    except Exception:  # Arrow refuses integers that a double does not hold exactly
        values = np.array([np.nan if own is None else float(own) for own in series.to_list()])
    return values.astype(np.float64)


def _texts(series: Series[Any]) -> list[str]:
    return series.cast(needed("narwhals").String).fill_null("").to_list()


def _times(series: Series[Any]) -> np.ndarray:
    """Times of day as parts of a day: every library writes them alike."""
    return np.array([_time(text) for text in _texts(series)])


def _time(text: str) -> float:
    if not text:
        return float("nan")
    time = datetime.time.fromisoformat(text)
    seconds = (time.hour * 60 + time.minute) * 60 + time.second + time.microsecond / 1e6
    return seconds * 1000 / _DAY


def cells_of_values(values: Sequence[Any]) -> Cells:
    """Python's own values, as pandas keeps what it has no type for, and as JSON gives them."""
    known = [value for value in values if not _is_missing(value)]
    if not known:
        return Cells("nothing", np.full(len(values), np.nan))
    kinds: tuple[tuple[Kind, Any], ...] = (
        ("truth", bool | np.bool_),
        ("number", numbers.Number),
        ("date", datetime.date),
        ("time", datetime.time),
        ("text", str),
    )
    kind = next((kind for kind, own in kinds if all(isinstance(v, own) for v in known)), None)
    if kind == "text":
        return Cells.of_texts(["" if _is_missing(value) else value for value in values])
    if kind is None or any(isinstance(value, complex) for value in known):
        names = sorted({type(value).__name__ for value in known})
        return Cells.of_another_kind(len(values), " and ".join(names))
    return Cells(
        kind, np.array([np.nan if _is_missing(v) else _counted(v) for v in values], dtype=float)
    )


def _is_missing(value: Any) -> bool:
    """Is it None, NaN, or what pandas puts for them?"""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _counted(value: Any) -> float:
    """A value as a number: of a date the days since 1970."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return float(np.datetime64(value, "ms").astype(np.int64)) / _DAY
    if isinstance(value, datetime.time):
        return _time(value.isoformat())
    return float(value)
