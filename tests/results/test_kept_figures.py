"""Result files and verdicts that do not fit themselves are refused when they are read."""

from pathlib import Path

import pytest

from sparsemble.ensemble.comparison import Difference
from sparsemble.ensemble.verdict import Verdict, read_verdict
from sparsemble.errors import CorruptFileError
from sparsemble.results.result import read_result
from sparsemble.results.summary import summary
from sparsemble.store import read_json, write_json
from sparsemble.tasks import Classification

KEPT = Path(__file__).parents[2] / "paper" / "results" / "mnist" / "mnist-budget-seed0.json"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"metrics": []}, "metrics"),
        ({"scores": {}}, "neither test nor validation"),
        ({"structures": []}, "structures"),
        ({"member_flops": []}, "costs are not those of all members"),
        ({"member_parameters": [1]}, "costs are not those of all members"),
        ({"chosen": -1}, "none of those compared"),
        ({"chosen": 10**30}, "none of those compared"),
    ],
)
def test_a_result_that_lacks_figures_is_refused(changes, why, tmp_path):
    file = tmp_path / "result.json"
    write_json(file, {**read_json(KEPT), **changes})
    with pytest.raises(CorruptFileError, match=why):
        read_result(file)


@pytest.mark.parametrize("where", ["curve", "members"])
def test_a_score_without_a_metric_is_refused(where, tmp_path):
    fields = read_json(KEPT)
    fields["scores"]["test"][where]["nll"] = []
    write_json(tmp_path / "result.json", fields)
    with pytest.raises(CorruptFileError, match="lacks a metric"):
        read_result(tmp_path / "result.json")


def test_a_network_without_weights_costs_no_multiple_of_another():
    result = read_result(KEPT)
    nothing = result.model_copy(update={"parameters": 0, "parameters_ratio": 0.0})
    rows = {row[0]: row[1:] for row in summary([nothing]).rows}
    assert rows["Parameters"] == ("0.00×",)
    rows = {row[0]: row[1:] for row in summary([result], dense=nothing).rows}
    assert rows["Parameters"] == ("–",)


@pytest.mark.parametrize(
    "changes", [{"metrics": []}, {"log_score": "x"}, {"differences": {}}, {"metrics": None}]
)
def test_a_verdict_that_lacks_figures_is_refused(changes, tmp_path):
    metrics = list(Classification(class_names=("a", "b")).metrics)
    known = Difference(own=1.0, other=2.0, low=-1.5, high=-0.5)
    verdict = Verdict(
        metrics=metrics,
        log_score="nll",
        differences={metric.key: known for metric in metrics},
        members=2,
        parameters=1.0,
        flops=1.0,
        prediction={1: 1.0},
        threads=1,
    )
    file = tmp_path / "verdict.json"
    write_json(file, verdict.model_dump(mode="json"))
    assert read_verdict(file) == verdict
    write_json(file, {**read_json(file), **changes})
    with pytest.raises(CorruptFileError):
        read_verdict(file)


def test_an_old_result_without_its_figures_is_refused(tmp_path):
    file = tmp_path / "result.json"
    old = {"recipe": {"task": "classification", "data": {"name": "mnist"}}, "metrics": {}}
    write_json(file, old)
    with pytest.raises(CorruptFileError, match="result"):
        read_result(file)
