"""The report calls the same groups near zero as the chain did, however its prior acts."""

import pytest

from scenarios import CLASSES
from sparsemble.recipes import load_recipe
from sparsemble.reports.measures.spreads import sample_spreads
from sparsemble.reports.opening import open_run
from sparsemble.results.running import run_recipe

SAMPLERS = {
    "sgld": {"chain.every": 5},
    "sghmc": {"chain.sampler.kind": "sghmc", "chain.sampler.friction": 0.1},
}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_share_near_zero_is_that_of_the_trace(sampler, tmp_path):
    settings = {**CLASSES, "chain.collection": "thinned", **SAMPLERS[sampler]}
    run_recipe(load_recipe("digits", settings), tmp_path / "run")
    run = open_run(tmp_path / "run")
    spreads = sample_spreads(run)
    last = run.folder.chain.history().epochs[-1]
    assert 0 < last.near_zero_groups < 1
    assert spreads.near_zero == pytest.approx(last.near_zero_groups)
