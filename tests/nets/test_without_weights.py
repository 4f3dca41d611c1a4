"""Networks built for their structure alone: no numbers are drawn, and no compiler is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from sparsemble.nets import LanguageModel
from sparsemble.nets.without_weights import without_weights

LOADING = """
import sys
from pathlib import Path
from sparsemble.runs.opening import open_ensemble
before = set(sys.modules)
open_ensemble(Path(sys.argv[1]))
new = set(sys.modules) - before
assert "torch._dynamo" not in sys.modules
assert len(new) < 20, sorted(new)
"""


def test_shapes_are_those_of_networks_with_weights():
    with without_weights():
        empty = LanguageModel(20, 6, [5, 4])
    whole = LanguageModel(20, 6, [5, 4])
    assert all(parameter.is_meta for parameter in empty.parameters())
    assert {name: p.shape for name, p in empty.named_parameters()} == {
        name: p.shape for name, p in whole.named_parameters()
    }


def test_afterwards_layers_are_initialised_again():
    with without_weights():
        nn.Embedding(3, 2)
    torch.manual_seed(0)
    first = nn.Embedding(3, 2).weight
    torch.manual_seed(0)
    assert torch.equal(first, torch.randn(3, 2))


@pytest.mark.slow
def test_the_first_language_model_loads_without_torchs_compiler(text_run):
    subprocess.run([sys.executable, "-c", LOADING, str(text_run)], check=True)
