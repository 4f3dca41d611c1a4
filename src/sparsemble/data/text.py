"""A text to learn a language model from, in three parts, as indices of words.

Words are what stands between white space; every line that holds one is followed by `<eos>`. The
vocabulary is that of the training text alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, TypeVar

from torch import Tensor

from sparsemble.data.opening import Opened
from sparsemble.data.split import Part, Split
from sparsemble.data.vocabulary import END, Vocabulary
from sparsemble.errors import InputError

PARTS = ("train", "validation", "test")
_SPELLINGS = {"train": ("train",), "validation": ("valid", "dev", "validation"), "test": ("test",)}
_GZIP = b"\x1f\x8b"
_VALIDATION_STREAMS = 20
"""Streams the validation text is read in; the test text is read as one."""
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Text:
    """Tokens of one text, and how it is read.

    Final figures use one stream. More are faster: the text is cut into that many pieces, which are
    read side by side, each from the zero state.
    """

    tokens: Tensor
    name: str = "the text"
    streams: int = 1
    true_nll: float | None = None
    """The source's own mean negative log-probability per token, if known."""
    unknown: int = 0
    """Tokens that are `<unk>` because the vocabulary lacks the word."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about it."""
        return about_unknown(self.unknown, self.name)


def about_unknown(count: int, name: str) -> tuple[str, ...]:
    """A sentence about words that a vocabulary lacks, if there are any."""
    return (f"{count} words of {name} are not in the vocabulary: read as <unk>",) if count else ()


@dataclass(frozen=True)
class Corpus:
    """A training, a validation and a test text, and what is known about their source."""

    vocabulary: Vocabulary
    train: Tensor
    validation: Tensor
    test: Tensor
    unknown: dict[str, int]
    """How many tokens of each part are `<unk>` because the vocabulary lacks the word."""
    name: str
    entropy: float | None = None
    """Nats per token of the source, if known: no model has a lower expected loss."""
    true_nll: dict[str, float] | None = None
    """The source's own mean negative log-probability per token on each part, if known."""

    def __post_init__(self) -> None:
        for part in PARTS:
            try:
                self.vocabulary.check(getattr(self, part))
            except InputError as error:
                raise InputError(f"the {part} part of {self.name}: {error}") from None

    def part(self, name: str, streams: int = 1) -> Text:
        """One of its texts, to be read in so many streams."""
        _check_part(name)
        true_nll = None if self.true_nll is None else self.true_nll.get(name)
        title = f"the {name} text of {self.name}"
        return Text(getattr(self, name), title, streams, true_nll, self.unknown.get(name, 0))

    def split(self, measure: str = "test") -> Split:
        """Its parts: figures come from the validation text, read fast, and from the test text."""
        streams = min(_VALIDATION_STREAMS, len(self.validation))
        texts = {"validation": self.part("validation", streams), "test": self.part("test")}
        measured = {name: Part(text, text.name) for name, text in texts.items()}
        if measure == "validation":
            del measured["test"]
        return Split(self, measured, notes=self.part("train").notes)

    def beginning(self, portion: float) -> Corpus:
        """The same corpus with only the first `portion` of the training text.

        What was counted on all of that text is left out.
        """
        if not 0 < portion <= 1:
            raise InputError(f"portion = {portion}: must be above 0 and at most 1")
        if portion == 1:
            return self
        return replace(
            self,
            train=self.train[: round(portion * len(self.train))],
            unknown=_without_train(self.unknown),
            true_nll=None if self.true_nll is None else _without_train(self.true_nll),
        )


def _without_train(counts: dict[str, Number]) -> dict[str, Number]:
    return {part: count for part, count in counts.items() if part != "train"}


def read_corpus(
    source: str | Path | Mapping[str, Path], *, size: int | None = None, threshold: int = 1
) -> Corpus:
    """Read plain UTF-8 text from a folder, or from a file for each part, by its name.

    In a folder a part's file is the one with the part between the dots of its name: `train.txt`,
    `ptb.train.txt`, `wiki.train.tokens`; for `validation` also `valid` or `dev`. `size` and
    `threshold` limit the vocabulary, see `Vocabulary.build`.
    """
    if isinstance(source, Mapping):
        if set(source) != set(PARTS):
            raise InputError(
                f"a text is made of files for {', '.join(PARTS)}: got {', '.join(source) or 'none'}"
            )
        files = {part: Path(source[part]) for part in PARTS}
        name = files["train"].stem
    else:
        folder = Path(source)
        files = _files_in(folder)
        name = folder.resolve().name
    words = {part: list(chain.from_iterable(read_lines(path))) for part, path in files.items()}
    sources = {part: str(path) for part, path in files.items()}
    return _corpus(words, sources, name, size, threshold)


def corpus_of(
    contents: Mapping[str, bytes],
    sources: Mapping[str, str],
    *,
    name: str,
    size: int | None = None,
    threshold: int = 1,
) -> Corpus:
    """A corpus from the bytes of its parts; `sources` says for messages where each came from."""
    lines = {part: _lines(io.BytesIO(contents[part]), sources[part]) for part in PARTS}
    words = {part: list(chain.from_iterable(own)) for part, own in lines.items()}
    return _corpus(words, sources, name, size, threshold)


def _corpus(
    words: Mapping[str, list[str]],
    sources: Mapping[str, str],
    name: str,
    size: int | None,
    threshold: int,
) -> Corpus:
    try:
        vocabulary = Vocabulary.build(words["train"], size=size, threshold=threshold)
    except InputError as error:
        raise InputError(f"{sources['train']}: {error}") from None
    encoded = {part: vocabulary.encode(words[part], sources[part]) for part in PARTS}
    return Corpus(
        vocabulary,
        train=encoded["train"][0],
        validation=encoded["validation"][0],
        test=encoded["test"][0],
        unknown={part: count for part, (_, count) in encoded.items()},
        name=name,
    )


def read_lines(path: Path) -> Iterator[list[str]]:
    """The words of a text file or a pipe, line by line: `<eos>` is after every line that has any.

    Lines without a word are left out.
    """
    with Opened(path) as file:
        yield from _lines(file, str(path))


def part_of(folder: Path, part: str) -> Path:
    """The file in a folder that holds a part of a text."""
    _check_part(part)
    (path,) = _files_in(folder, (part,)).values()
    return path


def _check_part(name: str) -> None:
    if name not in PARTS:
        raise InputError(f"part {name!r} is not one of {', '.join(PARTS)}")


def _files_in(folder: Path, parts: Sequence[str] = PARTS) -> dict[str, Path]:
    """The file of each part in a folder; exactly one each."""
    if not folder.is_dir():
        state = "is a file, not a folder" if folder.exists() else "does not exist"
        raise InputError(
            f"{folder} {state}: name a folder that holds train.txt, valid.txt and test.txt"
        )
    try:
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from None
    found = {}
    for part in parts:
        spellings = _SPELLINGS[part]
        fitting = [
            name
            for name in names
            if not name.startswith(".") and set(name.lower().split(".")) & set(spellings)
        ]
        looked_for = " or ".join(f"{spelling}.txt" for spelling in spellings)
        if not fitting:
            raise InputError(
                f"{folder} holds no {part} text: looked for {looked_for}, or a name such as "
                f"text.{spellings[0]}.txt, among {len(names)} files"
            )
        if len(fitting) > 1:
            raise InputError(
                f"{folder} holds {len(fitting)} files for the {part} text, {', '.join(fitting)}: "
                "leave one, or name the three files instead of the folder"
            )
        found[part] = folder / fitting[0]
    return found


def _lines(file: IO[bytes], source: str) -> Iterator[list[str]]:
    """The words of each line that has any, with `<eos>` after them."""
    read, some = 0, False
    for number, line in enumerate(file, start=1):
        if read == 0 and line.startswith(_GZIP):
            raise InputError(f"{source} is compressed, not plain text: unpack it with gunzip")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{source} is not UTF-8 text: byte {read + error.start} is "
                f"0x{line[error.start]:02x}; convert it, with iconv for instance"
            ) from None
        words = (text if read else text.removeprefix("\ufeff")).split()
        read += len(line)
        if END in words:
            raise InputError(
                f"{source} holds {END} in line {number}: remove it, every line gets one"
            )
        if words:
            some = True
            yield [*words, END]
    if not some:
        raise InputError(f"{source} is empty: it holds no word")
