"""Texts in files, read by language models a segment at a time, whatever their length.

To be read in several streams a text must be known to its end before its second stream begins: its
tokens are then written to a temporary file, and each stream is read from there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sparsemble.data import Vocabulary
from sparsemble.data.targets import IGNORED
from sparsemble.data.text import about_unknown, read_lines
from sparsemble.data.vocabulary import END
from sparsemble.errors import InputError
from sparsemble.tasks.file_batches import FileBatches
from sparsemble.tasks.finite import finite
from sparsemble.tasks.scoring import Scorer
from sparsemble.tasks.segments import SEGMENT
from sparsemble.tasks.task import Answer, Evaluation, Predictor

if TYPE_CHECKING:
    from sparsemble.tasks.language import LanguageModelling

_WORDS = 64 * SEGMENT
"""That are looked up together."""
_POSITIONS = 64 * SEGMENT
"""Of all streams that are read from a temporary file together."""
_STORED = np.dtype(np.int32)


class TextFile:
    """The tokens of a file, and how many words of it were not known.

    Args:
        path: The file, or a pipe.
        vocabulary: Says what words are.
    """

    def __init__(self, path: Path, vocabulary: Vocabulary) -> None:
        self.path, self.vocabulary = path, vocabulary
        self.unknown = 0
        """In what has been read."""

    def parts(self) -> Iterator[Tensor]:
        """All tokens, from the beginning."""
        self.unknown = 0
        words: list[str] = []
        for line in read_lines(self.path):
            words += line
            if len(words) >= _WORDS:
                yield self._encoded(words)
                words = []
        if words:
            yield self._encoded(words)

    def _encoded(self, words: list[str]) -> Tensor:
        tokens, unknown = self.vocabulary.encode(words, str(self.path))
        self.unknown += unknown
        return tokens

    def segments(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and targets `(steps, 1)`: every token is a target once."""
        held, last = torch.empty(0, dtype=torch.long), self.vocabulary.index(END)
        for part in self.parts():
            held = torch.cat([held, part])
            whole = len(held) // SEGMENT * SEGMENT
            if whole:
                yield from _cut(held[:whole], last)
                held, last = held[whole:].clone(), int(held[whole - 1])
        if len(held):
            yield from _cut(held, last)

    def segments_of(self, streams: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The same of several streams, `(steps, streams)`, which are equally long pieces."""
        with tempfile.TemporaryFile() as file:
            count = _stored(self.parts(), file.fileno())
            if streams > count:
                raise InputError(f"a text of {count} tokens cannot be read in {streams} streams")
            yield from _side_by_side(file.fileno(), count, streams, self.vocabulary.index(END))


def _cut(tokens: Tensor, last: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Segments of a stretch of text; `last` is the token before it."""
    before = torch.cat([tokens.new_tensor([last]), tokens[:-1]])
    columns = (own.view(-1, 1).split(SEGMENT) for own in (before, tokens))
    return zip(*columns, strict=True)


def _stored(parts: Iterable[Tensor], file: int) -> int:
    """Write tokens to a file; how many they are."""
    count = 0
    for part in parts:
        content = memoryview(part.numpy().astype(_STORED).tobytes())
        while content:
            content = content[os.write(file, content) :]
        count += len(part)
    return count


def _side_by_side(
    file: int, count: int, streams: int, first: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Segments of stored tokens in several streams; what the last ones lack is ignored."""
    length, steps = -(-count // streams), max(1, SEGMENT // streams)
    read = max(_POSITIONS // streams // steps, 1) * steps
    for begin in range(0, length, read):
        many = min(read, length - begin)
        targets = torch.full((many, streams), IGNORED)
        inputs = torch.full((many, streams), first)
        for stream in range(streams):
            start = stream * length + begin
            there = max(min(many, count - start), 0)
            targets[:there, stream] = _tokens(file, start, there)
            # The word before a stream is the last one of the stream before.
            skipped = int(start == 0)
            known = _tokens(file, start - 1 + skipped, max(there - skipped, 0))
            inputs[skipped : skipped + len(known), stream] = known
        yield from zip(inputs.split(steps), targets.split(steps), strict=True)


def _tokens(file: int, start: int, count: int) -> Tensor:
    content = os.pread(file, count * _STORED.itemsize, start * _STORED.itemsize)
    return torch.from_numpy(np.frombuffer(content, _STORED).astype(np.int64))


def scored_text(task: LanguageModelling, path: Path, source: str, streams: int) -> Evaluation:
    """A text in a file, to be scored.

    Args:
        task: Whose words it is made of.
        path: The file, or a pipe.
        source: What it is called.
        streams: Pieces that are read side by side.
    """
    text, notes = TextFile(path, task.vocabulary), list[str]()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        yield from text.segments() if streams == 1 else text.segments_of(streams)
        notes[:] = about_unknown(text.unknown, source)

    return Evaluation(source, 0, FileBatches(batches, path), notes=notes, streams=streams)


def predicted_text(task: LanguageModelling, ensemble: Predictor, path: Path, words: int) -> Answer:
    """Perplexity of a text, and the most probable words after its last line's last word.

    Args:
        task: Whose words it is made of.
        ensemble: What predicts.
        path: The file, or a pipe.
        words: How many of the most probable ones.
    """
    from sparsemble.tasks.generating import most_probable

    text, scorer, runner = TextFile(path, task.vocabulary), Scorer(task), ensemble.runner()
    after: list[Tensor] = []
    for inputs, targets in text.segments():
        after = []  # what each member expects where the last word was read: it ends the line

        def scored(logits: Tensor, wanted: Tensor = targets, ends: list[Tensor] = after) -> Tensor:
            ends.append(task.evidence(logits[-1]))
            return task.evidence(logits, wanted.to(logits.device))

        scorer.update(finite(runner(inputs, scored), task), targets)
    score = scorer.compute()
    found = most_probable(task, finite(torch.stack(after), task), words)
    value = {
        "tokens": score.count,
        "unknown": text.unknown,
        "perplexity": score["perplexity"],
        "next_words": found,
    }
    return Answer(value, lambda: _told(value))


def _told(value: dict[str, Any]) -> str:
    lines = [
        f"perplexity {value['perplexity']:.2f} on {value['tokens']} tokens "
        f"({value['unknown']} unknown)"
    ]
    lines += [f"{probability:7.2%}  {word}" for word, probability in value["next_words"]]
    return "\n".join(lines) + "\n"
