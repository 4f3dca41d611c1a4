"""Choosing, on validation data, how many members a budget is best spent on.

The means of neighbouring windows are averaged again, so that one chain offers one, two, four or
eight networks; each is pruned to its share of the budget, with and without retraining. What is
usual is tried first; anything else must do better by more than the standard error of the
difference, so that few validation data, which cannot tell, leave it at that. In the same way the
last windows of a chain are averaged alone where those before spoil the mean. For a feed-forward
network or a language model two members, retrained, are usual; for a traced network, which may have
no units to spare, one. More members are tried as long as that helps. One averaged network is a
legitimate answer: then averaging weights did more than averaging predictions could.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from sparsemble.ensemble.comparison import is_better
from sparsemble.stages import Sample
from sparsemble.stages.samples import mean_of
from sparsemble.structure import Layout

COUNTS = (1, 2, 4, 8)
"""Numbers of members that are tried."""
TEACHERS = 4
"""Means whose predictions together are learned from: each costs a forward pass of every batch, and
within a chain averaging predictions does little more than averaging weights."""


@dataclass(frozen=True)
class Candidate:
    """One way to spend a budget, and how it did on validation data.

    `flops` and `parameters` are shares of the dense network's; `figure` is the task's log score.
    """

    members: int
    retrained: bool
    figure: float
    flops: float
    parameters: float
    latency: float | None = None
    """Measured, if that is limited: the longest time of a prediction, of the dense network's."""

    def __str__(self) -> str:
        what = "one averaged network" if self.members == 1 else f"{self.members} members"
        return f"{what}, {'retrained' if self.retrained else 'not retrained'}"


def stage_prefix(members: int) -> str:
    """What the names of stages begin with that so many members are tried in."""
    return f"members-{members}-"


def in_turn(layout: Layout) -> tuple[int, ...]:
    """The numbers of members in the order in which they are tried."""
    return COUNTS if layout.links else (2, 1, 4, 8)


def is_enough(count: int, usual: int, *, helped: bool) -> bool:
    """Is there no need to try further numbers of members?

    If one is better than two, more would not do; nor if more than the usual do not help.

    Args:
        count: The number that was tried last.
        usual: The one that was tried first.
        helped: Was it the best so far?
    """
    return helped if (count, usual) == (1, 2) else not helped and count > usual


def by_chain(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Every chain's samples."""
    chains: dict[int, list[Sample]] = {}
    for sample in samples:
        chains.setdefault(sample.chain, []).append(sample)
    return list(chains.values())


def recent(
    samples: Sequence[Sample], scored: Callable[[Sequence[Sample]], Tensor], *, usual: int = 1
) -> list[Sample]:
    """The last samples of every chain, as many as do best: those before may be on their way yet.

    Args:
        samples: Of chains.
        scored: Log scores of the means of some of them on validation data. Fewer than can be
            shared out among all numbers of members must do better.
        usual: The number of members for which there must be enough.
    """
    chains = by_chain(samples)
    shortest = min(map(len, chains))
    best: tuple[list[Sample], Tensor] | None = None
    for count in reversed(COUNTS):
        if count <= shortest and (best is None or count * len(chains) >= usual):
            own = [sample for chain in chains for sample in chain[-count:]]
            scores = scored(own)
            if best is None or is_better(scores, best[1]):
                best = own, scores
    assert best is not None, "every chain has a sample"
    return best[0]


def means_of(
    samples: Sequence[Sample], count: int, layout: Layout, network: nn.Module
) -> list[Sample] | None:
    """So many means of neighbouring samples; `None` if they cannot be shared out evenly.

    Samples of different chains have nothing in common to average: fewer means than chains come
    from the first chains alone.
    """
    chains = sorted({sample.chain for sample in samples})[:count]
    own = [sample for sample in samples if sample.chain in chains]
    each, rest = divmod(len(own), count)
    if each == 0 or rest or count % len(chains):
        return None
    parts = (own[first : first + each] for first in range(0, len(own), each))
    return [mean_of(part, layout, network) for part in parts]
