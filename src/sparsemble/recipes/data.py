"""Which data a recipe learns from, as settings; `load` gives their parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)
from torch import Tensor

from sparsemble.data import Dataset, HasParts, Part, Split, read_corpus
from sparsemble.data.named import EXAMPLES, TEXTS
from sparsemble.errors import InputError
from sparsemble.extensions import PATTERN
from sparsemble.paths import named
from sparsemble.recipes.code import function_of
from sparsemble.settings import Count, Names, Settings
from sparsemble.tables import Choices, TableDataset, made_of, read_frame

Place = Annotated[Path, BeforeValidator(named), AfterValidator(Path.absolute)]
"""A file or folder, kept so that a run can be resumed from anywhere."""
Measure = Literal["test", "validation"]


class NamedData(Settings):
    """A data set of examples by its name."""

    name: Literal["digits", "mnist", "diabetes"]
    """Which data set."""
    validation: Annotated[int, Field(ge=0)] = 0
    """Training examples, the last ones, that figures come from instead of the test set, as in a
    search."""

    places: ClassVar[tuple[Path, ...]] = ()

    def load(self, folder: Path | None = None) -> Split:
        """Training set, and the set that results are measured on."""
        train, test = EXAMPLES[self.name](folder)
        return _examples(train, test, self.validation, f" of {self.name}")


class TextFiles(Settings):
    """The parts of a text, each a file."""

    train: Place
    """Text to learn from."""
    validation: Place
    """Text to choose settings by."""
    test: Place
    """Text for final figures."""


class TextData(Settings):
    """A text: the built-in grammar, Penn Treebank, or one of your own, the files in the folder
    `path` or those that `files` names."""

    name: Literal["grammar", "ptb", "text"]
    """The built-in grammar, Penn Treebank, or a text of your own."""
    path: Place | None = None
    """Folder with train.txt, valid.txt and test.txt; only for `text`."""
    files: TextFiles | None = None
    size: Annotated[int, Field(ge=3)] | None = None
    """Words of the vocabulary at most; only for `text`."""
    threshold: Count = 1
    """Words seen less often count as `<unk>`; only for `text`."""
    portion: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the training text to learn from."""
    measure: Measure = "test"
    """Measure on the test text as well, or on the validation text alone, as in a search."""

    @model_validator(mode="after")
    def _path_of_a_text(self) -> Self:
        given = [place for place in (self.path, self.files) if place is not None]
        if len(given) != (self.name == "text"):
            raise ValueError('name = "text" goes together with a path, or with files')
        if self.name != "text" and (self.size is not None or self.threshold != 1):
            raise ValueError(
                f"the vocabulary of {self.name} is fixed: size and threshold are for text"
            )
        return self

    @property
    def places(self) -> tuple[Path, ...]:
        """The files and folders that it reads."""
        if self.files is None:
            return () if self.path is None else (self.path,)
        return (self.files.train, self.files.validation, self.files.test)

    def load(self, folder: Path | None = None) -> Split:
        """The text in its parts."""
        place = self.path if self.files is None else dict(self.files)
        if place is not None:
            corpus = read_corpus(place, size=self.size, threshold=self.threshold)
        else:
            corpus = TEXTS[self.name](folder)
        return corpus.beginning(self.portion).split(self.measure)


class CustomData(Settings):
    """Data of your own: `loader` names a function without arguments, by import path.

    It returns a training and a test set (each a `Dataset` or a pair of arrays), or data that know
    their own parts (a `Corpus`).
    """

    name: Literal["custom"]
    """Data of your own."""
    loader: Annotated[str, Field(pattern=PATTERN)]
    """Your function: `package.module:function`, without arguments."""
    validation: Annotated[int, Field(ge=0)] = 0
    """Training examples that become the test set, as in a search."""
    measure: Measure = "test"
    """Of data that know their parts: measure on the validation part alone, as in a search."""

    places: ClassVar[tuple[Path, ...]] = ()

    def load(self, folder: Path | None = None) -> Split:
        """What the function returns, in parts; the task checks it."""
        found = function_of(self.loader)()
        if isinstance(found, HasParts) and not isinstance(found, Dataset | Tensor | str | bytes):
            if self.validation:
                raise InputError(f"data.validation is for examples: {self.loader} returns parts")
            return found.split(self.measure)
        if self.measure == "validation":
            raise InputError(
                f"{self.loader} returns examples: say data.validation, how many to measure on"
            )
        if not _is_pair(found) or not all(isinstance(p, Dataset) or _is_pair(p) for p in found):
            raise InputError(
                f"{self.loader} must return (train, test), each a Dataset or a pair (inputs, "
                "targets), or a Corpus"
            )
        return _examples(found[0], found[1], self.validation, "")


class TableData(Choices):
    """A table of your own, in CSV, Parquet or NPZ files; the first line of a CSV file names the
    columns."""

    name: Literal["table"]
    """A table of your own."""
    files: Annotated[tuple[Place, ...], Field(min_length=1)]
    """Where its rows are; several files are one table, their columns matched by name."""
    target: Annotated[Names, Field(min_length=1)]
    """The columns to be predicted; several are numbers."""
    test: Place | None = None
    """A file with the rows that figures come from; without one, rows are set aside for them."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """How much of all rows is set aside, if there is no test file."""
    draw: Annotated[int, Field(ge=0)] = 0
    """The seed that says which rows those are."""
    validation: Annotated[int, Field(ge=0)] = 0
    """Training rows, the last ones, that figures come from instead of the test set, as in a
    search."""

    @field_validator("target", mode="before")
    @classmethod
    def _one_is_a_list(cls, target: Any) -> Any:
        return (target,) if isinstance(target, str) else target

    @model_validator(mode="after")
    def _no_row_twice(self) -> Self:
        seen: set[Path] = set()
        for place in self.places:
            if place.resolve() in seen:
                why = "measured on as well" if place == self.test else "read twice"
                raise ValueError(f"{place} would be {why}: its rows would be known beforehand")
            seen.add(place.resolve())
        return self

    @property
    def places(self) -> tuple[Path, ...]:
        """The files that it reads."""
        return self.files if self.test is None else (*self.files, self.test)

    def load(self, folder: Path | None = None) -> Split:
        """Training and test rows, and what was found in the columns."""
        train, test = self.parts()
        of = f" of {self.test.name if self.test else ' and '.join(own.name for own in self.files)}"
        split = _examples(train, test, self.validation, of)
        return replace(split, notes=(*test.found, train.in_short))

    def parts(self) -> tuple[TableDataset, TableDataset]:
        """The same as data sets; the first knows all that was found."""
        choices = Choices(**{name: getattr(self, name) for name in Choices.model_fields})
        source = " and ".join(map(str, self.files))
        frame = read_frame(self.files, self.categories)
        whole = made_of(frame, self.target, choices, source)
        if self.test is None:
            train, test = whole.parts(self.share, self.draw)
            return train, replace(test, found=())
        frame = read_frame([self.test], whole.columns.texts)
        return whole, made_of(frame, None, Choices(), str(self.test), like=whole)


def _examples(train: Any, test: Any, validation: int, of: str) -> Split:
    if not validation:
        return Split(train, {"test": Part(test, f"the {_count(test):,} test examples{of}")})
    count = _count(train)
    if not 0 < validation < count:
        raise InputError(f"data.validation = {validation}: there are {count} training examples")
    rest: Any
    held: Any
    if isinstance(train, Dataset):
        rest, held = train.split(validation)
    else:
        rest = tuple(part[: count - validation] for part in train)
        held = tuple(part[count - validation :] for part in train)
    name = f"{validation:,} training examples{of} held out for validation"
    return Split(rest, {"validation": Part(held, name)}, held)


def _count(data: Any) -> int:
    return len(data) if isinstance(data, Dataset) else len(data[1])


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _kind(fields: Any) -> str:
    name = fields.get("name") if isinstance(fields, dict) else getattr(fields, "name", None)
    if name in ("custom", "table"):
        return str(name)
    return "text" if name in (*TEXTS, "text") else "examples"


DataSettings = Annotated[
    Annotated[NamedData, Tag("examples")]
    | Annotated[TextData, Tag("text")]
    | Annotated[TableData, Tag("table")]
    | Annotated[CustomData, Tag("custom")],
    Discriminator(_kind),
]
