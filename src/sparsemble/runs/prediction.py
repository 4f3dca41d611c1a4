"""Using a saved ensemble on files and named data: metrics, predictions, next words."""

from __future__ import annotations

import csv
import io
import math
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sparsemble.data import Dataset, as_dataset, digits, grammar, mnist, ptb
from sparsemble.data.rows import Rows, read_rows
from sparsemble.data.text import PARTS, part_of, read_words
from sparsemble.ensemble import BaseEnsemble, Ensemble, LanguageEnsemble
from sparsemble.ensemble.uncertainty import uncertainty
from sparsemble.errors import InputError


def evaluate_on(
    ensemble: BaseEnsemble,
    name: str,
    *,
    part: str = "test",
    streams: int = 1,
    data_folder: Path | None = None,
) -> dict[str, Any]:
    """Metrics of an ensemble on a named data set or on a file."""
    images, texts = ("digits", "mnist"), ("grammar", "ptb")
    if part not in PARTS:
        raise InputError(f"part {part!r} is not one of {', '.join(PARTS)}")
    if isinstance(ensemble, LanguageEnsemble):
        if name in images:
            raise InputError(f"{name!r} are images, and the ensemble holds language models")
        return _evaluate_text(ensemble, name, part, streams, data_folder)
    assert isinstance(ensemble, Ensemble)
    if name in texts:
        raise InputError(f"{name!r} is a text, and the ensemble holds classifiers")
    if name in images:
        if part == "valid":
            raise InputError(f"{name!r} has no part 'valid', only train and test")
        data = (digits() if name == "digits" else mnist(data_folder))[part == "test"]
    else:
        data = _labelled(ensemble, read_rows(Path(name)), name)
    return {"examples": len(data), **asdict(ensemble.evaluate(data))}


def _labelled(ensemble: Ensemble, rows: Rows, source: str) -> Dataset:
    """The rows of a file as a data set that the ensemble can be measured on."""
    if rows.labels is None:
        raise InputError(f"{source} has no labels: name a column 'label' (CSV) or an array (NPZ)")
    inputs = ensemble.checked(rows.inputs, rows.names if ensemble.feature_names else None, source)
    known = ensemble.class_names
    labels: Any = rows.labels.astype(str)
    if known is None or not set(labels) <= set(known):
        try:
            labels = rows.labels.astype("float")  # indices, whether numbers or written as text
        except ValueError:
            strange = next(str(label) for label in rows.labels if str(label) not in (known or ()))
            raise InputError(
                f"{source}: the label {strange!r} is not a class of the ensemble "
                f"({', '.join(known or ()) or 'indices'})"
            ) from None
    return as_dataset(
        inputs,
        labels,
        num_classes=ensemble[0].layout.outputs.size,
        class_names=known,
        scaling=ensemble.scaling,
        source=source,
    )


def _evaluate_text(
    ensemble: LanguageEnsemble, name: str, part: str, streams: int, data_folder: Path | None
) -> dict[str, Any]:
    source: dict[str, float] = {}
    if name in ("grammar", "ptb"):
        corpus = grammar() if name == "grammar" else ptb(data_folder)
        words = corpus.vocabulary.decode(getattr(corpus, part))
        if corpus.true_nll is not None:
            source = {"the source's own perplexity": math.exp(corpus.true_nll[part])}
    else:
        path = Path(name)
        words = read_words(part_of(path, part) if path.is_dir() else path)
    tokens, unknown = ensemble.vocabulary.encode(words, name)
    score = ensemble.score(tokens, streams=streams)
    return {
        "tokens": score.tokens,
        "unknown": unknown,
        "perplexity": score.perplexity,
        "mean perplexity of a member": statistics.mean(score.members),
        **source,
    }


def predict_rows(ensemble: BaseEnsemble, path: Path) -> list[dict[str, Any]]:
    """For every row of a file: the class, how uncertain it is, every class's probability."""
    assert isinstance(ensemble, Ensemble)
    rows = read_rows(path)
    names = rows.names if ensemble.feature_names is not None else None
    by_member = ensemble.member_probabilities(ensemble.checked(rows.inputs, names, str(path)))
    probabilities, doubt = by_member.mean(0), uncertainty(by_member)
    classes = ensemble.class_names or tuple(map(str, range(probabilities.shape[1])))
    return [
        {
            "prediction": classes[int(own.argmax())],
            "entropy": float(entropy),
            "mutual_information": float(information),
            "probabilities": dict(zip(classes, map(float, own), strict=True)),
        }
        for own, entropy, information in zip(
            probabilities, doubt.entropy, doubt.mutual_information, strict=True
        )
    ]


def rows_as_csv(rows: list[dict[str, Any]]) -> str:
    """Predictions as CSV."""
    header = ["prediction", "entropy", "mutual_information", *rows[0]["probabilities"]]
    lines = [
        [
            row["prediction"],
            f"{row['entropy']:.6g}",
            f"{row['mutual_information']:.6g}",
            *(f"{p:.6g}" for p in row["probabilities"].values()),
        ]
        for row in rows
    ]
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([header, *lines])
    return table.getvalue()


@dataclass(frozen=True)
class TextPrediction:
    """What a language ensemble says about a text."""

    tokens: int
    unknown: int
    perplexity: float
    next_words: list[tuple[str, float]]

    def text(self) -> str:
        """For people."""
        lines = [
            f"perplexity {self.perplexity:.2f} on {self.tokens} tokens ({self.unknown} unknown)"
        ]
        lines += [f"{probability:7.2%}  {word}" for word, probability in self.next_words]
        return "\n".join(lines)


def predict_text(ensemble: LanguageEnsemble, path: Path, words: int) -> TextPrediction:
    """Perplexity of a text, and the most probable words after its last line's last word."""
    read = read_words(path)
    tokens, unknown = ensemble.vocabulary.encode(read, str(path))
    return TextPrediction(
        len(tokens),
        unknown,
        ensemble.score(tokens).perplexity,
        ensemble.next_words(read[:-1], words),
    )
