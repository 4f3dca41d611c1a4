"""How the language models read a text, and a text of their own."""

from __future__ import annotations

import math

from sparsemble.data.vocabulary import END
from sparsemble.reports.markup import Html, element, joined, table
from sparsemble.reports.measures.words import Position, TextFacts
from sparsemble.reports.sections.parts import Section, said

_PIVOT = 0.1
"""A word of this probability is left uncoloured."""


def reading(text: TextFacts) -> Section:
    """The beginning of the validation text, coloured by how well it was foreseen."""
    parts = [
        said(
            "The beginning of the validation text. Every word is coloured by the probability the "
            "ensemble gave it before it came; point at a word, or touch it, for what was expected."
        ),
        element(
            "p",
            element(
                "span", "not foreseen", element("i", class_="words"), "foreseen", class_="scale"
            ),
        ),
        element("p", *map(_word, text.positions), class_="reading"),
        element("h3", "Where the members disagree most"),
        _table(text, text.most) if text.most else said(_agreement(text.positions[0])),
        element("h3", "Where the ensemble is surest"),
        _table(text, text.least) if text.least else said(_sameness(text.positions[0])),
    ]
    return Section("reading", "Reading a text", joined(parts))


def sample_text(text: TextFacts) -> Section:
    """Words drawn from the ensemble."""
    lines: list[list[str]] = [[]]
    for word in text.drawn:
        if word == END:
            lines.append([])
        else:
            lines[-1].append(word)
    shown = [" ".join(line) for line in lines if line]
    parts = [
        said("Drawn word by word from the ensemble's probabilities."),
        element("blockquote", *(element("p", line) for line in shown)),
    ]
    return Section("sample", "A text of its own", joined(parts))


def _word(position: Position) -> Html:
    ends = position.word == END
    likely = position.probability >= _PIVOT
    # By logarithm from the pivot: up to certainty, and down to one in ten thousand.
    share = math.log(max(position.probability, 1e-9) / _PIVOT) / math.log(1 / _PIVOT)
    strength = share if likely else min(1.0, -share / 3)
    expected = "\n".join(f"{p:6.1%}  {word}" for word, p in position.top)
    tip = (
        f"{position.word}: {position.probability:.2%}\nentropy {position.entropy:.2f}, "
        f"disagreement {position.mutual_information:.3f}\n{expected}"
    )
    word = element(
        "span",
        "⏎" if ends else position.word,
        class_=("high" if likely else "low") + (" end" if ends else ""),
        style=f"--share:{strength:.2f}",
        data_tip=tip,
    )
    return joined([word, element("br") if ends else " "])


def _agreement(anywhere: Position) -> str:
    return (
        "Nowhere more than elsewhere: at every word of this text their disagreement is "
        f"{anywhere.mutual_information:.3f}."
    )


def _sameness(anywhere: Position) -> str:
    return (
        "Nowhere more than elsewhere: at every word of this text the entropy is "
        f"{anywhere.entropy:.2f}. The ensemble seems not to heed the words that came before."
    )


def _table(text: TextFacts, indices: tuple[int, ...]) -> Html:
    header = ["After", "came", "Probability", "Entropy", "Disagreement", "Expected"]
    rows = []
    for index in indices:
        one = text.positions[index]
        context = " ".join("⏎" if w == END else w for w in text.context(index))
        expected = ", ".join(f"{word} {p:.0%}" for word, p in one.top[:3])
        figures = (f"{one.probability:.1%}", f"{one.entropy:.2f}", f"{one.mutual_information:.3f}")
        rows.append([f"… {context}", one.word, *figures, expected])
    return table(header, rows, texts=(0, 1, 5))
