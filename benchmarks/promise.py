"""Is the promise kept on data that nobody tuned for? One row per data set, over several seeds.

`python benchmarks/promise.py --seeds 3` learns an ensemble for the price of one dense network, with
settings that find themselves, and that dense network beside it: on tables and images that come with
scikit-learn, on classes drawn from a random network, and on the built-in grammar's text. Seeds
change the split into training and test data, the initial weights and everything else.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import sparsemble
from sparsemble.ensemble import Difference
from sparsemble.results.tables import Table
from sparsemble.tasks import Regression, Task

BUDGET = sparsemble.Budget(flops=1.0)


@dataclass(frozen=True)
class Problem:
    """Data in two parts, a network for them, and what is predicted."""

    train: Any
    test: Any
    network: Callable[[], nn.Module]
    task: Task | None = None


def bundled(name: str, *hidden: int) -> Callable[[int], Problem]:
    def problem(seed: int) -> Problem:
        data = getattr(datasets, f"load_{name}")()
        train, test, known, wanted = train_test_split(
            data.data.astype("float32"), data.target, test_size=0.4, random_state=seed
        )
        numbers = name == "diabetes"
        outputs = 2 if numbers else len(set(data.target))
        return Problem(
            (train, known),
            (test, wanted),
            lambda: sparsemble.feedforward(train.shape[1], hidden, outputs),
            Regression(noise="predicted") if numbers else None,
        )

    return problem


def drawn(seed: int) -> Problem:
    """Classes drawn from the probabilities of a random network."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(6000, 20, generator=generator)
    first, second = (torch.randn(shape, generator=generator) for shape in ((20, 30), (30, 5)))
    probabilities = ((inputs @ first).tanh() @ second).softmax(1)
    labels = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)

    def part(rows: slice) -> tuple[Tensor, Tensor]:
        return inputs[rows], labels[rows]

    known, rest = slice(2000), slice(2000, None)
    return Problem(part(known), part(rest), lambda: sparsemble.feedforward(20, [128, 64], 5))


def text(seed: int) -> Problem:
    """A quarter of the grammar's text; its test text is the same for every seed."""
    corpus = sparsemble.grammar()
    words = len(corpus.vocabulary)
    return Problem(
        corpus.beginning(0.25),
        corpus.part("test"),
        lambda: sparsemble.LanguageModel(words, 64, [64, 64], dropout=0.2),
    )


PROBLEMS = {
    "digits": bundled("digits", 256, 128),
    "breast cancer": bundled("breast_cancer", 64, 32),
    "wine": bundled("wine", 64, 32),
    "diabetes": bundled("diabetes", 64, 64),
    "drawn from a network": drawn,
    "grammar": text,
}


@dataclass(frozen=True)
class Outcome:
    """One seed: the first metric and the log score beside the dense network's, and the cost."""

    first: Difference
    score: Difference
    flops: float
    members: int


def outcome(problem: Problem, seed: int) -> Outcome:
    learned = sparsemble.learn(
        problem.network, problem.train, budget=BUDGET, seed=seed, task=problem.task
    )
    assert learned.dense is not None
    ours = learned.ensemble
    found = sparsemble.compare(ours, learned.dense.ensemble, problem.test)
    task = ours.task
    return Outcome(
        found[task.metrics[0].key], found[task.log_score], ours.cost.flops_ratio, len(ours)
    )


def row(name: str, outcomes: list[Outcome]) -> tuple[str, ...]:
    apart = [o.score.own - o.score.other for o in outcomes]
    error = stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    return (
        name,
        f"{fmean(o.score.own for o in outcomes):.4f}",
        f"{fmean(o.score.other for o in outcomes):.4f}",
        f"{fmean(apart):+.4f} ± {error:.4f}",
        f"{fmean(o.first.own for o in outcomes):.4f}",
        f"{fmean(o.first.other for o in outcomes):.4f}",
        f"{sum(o.first.is_clear and o.first.low > 0 for o in outcomes)} of {len(outcomes)}",
        f"{max(o.flops for o in outcomes):.2f}×",
        ", ".join(str(o.members) for o in outcomes),
    )


HEADER = (
    "",
    "NLL, perplexity",
    "dense",
    "difference",
    "error, RMSE, perplexity",
    "dense",
    "clearly worse",
    "FLOPs at most",
    "members",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ensembles for the price of one network.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PROBLEMS)}")
    chosen = parser.parse_args()
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)  # networks this small only lose by sharing their work
    rows = []
    for name in chosen.names or PROBLEMS:
        outcomes = [outcome(PROBLEMS[name](seed), seed) for seed in range(chosen.seeds)]
        rows.append(row(name, outcomes))
        print(" | ".join(rows[-1]), flush=True)
    from rich.console import Console

    Console(width=200).print(Table("For the price of one network", HEADER, tuple(rows)))


if __name__ == "__main__":
    main()
