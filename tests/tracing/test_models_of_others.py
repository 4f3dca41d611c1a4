"""Models that others wrote are traced as they come, and stay exact when they are made smaller."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

from sparsemble.errors import InputError
from sparsemble.tracing import Traced, describe

pytest.importorskip("transformers", reason="models of others: pip install 'sparsemble[others]'")

import models_of_others as others

pytestmark = pytest.mark.slow

EXPECTED = {
    "BERT classifier": "8 heads, 64 units",
    "GPT-2": "8 heads, 48 units",
    "Llama": "4 heads, 48 units",
    "Whisper classifier": "16 channels, 8 heads, 60 units",
    "ConvNeXt": "80 units",
}
"""What may go from a few that differ most; `benchmarks/models_of_others.py` goes through all."""
SIMILAR = ("ConvNeXt", "Llama", "Whisper classifier")
"""To networks of the zoo."""


@functools.cache
def traced_model(name: str) -> tuple[nn.Module, Traced]:
    """Each once; leave both as they are."""
    return others.traced(others.MODELS[name])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name in SIMILAR else ())
        for name in EXPECTED
    ],
)
def test_a_model_loses_units_and_computes_the_same(name: str) -> None:
    model = others.MODELS[name]
    network, traced = traced_model(name)
    assert others.removable(traced) == EXPECTED[name]
    worst, compared = others.worst_difference(model, network, traced, maskings=2)
    assert worst < 1e-10
    assert 0 in compared


def test_a_model_that_returns_its_cache_is_refused() -> None:
    with pytest.raises(InputError, match="returns a DynamicCache: only tensors can be returned"):
        others.traced(others.MODELS["Llama, with its cache"])


def test_named_inputs_may_come_in_any_order() -> None:
    model = others.MODELS["BERT classifier"]
    network, traced = traced_model("BERT classifier")
    inputs = model.inputs(2, 0)
    turned = dict(reversed(inputs.items()))
    found = traced.program.eval()(**turned)["logits"]
    torch.testing.assert_close(found, network(**inputs).logits)
    with pytest.raises(InputError, match="'token_type_ids' was not given"):
        traced.program(**inputs, token_type_ids=inputs["input_ids"] * 0)


def test_an_input_that_is_no_tensor_is_refused() -> None:
    model = others.MODELS["BERT classifier"]
    with pytest.raises(InputError, match="an input False: only tensors can be"):
        describe(model.make(), **model.inputs(2, 0), return_dict=False)
