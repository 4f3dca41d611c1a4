"""Results in one table."""

from pathlib import Path

import pytest

from sparsemble.errors import InputError
from sparsemble.learning.spending import StageCost, TrainingCost
from sparsemble.results.result import Result, read_result
from sparsemble.results.summary import summary

KEPT = Path(__file__).parents[2] / "paper" / "results"


def kept(name: str) -> Result:
    return read_result(KEPT / f"{name}-seed0.json")


def with_reference(result: Result) -> Result:
    scores = {
        part: score.model_copy(update={"reference": {"perplexity": 9.5}})
        for part, score in result.scores.items()
    }
    return result.model_copy(update={"scores": scores})


def test_results_stand_beside_each_other():
    table = summary([kept("ptb/ptb-small-sgd"), kept("ptb/ptb-small-sgld-gsp-pr-iss-4-80")])
    assert table.header == ("", "ptb-small-sgd", "ptb-small-sgld-gsp-pr-iss-4-80")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["Members"] == ("1", "4")
    assert rows["Perplexity (test)"][0] == "112.48"
    assert rows["Parameters"][0] == "1.00×"


def test_a_source_that_is_known_stands_beside_the_networks():
    table = summary([with_reference(kept("ptb/ptb-small-sgd"))])
    assert table.header == ("", "ptb-small-sgd", "the source itself")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["Perplexity (test)"] == ("112.48", "9.50")
    assert rows["one member's, on average"] == ("112.48", "")
    assert rows["Members"] == ("1", "")


def test_results_of_different_tasks_are_not_compared():
    with pytest.raises(InputError, match="different tasks"):
        summary([kept("ptb/ptb-small-sgd"), kept("mnist/mnist-sgd")])


def test_training_is_held_against_one_dense_network_and_as_many():
    training = TrainingCost(
        (StageCost("chain", 13, 3e12, 60.0), StageCost("retrain", 16, 1e12, 20.0)),
        StageCost("one dense network", 10, 2e12, None),
    )
    plain = kept("ptb/ptb-small-sgld-gsp-pr-iss-4-80")
    table = summary([plain, plain.model_copy(update={"training": training})], ["then", "now"])
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["Training, epochs"] == ("–", "29")
    assert rows["Training, FLOPs"] == ("–", "4.0T")
    assert rows["of one dense network's"] == ("–", "2.00×")
    assert rows["of as many dense networks'"] == ("–", "0.50×")
