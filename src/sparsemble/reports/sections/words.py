"""How the language models read a text, and a text of their own."""

from __future__ import annotations

import math

from sparsemble.data.vocabulary import END
from sparsemble.pages.blocks import Fragment, Heading, Paragraph, Quote, Scale, Section, Table
from sparsemble.pages.render import render
from sparsemble.reports.measures.words import Position, TextFacts

_PIVOT = 0.1
"""A word of this probability is left uncoloured."""


def reading(text: TextFacts) -> Section:
    """The beginning of the validation text, coloured by how well it was foreseen."""
    anywhere = text.positions[0]
    blocks = [
        Paragraph(
            "The beginning of the validation text. Every word is coloured by the probability the "
            "ensemble gave it before it came; point at a word, or touch it, for what was expected."
        ),
        Scale("not foreseen", "foreseen", "words"),
        Fragment(render("words.html", words=map(_word, text.positions))),
        Heading("Where the members disagree most"),
        _table(text, text.most)
        if text.most
        else Paragraph(
            "Nowhere more than elsewhere: at every word of this text their disagreement is "
            f"{anywhere.mutual_information:.3f}."
        ),
        Heading("Where the ensemble is surest"),
        _table(text, text.least)
        if text.least
        else Paragraph(
            "Nowhere more than elsewhere: at every word of this text the entropy is "
            f"{anywhere.entropy:.2f}. The ensemble seems not to heed the words that came before."
        ),
    ]
    return Section("reading", "Reading a text", blocks)


def sample_text(text: TextFacts) -> Section:
    """Words drawn from the ensemble."""
    lines: list[list[str]] = [[]]
    for word in text.drawn:
        if word == END:
            lines.append([])
        else:
            lines[-1].append(word)
    blocks = [
        Paragraph("Drawn word by word from the ensemble's probabilities."),
        Quote([" ".join(line) for line in lines if line]),
    ]
    return Section("sample", "A text of its own", blocks)


def _word(position: Position) -> dict[str, object]:
    """A word as the template shows it."""
    # By logarithm from the pivot: up to certainty, and down to one in ten thousand.
    share = math.log(max(position.probability, 1e-9) / _PIVOT) / math.log(1 / _PIVOT)
    expected = "\n".join(f"{p:6.1%}  {word}" for word, p in position.top)
    return {
        "text": position.word,
        "ends": position.word == END,
        "likely": share >= 0,
        "strength": share if share >= 0 else min(1.0, -share / 3),
        "tip": f"{position.word}: {position.probability:.2%}\nentropy {position.entropy:.2f}, "
        f"disagreement {position.mutual_information:.3f}\n{expected}",
    }


def _table(text: TextFacts, indices: tuple[int, ...]) -> Table:
    header = ["After", "came", "Probability", "Entropy", "Disagreement", "Expected"]
    rows = []
    for index in indices:
        one = text.positions[index]
        context = " ".join("⏎" if w == END else w for w in text.context(index))
        expected = ", ".join(f"{word} {p:.0%}" for word, p in one.top[:3])
        figures = (f"{one.probability:.1%}", f"{one.entropy:.2f}", f"{one.mutual_information:.3f}")
        rows.append([f"… {context}", one.word, *figures, expected])
    return Table(header, rows, texts=(0, 1, 5))
