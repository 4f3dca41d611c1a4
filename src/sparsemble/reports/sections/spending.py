"""What training cost, stage by stage, beside training dense networks."""

from __future__ import annotations

from sparsemble.learning.spending import StageCost, TrainingCost
from sparsemble.pages.blocks import Paragraph, Section, Table
from sparsemble.pages.numbers import count, duration
from sparsemble.progress.terminal import stage_in_words


def spending(training: TrainingCost, members: int) -> Section:
    """Every stage, all of them, and one dense network."""
    networks = sorted({1, members})
    names = ["one dense network" if n == 1 else f"{n} dense networks" for n in networks]
    stages = [_row(stage_in_words(s.stage), s, training, networks) for s in training.stages]
    total = _row("in all", training.total, training, networks)
    dense = _row("one dense network", training.dense, training, networks)
    rest = [dense]
    if training.shed:
        saved = StageCost("", 0, training.shed, None)
        rest = [["saved by shedding", "–", *_row("", saved, training, networks)[2:]], dense]
    blocks = [
        Paragraph(
            "A step takes three times the FLOPs of its forward passes, and once those of the "
            "samples whose predictions are learned. Epochs are counted for every network, and "
            "what a divergence undid is counted, too."
        ),
        Table(
            ["Stage", "Epochs", "FLOPs", "Time", *(f"of {name}" for name in names)],
            [*stages, total, *rest],
        ),
    ]
    return Section("training", "What training cost", blocks)


def _row(name: str, cost: StageCost, training: TrainingCost, networks: list[int]) -> list[str]:
    shares = [training.share(cost, number) for number in networks]
    return [
        name,
        f"{cost.epochs:.4g}",
        "–" if cost.flops is None else count(cost.flops),
        "–" if cost.seconds is None else duration(cost.seconds),
        *("–" if share is None else f"{share:.2f}×" for share in shares),
    ]
