"""Ensembles of every kind that is deployed: two members each, pruned at random."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from scenarios import random_masks
from several_inputs import Reader, Siamese
from sparsemble.data import Scaling
from sparsemble.data.inputs import as_arguments
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.layouts.known import is_known
from sparsemble.members import Member, compact, filled, tensors_of
from sparsemble.nets import (
    LanguageModel,
    RecurrentClassifier,
    SmallCNN,
    TransformerClassifier,
    TransformerLanguageModel,
    feedforward,
)
from sparsemble.structure.groupings import grouped
from sparsemble.tasks import Classification, LanguageModelling, Regression, Task
from sparsemble.tasks.input_parts import parts_of
from sparsemble.tracing.describe import described

WORDS = ("<eos>", "<unk>", *"abcdefghij")
FEATURES = ("age", "height", "weight", "pulse", "blood", "sleep")


def members(
    make: Callable[[], nn.Module], *inputs: Tensor, along: int = 0, **named: Tensor
) -> list[Member]:
    """Two networks without some of their weights, and without the units that goes for."""
    made = []
    traced = None
    for seed in range(2):
        torch.manual_seed(seed)
        network = make().eval()
        if is_known(network):
            layout = layout_of(network)
        else:
            traced = traced or described(network, inputs, named, along=along)
            tensors = tensors_of(traced.program) | tensors_of(network)
            network = filled(traced.program, tensors).eval()
            layout = grouped(traced.layout, "outgoing")
        made.append(compact(network, layout, random_masks(layout, network, 0.4)).eval())
    return made


def classes() -> Ensemble:
    scaling = Scaling(torch.arange(6.0), torch.full((6,), 0.25))
    task = Classification(
        class_names=("low", "middle", "high"), feature_names=FEATURES, scaling=scaling
    )
    return Ensemble(members(lambda: feedforward(6, [10, 8], 3)), task)


def numbers(noise: str) -> Ensemble:
    task = Regression(
        noise=noise,
        num_targets=2,
        target_names=("price", "rent"),
        scaling=Scaling(torch.arange(6.0), torch.full((6,), 0.25)),
        target_scaling=Scaling(torch.tensor([1e5, 3.0]), torch.tensor([1e-4, 2.0])),
    )
    width = 2 if noise == "learned" else 4
    return Ensemble(members(lambda: task.prepared(feedforward(6, [10, 8], width))), task)


def pictures() -> Ensemble:
    task = Classification(input_shape=(1, 8, 8), scaling=Scaling.by(1 / 16))
    return Ensemble(members(lambda: SmallCNN((1, 8, 8), [6, 8], 4), torch.rand(3, 1, 8, 8)), task)


def sentences(network: Callable[[], nn.Module]) -> Ensemble:
    tokens = torch.randint(12, (3, 7))
    task = Classification(input_parts=parts_of(as_arguments([tokens], "the inputs")))
    return Ensemble(members(network, tokens), task)


def transformer() -> Ensemble:
    return sentences(lambda: TransformerClassifier(9, 8, 3, words=12, layers=1, heads=2))


def both_ways() -> Ensemble:
    return sentences(lambda: RecurrentClassifier([8], 3, words=12, cell="gru", bidirectional=True))


def pairs() -> Ensemble:
    pair = (torch.randn(3, 4), torch.randn(3, 4))
    task = Classification(input_parts=parts_of(as_arguments(pair, "the inputs")))
    return Ensemble(members(Siamese, *pair), task)


def masked() -> Ensemble:
    tokens = torch.randint(12, (3, 7))
    given = {"tokens": tokens, "mask": torch.arange(7) >= torch.tensor([[3], [7], [5]])}
    task = Classification(input_parts=parts_of(as_arguments(given, "the inputs")))
    return Ensemble(members(Reader, **given), task)


def text() -> Ensemble:
    task = LanguageModelling(words=WORDS, window=5)
    make = lambda: LanguageModel(12, 6, [8, 6], dropout=0.1, init_range=0.8)  # noqa: E731
    return Ensemble(members(make), task)


def read_again() -> Ensemble:
    task: Task = LanguageModelling(words=WORDS, window=5, context=4)
    make = lambda: TransformerLanguageModel(12, 8, context=4, layers=1, heads=2)  # noqa: E731
    return Ensemble(members(make, torch.randint(12, (5, 3)), along=1), task)


KINDS: dict[str, Callable[[], Ensemble]] = {
    "classes": classes,
    "numbers with learned noise": lambda: numbers("learned"),
    "numbers with predicted noise": lambda: numbers("predicted"),
    "pictures": pictures,
    "a Transformer": transformer,
    "a bidirectional GRU": both_ways,
    "two inputs": pairs,
    "named inputs": masked,
    "an LSTM language model": text,
    "a Transformer language model": read_again,
}
