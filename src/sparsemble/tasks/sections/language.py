"""How the language models read a text, and a text of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from sparsemble.data.vocabulary import END
from sparsemble.pages.blocks import Fragment, Section, Table
from sparsemble.pages.render import render
from sparsemble.tasks.language import LanguageModelling
from sparsemble.tasks.sections.text_facts import Position, TextFacts, text_facts
from sparsemble.tasks.task import Evaluation, Predictor

_PIVOT = 0.1
"""A word of this probability is left uncoloured."""


def sections(
    task: LanguageModelling, ensemble: Predictor, evaluation: Evaluation, seed: int
) -> Iterator[Section]:
    """All that a report shows of language models."""
    text = text_facts(task, ensemble, evaluation.data.tokens, seed)
    yield from (reading(text), sample_text(text))


def reading(text: TextFacts) -> Section:
    """The beginning of the validation text, coloured by how well it was foreseen."""
    shown = render(
        "tasks/sections/reading.html",
        words=map(_word, text.positions),
        most=_table(text, text.most),
        least=_table(text, text.least),
        anywhere=text.positions[0],
    )
    return Section("reading", "Reading a text", [Fragment(shown)])


def sample_text(text: TextFacts) -> Section:
    """Words drawn from the ensemble."""
    lines = [" ".join(line) for ends, line in groupby(text.drawn, END.__eq__) if not ends]
    shown = render("tasks/sections/sample.html", lines=lines)
    return Section("sample", "A text of its own", [Fragment(shown)])


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
