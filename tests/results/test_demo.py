"""The demonstration's table."""

import pytest

from sparsemble.recipes import load_recipe
from sparsemble.results.demo import comparison
from sparsemble.results.running import run_recipe

QUICK = {
    "chain.chains": 1,
    "chain.epochs": 6,
    "chain.burn_in": 2,
    "chain.interval": 2,
    "retrain.epochs": 1,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    recipes = [load_recipe("digits", QUICK | {"prune.sparsity": share}) for share in (0.5, 0.9)]
    return [run_recipe(recipe, folder / str(k)) for k, recipe in enumerate(recipes)]


def test_the_demonstration_compares_one_dense_network_with_both_ensembles(results):
    dense, ours = results
    table = comparison(dense, ours)
    assert [row[0] for row in table.rows] == [
        "SGD, 1 dense network (mean of 2)",
        "SGD ensemble of 2",
        "Sparse structured ensemble of 2",
    ]
    assert table.rows[0][4:] == ("1.00×", "1.00×", "1.00×")
    assert table.rows[2][1] == f"{100 * ours.score['error']:.2f}"
