"""A vocabulary: the words a language model knows, each with its index.

`<eos>` ends a line; `<unk>` stands for every word that is not in the vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sparsemble.errors import InputError

UNKNOWN = "<unk>"
END = "<eos>"


@dataclass(frozen=True)
class Vocabulary:
    """Different words in the order of their indices.

    >>> words = "the dog sees the cat".split()
    >>> vocabulary = Vocabulary.build(words, size=4)
    >>> vocabulary.words
    ('<eos>', '<unk>', 'the', 'dog')
    >>> vocabulary.encode(words, "the example")
    (tensor([2, 3, 1, 2, 1]), 2)
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not all(isinstance(word, str) for word in self.words):
            wrong = next(word for word in self.words if not isinstance(word, str))
            raise InputError(f"the vocabulary holds {wrong!r}, which is not a text")
        if len(self._indices) < len(self.words):
            word, count = Counter(self.words).most_common(1)[0]
            raise InputError(f"the vocabulary holds {word!r} {count} times: list every word once")

    @classmethod
    def build(
        cls, words: Iterable[str], *, size: int | None = None, threshold: int = 1
    ) -> Vocabulary:
        """The most frequent words of a text, the first to appear first among equals.

        Only words that occur `threshold` times, and at most `size` of them, counting `<eos>`, which
        is always there, and `<unk>`, which is there if the text has it or a word was left out.
        """
        if size is not None and size < 3:
            raise InputError(
                f"a vocabulary of {size} has no room for a word beside {END} and {UNKNOWN}: "
                "ask for a size of 3 or more"
            )
        if threshold < 1:
            raise InputError(f"the threshold of a vocabulary is a count of 1 or more: {threshold}")
        counts = Counter(words)
        has_unknown = counts.pop(UNKNOWN, 0) > 0
        counts.pop(END, None)
        frequent = [word for word, count in counts.most_common() if count >= threshold]
        if counts and not frequent:
            word, count = counts.most_common(1)[0]
            raise InputError(
                f"no word occurs {threshold} times, the most frequent, {word!r}, {count}: "
                "lower the threshold"
            )
        room = len(frequent) if size is None else size - 1
        if has_unknown or len(frequent) < len(counts) or len(frequent) > room:
            room = len(frequent) if size is None else size - 2
            return cls((END, UNKNOWN, *frequent[:room]))
        return cls((END, *frequent))

    def __len__(self) -> int:
        return len(self.words)

    def check(self, tokens: Tensor) -> None:
        """Is this a text in words of the vocabulary?"""
        check_text(tokens)
        if len(tokens) == 0:
            raise InputError("a text of 0 tokens")
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= len(self):
            raise InputError(
                f"the text holds the index {low if low < 0 else high}, the vocabulary has "
                f"{len(self)} words"
            )

    def index(self, word: str) -> int:
        """The index of a word that is known."""
        return self._indices[word]

    def encode(self, words: Iterable[str], source: str) -> tuple[Tensor, int]:
        """The words' indices, and how many of them were unknown and are now `<unk>`."""
        listed = list(words)
        fallback = self._indices.get(UNKNOWN, -1)
        if fallback < 0 and (strange := [word for word in listed if word not in self._indices]):
            raise InputError(
                f"{source}: {strange[0]!r} is not in the vocabulary of {len(self)} words, nor is "
                f"{UNKNOWN} to stand for it ({len(strange)} of {len(listed)} words are missing): "
                f"leave them out, or make a vocabulary with {UNKNOWN} by a threshold of 2, a "
                f"smaller size or by writing {UNKNOWN} in the training text"
            )
        unknown = sum(word not in self._indices for word in listed)
        return torch.tensor([self._indices.get(word, fallback) for word in listed]).long(), unknown

    def decode(self, indices: Iterable[int] | Tensor) -> list[str]:
        """The words at these indices."""
        listed = indices.tolist() if isinstance(indices, Tensor) else list(indices)
        for index in listed:
            if not 0 <= index < len(self):
                raise InputError(
                    f"index {index} is outside the vocabulary of {len(self)} words, "
                    f"0 to {len(self) - 1}"
                )
        return [self.words[index] for index in listed]

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}


def words_of(text: str) -> list[str]:
    """The words of a text, whose lines end in `<eos>`; as in files, empty ones do not count.

    >>> words_of("the dog\\n\\nsees")
    ['the', 'dog', '<eos>', 'sees']
    """
    *ended, last = text.split("\n")
    lines = [f"{line} {END}" for line in ended if line.strip()]
    return " ".join([*lines, last]).split()


def text_of(words: Iterable[str]) -> str:
    """Words as the text that they are: `text_of(words_of(text))` is the text, but for spaces.

    >>> text_of(["the", "dog", "<eos>", "sees"])
    'the dog\\nsees'
    """
    lines = " ".join(words).split(END)
    return "\n".join(line.strip() for line in lines)


def check_text(tokens: Tensor) -> None:
    """Could this be a text, whatever its vocabulary?"""
    if tokens.ndim != 1 or tokens.dtype != torch.int64:
        raise InputError(
            f"a text is one row of int64 indices, not {tokens.dtype} of {tuple(tokens.shape)}"
        )
