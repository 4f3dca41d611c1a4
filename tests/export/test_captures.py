"""An ensemble can be captured by torch's own tools, and then predicts for any number of rows."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from deployed_kinds import KINDS

pytestmark = pytest.mark.slow

COUNTS = (4, 1, 600)
"""The first is captured with."""


def given(kind: str, count: int) -> Any:
    if "language" in kind:
        return torch.randint(12, (6, count))
    if kind == "two inputs":
        return torch.randn(count, 4), torch.randn(count, 4)
    if kind == "named inputs":
        mask = torch.arange(7) >= torch.randint(1, 8, (count, 1))
        return {"tokens": torch.randint(12, (count, 7)), "mask": mask}
    if kind == "pictures":
        return torch.rand(count, 1, 8, 8)
    return torch.randint(12, (count, 7)) if kind.startswith("a ") else torch.randn(count, 6)


made = functools.cache(lambda kind: KINDS[kind]())
"""An ensemble of a kind, each made once."""
every = pytest.mark.parametrize("kind", KINDS)
different = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.thorough)
        if kind
        in ("numbers with learned noise", "two inputs", "a Transformer", "a bidirectional GRU")
        else kind
        for kind in KINDS
    ],
)
"""What these take apart, networks and inputs, the others take as well."""


def assert_same(captured: Any, kind: str) -> None:
    for count in COUNTS:
        inputs = given(kind, count)
        wanted, found = made(kind)(inputs), captured(inputs)
        limit = 1e-5 * float(wanted.abs().max())
        torch.testing.assert_close(found, wanted, rtol=0, atol=limit)
        assert not found.requires_grad


@different
def test_torch_export_leaves_the_number_of_examples_open(kind):
    inputs, dim = given(kind, COUNTS[0]), made(kind).task.batch_dim
    shapes = pytree.tree_map(lambda _: {dim: Dim.DYNAMIC}, inputs)
    program = torch.export.export(made(kind), (inputs,), dynamic_shapes=(shapes,))
    assert_same(program.module(), kind)


@pytest.mark.parametrize(
    "kind",
    [
        "classes",
        "numbers with predicted noise",
        "an LSTM language model",
        *(
            pytest.param(kind, marks=pytest.mark.thorough)
            for kind in (
                "pictures",
                "a Transformer",
                "a bidirectional GRU",
                "two inputs",
                "named inputs",
            )
        ),
    ],
)
def test_torch_compile_finds_no_graph_breaks(kind):
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=True):  # without it, none of a torch.nn.LSTM
        compiled = torch.compile(made(kind), fullgraph=True, dynamic=True, backend="eager")
        assert_same(compiled, kind)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@every
def test_torch_jit_traces_for_any_number_of_rows(kind):
    assert_same(torch.jit.trace(made(kind), (given(kind, COUNTS[0]),)), kind)


@pytest.mark.parametrize("kind", ["named inputs", "an LSTM language model"])
def test_dropout_is_left_out_of_captures_as_of_predictions(kind):
    inputs = given(kind, COUNTS[0])
    trained = copy.deepcopy(made(kind)).train()
    captured = torch.export.export(trained, (inputs,)).module()
    torch.testing.assert_close(captured(inputs), made(kind)(inputs), rtol=1e-5, atol=1e-6)
    assert trained.training
