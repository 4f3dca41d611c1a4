"""Searches of a space: trials that follow from a seed, survive a kill, and form a front."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pytest
import tomli_w

from scenarios import wait_until
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.results import Result
from sparsemble.search.exploring import explore
from sparsemble.search.front import Found
from sparsemble.search.jobs import Job, Workplace, outcomes
from sparsemble.search.space import SpaceSearch
from sparsemble.search.study import next_points, study_of
from sparsemble.search.trials import Trial, Unfinished
from sparsemble.search.watching import Abandoned
from sparsemble.store import read_json

pytestmark = pytest.mark.slow

TINY = {
    "network.hidden": [[12]],
    "chain.chains": [1],
    "chain.epochs": [4],
    "chain.interval": [2],
    "retrain.epochs": [1],
}
SPACE = {
    "prior.penalty": {"low": 1e-5, "high": 1e-2, "log": True},
    "prune.sparsity": {"low": 0.1, "high": 0.9},
    **TINY,
}


def search(space: dict = SPACE, **how) -> SpaceSearch:
    how = {"trials": 7, "objectives": ("quality", "flops"), **how}
    return SpaceSearch(recipe="digits", validation=300, space=space, **how)


def as_toml(plan: SpaceSearch, path: Path) -> Path:
    path.write_text(tomli_w.dumps(plan.model_dump(mode="json")))
    return path


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, list[Trial]]:
    """Seven trials, run without a break."""
    place = Workplace(tmp_path_factory.mktemp("explored"))
    return place, list(explore(search(), place))


def told(trials: list[Trial]) -> list[tuple]:
    """All that counts about trials."""
    return [(t.number, t.changes, t.result.scores, t.result.flops) for t in trials]


def test_a_search_that_was_stopped_goes_on_to_the_same_trials(explored, tmp_path):
    _, whole = explored
    place = Workplace(tmp_path)
    before = list(islice(explore(search(), place), 4))
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("space-*-00*.json")}
    after = list(explore(search(), place))
    assert told(before) == told(whole[:4])
    assert told(after) == told(whole)
    assert len(files) == 4
    assert files == {path: path.stat().st_mtime_ns for path in files}  # not run again


def test_more_trials_can_be_asked_for_later(explored, tmp_path):
    place, whole = explored
    copy = Workplace(shutil.copytree(place.folder, tmp_path / "copy"))
    more = list(explore(search(trials=8), copy))
    assert told(more[:7]) == told(whole)
    assert len(more) == 8


def test_the_front_is_what_optuna_says_it_is(explored):
    _, trials = explored
    found = Found(search(), tuple(trials))
    best = study_of(search(), trials).best_trials
    assert {trial.number for trial, _ in found.front} == {trial.number for trial in best}
    losses = [result.score["nll"] for _, result in found.front]
    assert losses == sorted(losses)
    flops = [result.flops for _, result in found.front]
    assert flops == sorted(flops, reverse=True)


def test_trials_after_the_first_follow_from_those_before(explored):
    _, trials = explored
    asked = next_points(search(), trials[:6], 1)
    assert asked == [trials[6].changes]
    mirrored = [Trial(t.number, t.changes, trials[5 - t.number].end) for t in trials[:6]]
    assert next_points(search(), mirrored, 1) != asked


def test_the_command_writes_the_front_as_a_file_a_table_a_picture_and_a_page(
    explored, command, tmp_path, monkeypatch
):
    monkeypatch.delenv("COLUMNS", raising=False)  # a file is as wide as it needs to be
    place, trials = explored
    file = as_toml(search(dense=True), tmp_path / "search.toml")
    out = tmp_path / "found.json"
    code, said, _ = command("search", file, "--out", out, "--work", place.folder)
    assert code == 0
    kept = read_json(out)
    front = {trial.number for trial, _ in Found(search(), tuple(trials)).front}
    assert {point["trial"] for point in kept["points"] if point["front"]} == front
    assert len(kept["points"]) == 7
    assert kept["dense"]["flops_ratio"] == 1.0
    assert len(Ensemble.load(kept["points"][0]["ensemble"])) == 2
    table = said[said.index("The front, on validation data") :]
    assert sum(line.startswith("│") for line in table.splitlines()) == len(front)
    root = ElementTree.parse(out.with_suffix(".svg")).getroot()
    dots = [own.get("class") for own in root.iter() if own.tag.endswith("circle")]
    assert dots.count("dot t0") == len(front)
    assert dots.count("dot t1") == 1  # the dense network
    assert "t5 many" in " ".join(dots)
    assert "All trials" in out.with_suffix(".html").read_text()


def test_points_with_the_same_chain_share_its_samples(tmp_path):
    plan = search({**TINY, "retrain.epochs": {"low": 1, "high": 30}}, trials=2)
    one, other = explore(plan, Workplace(tmp_path))
    assert one.changes != other.changes
    assert len(list(tmp_path.glob("chain-*"))) == 1


def test_a_point_that_is_asked_for_again_is_not_run_again(tmp_path):
    trials = list(explore(search({**TINY, "prune.sparsity": [0.5]}, trials=3), Workplace(tmp_path)))
    assert trials[0].result == trials[1].result == trials[2].result
    assert len(list(tmp_path.glob("*/result.json"))) == 1


def test_trials_that_diverge_or_are_refused_are_kept_and_do_not_end_a_search(tmp_path):
    choices = {"chain.schedule.lr": [1e9, 0.2], "chain.burn_in": [0, 3], "chain.epochs": [4, 6]}
    plan = search({**TINY, **choices}, trials=8, seed=2)
    trials = list(explore(plan, Workplace(tmp_path)))
    for trial in trials:
        changes = trial.changes
        too_long = changes["chain.burn_in"] + changes["chain.interval"] > changes["chain.epochs"]
        diverges = changes["chain.schedule.lr"] == 1e9
        kind = trial.end.kind if isinstance(trial.end, Unfinished) else "finished"
        assert kind == ("refused" if too_long else "diverged" if diverges else "finished")
    assert len({str(trial.changes) for trial in trials}) > 2
    assert list(explore(plan, Workplace(tmp_path))) == sorted(
        trials, key=lambda trial: (trial.result is not None, trial.number)
    )


def test_a_trial_that_does_not_go_with_the_data_is_refused_but_the_recipe_itself_must(tmp_path):
    plan = SpaceSearch(
        recipe="digits-budget",
        validation=300,
        trials=4,
        space={**TINY, "chain.burn_in": [0], "prune.flops": [1e-4, 0.5]},
    )
    trials = list(explore(plan, Workplace(tmp_path)))
    kinds = {trial.changes["prune.flops"]: type(trial.end) for trial in trials}
    assert kinds == {1e-4: Unfinished, 0.5: Result}
    assert "prune.flops = 0.0001 is too small" in str(trials)
    with pytest.raises(InputError, match="900 training examples"):
        next(explore(plan.model_copy(update={"validation": 1000}), Workplace(tmp_path)))


def test_with_one_objective_hopeless_trials_are_abandoned(tmp_path):
    space = {
        **TINY,
        "chain.epochs": [6],
        "chain.schedule.lr": {"low": 1e-5, "high": 0.5, "log": True},
    }
    plan = search(space, trials=12, objectives=("quality",))
    trials = list(explore(plan, Workplace(tmp_path)))
    abandoned = [trial for trial in trials if isinstance(trial.end, Unfinished)]
    best = Found(plan, tuple(trials)).front[0][0]
    assert abandoned
    assert all(trial.end.kind == "abandoned" and trial.number >= 5 for trial in abandoned)
    assert all(0.3 < trial.end.share <= 1 for trial in abandoned)
    assert best.changes["chain.schedule.lr"] > max(
        trial.changes["chain.schedule.lr"] for trial in abandoned if trial.end.figure > 0.8
    )
    assert list(explore(plan, Workplace(tmp_path))) == sorted(
        trials, key=lambda trial: (trial.result is not None, trial.number)
    )
    states = [own.state.name for own in study_of(plan, trials).trials]
    assert states.count("PRUNED") == len(abandoned)


def test_a_job_is_abandoned_at_the_record_that_is_found_hopeless(tmp_path):
    plan = search()
    recipe = plan.base({key: value[0] for key, value in TINY.items()})
    job = Job(recipe, tmp_path / "job.json")
    seen = []

    def watch(watched, record):
        assert watched == job
        seen.append(record)
        return len(seen) == 3

    [(_, outcome)] = outcomes([job], Workplace(tmp_path / "work"), watch)
    assert outcome == Abandoned(seen[2])
    assert not job.result.exists()
    [(_, outcome)] = outcomes([job], Workplace(tmp_path / "work"))
    [(_, whole)] = outcomes([Job(recipe, tmp_path / "b.json")], Workplace(tmp_path / "other"))
    assert isinstance(outcome, Result)
    assert outcome.scores == whole.scores  # what was abandoned can be gone on with


def test_a_job_elsewhere_is_abandoned_and_the_next_of_its_chain_is_not(processes, tmp_path):
    changes = {key: value[0] for key, value in TINY.items()}
    endless, short = (
        Job(search().base({**changes, "retrain.epochs": epochs}), tmp_path / f"{epochs}.json")
        for epochs in (1_000_000, 1)
    )

    def watch(job, record):
        return job == endless and record.stage == "retrain"

    found = dict(outcomes([endless, short], Workplace(tmp_path / "work", processes), watch))
    assert isinstance(found[endless], Abandoned)
    assert not endless.result.exists()
    [(_, here)] = outcomes([Job(short.recipe, tmp_path / "b.json")], Workplace(tmp_path / "here"))
    assert found[short].scores == here.scores


def test_a_search_that_is_killed_goes_on_and_draws_the_same_front(explored, command, tmp_path):
    _, whole = explored
    file = as_toml(search(), tmp_path / "search.toml")
    process = subprocess.Popen(
        [sys.executable, "-m", "sparsemble", "search", file, "--work=work", "--threads=1"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: list(tmp_path.glob("work/space-*-002-*/run.json")))
    finally:
        process.kill()
        process.wait()
    known = {path: path.read_bytes() for path in tmp_path.glob("work/space-*-00*.json")}
    assert 2 <= len(known) < 7
    out = tmp_path / "found.json"
    code, _, _ = command("search", file, "--out", out, "--work", tmp_path / "work", "--threads=1")
    points = json.loads(out.read_text())["points"]
    assert code == 0
    assert all(path.read_bytes() == content for path, content in known.items())
    assert sorted(point["trial"] for point in points) == list(range(7))
    expected = {t.number: (t.changes, t.result.score["nll"]) for t in whole}
    for point in points:
        nll = point["scores"]["validation"]["curve"]["nll"][-1]
        assert (point["changes"], nll) == expected[point["trial"]]


def test_trials_side_by_side_are_as_many_and_follow_from_the_seed(processes, tmp_path):
    plan = search(trials=2)
    trials = list(explore(plan, Workplace(tmp_path / "work", processes)))
    by_number = sorted(trials, key=lambda trial: trial.number)
    assert [trial.number for trial in by_number] == [0, 1]
    assert [trial.changes for trial in by_number] == next_points(plan, [], 2)
    again = list(explore(plan, Workplace(tmp_path / "work")))
    assert told(again) == told(by_number)
