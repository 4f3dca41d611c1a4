"""What trials are compared by."""

from __future__ import annotations

from sparsemble.results import read_result
from sparsemble.search.objectives import deciding_metric, loss_of


def test_the_log_score_of_the_task_decides(class_run, text_run):
    classes, text = (read_result(run / "result.json") for run in (class_run, text_run))
    assert (classes.log_score, text.log_score) == ("nll", "perplexity")
    assert deciding_metric(classes).key == "nll"
    assert deciding_metric(text).key == "perplexity"
    assert loss_of(classes) == classes.score["nll"]


def test_a_task_of_the_users_own_says_which_it_is(class_run):
    result = read_result(class_run / "result.json")
    first, *_, last = result.metrics
    assert deciding_metric(result.model_copy(update={"log_score": last.key})) == last
    assert deciding_metric(result.model_copy(update={"log_score": "unknown"})) == first
