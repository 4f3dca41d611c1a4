"""Figures 4a and 4b: what every stage made of the networks, alone and averaged.

The stages are looked at after the fact: the saved samples as they are, the same pruned again by the
recipe, and the final members. For each there is the metric of every network by itself and of the
first one, two, … of them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sparsemble.data import Corpus, Dataset
from sparsemble.ensemble import Ensemble, LanguageEnsemble
from sparsemble.ensemble.metrics import error_rate, negative_log_likelihood
from sparsemble.members import Member
from sparsemble.reports.opening import FinishedRun
from sparsemble.runs.results import VALID_STREAMS

StageName = Literal["sampled", "pruned", "retrained"]

_WORK = 2e12
"""Floating point operations to spend on a text at most: about a minute of one core."""


@dataclass(frozen=True)
class StageCurve:
    """One stage: each network by itself, and the first k of them together."""

    stage: StageName
    alone: tuple[float, ...]
    together: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """A metric over the number of networks, for the stages the run went through."""

    metric: str
    measured_on: str
    whole: bool
    """Is that all of the data that the result was measured on?"""
    guessed: float
    """The metric of guessing by how frequent classes or words are in the training data."""
    stages: tuple[StageCurve, ...]

    @property
    def final(self) -> StageCurve:
        """The members of the ensemble."""
        return self.stages[-1]

    def of(self, stage: StageName) -> StageCurve | None:
        """One stage, if the run has it."""
        return next((curve for curve in self.stages if curve.stage == stage), None)


def final_stage(run: FinishedRun) -> StageName:
    """What the members of the ensemble are."""
    if run.recipe.retrain is not None:
        return "retrained"
    return "sampled" if run.recipe.prune is None else "pruned"


def class_curves(run: FinishedRun, test: Dataset, measured_on: str) -> tuple[Curves, Curves]:
    """Error % and NLL of classifiers on the evaluation set."""
    assert isinstance(run.ensemble, Ensemble)
    assert not isinstance(run.data, Corpus)
    scaling = run.ensemble.scaling
    shares = frequencies(run.data[0].targets, len(test.class_names)).expand(len(test), -1)
    guessed = [measured(shares, test.targets) for measured in _MEASURED]

    def probabilities(member: Member) -> Tensor:
        return Ensemble([member], scaling=scaling).member_probabilities(test.inputs)[0]

    errors, losses = [], []
    for stage, members in _stages(run):
        total = torch.zeros(())
        rows: list[list[float]] = []
        for member in members:
            own = probabilities(member)
            total = total + own
            mean = total / (len(rows) + 1)
            rows.append([measured(p, test.targets) for p in (own, mean) for measured in _MEASURED])
        own_error, own_loss, error, loss = zip(*rows, strict=True)
        errors.append(StageCurve(stage, own_error, error))
        losses.append(StageCurve(stage, own_loss, loss))
    return (
        Curves("Error %", measured_on, True, guessed[0], tuple(errors)),
        Curves("NLL", measured_on, True, guessed[1], tuple(losses)),
    )


_MEASURED: tuple[Callable[[Tensor, Tensor], float], ...] = (
    lambda p, targets: 100 * error_rate(p, targets),
    negative_log_likelihood,
)


def text_curves(run: FinishedRun, corpus: Corpus) -> Curves:
    """Perplexity of language models on the validation text, or on its beginning if that is long."""
    assert isinstance(run.ensemble, LanguageEnsemble)
    vocabulary = run.ensemble.vocabulary
    tokens = corpus.valid[: _affordable(run, len(corpus.valid))]
    curves = []
    for stage, members in _stages(run):
        total: Tensor | None = None
        alone, together = [], []
        for number, member in enumerate(members, 1):
            reader = LanguageEnsemble([member], vocabulary=vocabulary)
            streams = min(VALID_STREAMS, len(tokens))
            own = reader.member_log_probabilities(tokens, streams=streams)[0]
            total = own if total is None else torch.logaddexp(total, own)
            alone.append(math.exp(-float(own.mean())))
            together.append(math.exp(-float(total.mean()) + math.log(number)))
        curves.append(StageCurve(stage, tuple(alone), tuple(together)))
    whole = len(tokens) == len(corpus.valid)
    part = "" if whole else f"the first {len(tokens):,} tokens of "
    unigram = frequencies(corpus.train, len(vocabulary.words))[tokens].log()
    guessed = min(math.exp(-float(unigram.mean())), len(vocabulary.words))
    return Curves("Perplexity", f"{part}the validation text", whole, guessed, tuple(curves))


def frequencies(labels: Tensor, kinds: int) -> Tensor:
    """How probable classes or words are by their counts, each counted once more than it occurs."""
    counts = torch.bincount(labels, minlength=kinds).double() + 1
    return counts / counts.sum()


def _stages(run: FinishedRun) -> Iterator[tuple[StageName, Iterator[Member]]]:
    """The members at the end of each stage, made when they are looked at."""
    last = final_stage(run)
    if run.sample_files and last != "sampled":
        yield "sampled", map(run.dense_member, run.samples())
    if run.sample_files and last == "retrained" and run.recipe.prune is not None:
        yield "pruned", map(run.pruned_member, run.samples())
    yield last, iter(run.ensemble)


def _affordable(run: FinishedRun, tokens: int) -> int:
    """How many tokens all networks of all stages can read for the work allowed."""
    networks = len(run.ensemble) * (1 + 2 * bool(run.sample_files))
    dense = run.ensemble.cost.dense_flops
    return min(tokens, max(1000, round(_WORK / (dense * networks))))
