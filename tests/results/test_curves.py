"""Figures 4a and 4b of any run, from its trace or its result."""

import re
import shutil

import pytest

from scenarios import CLASSES
from sparsemble.data import Text, grammar
from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.recipes import load_recipe
from sparsemble.results import read_result, run_recipe
from sparsemble.results.curves import course_of, courses_of, draw_courses, result_course
from sparsemble.runs import RunFolder
from sparsemble.stages import SampleRecord


@pytest.mark.parametrize("run", ["class_run", "text_run", "number_run"])
def test_a_run_of_any_kind_has_its_samples_pruned_and_retrained_networks(run, request):
    folder = request.getfixturevalue(run)
    course = course_of(folder)
    result = read_result(folder / "result.json")
    members = len(result.structures)
    assert [stage.name for stage in course.stages] == ["sampled", "pruned", "retrained"]
    chain = result.recipe.chain
    taken = tuple(range(chain.burn_in + chain.interval, chain.epochs + 1, chain.interval))
    for stage in course.stages:
        assert stage.epochs == taken
        assert len(stage.alone) == len(stage.together) == members
        assert stage.alone[0] == stage.together[0]
    assert course.metric == result.metrics[0]
    assert result_course(result, "a result") == course


def test_pruned_networks_are_measured_as_they_were_saved(text_run):
    course = course_of(text_run)
    assert course.measured_on == "validation text"
    watched = Text(grammar().beginning(0.05).validation, streams=20)
    score = Ensemble.load(text_run / "pruned").evaluate(watched)
    assert course.stages[1].together == pytest.approx(score.curve["perplexity"])
    assert course.stages[1].alone == pytest.approx(score.members["perplexity"])


def test_a_resumed_run_does_not_measure_them_again(class_run, tmp_path):
    folder = shutil.copytree(class_run, tmp_path / "run")
    trace = folder / "pruned" / "measured.jsonl"
    known = trace.read_bytes()
    for left in ("result.json", "retrain", "ensemble"):
        path = folder / left
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = trace.stat().st_mtime_ns
    assert run_recipe(load_recipe("digits", CLASSES), folder).learning
    assert (trace.read_bytes(), trace.stat().st_mtime_ns) == (known, before)
    assert course_of(folder) == course_of(class_run)


def test_a_run_under_way_shows_what_there_is(class_run, tmp_path):
    folder = shutil.copytree(class_run, tmp_path / "run")
    whole = course_of(folder)
    (folder / "result.json").unlink()
    shutil.rmtree(folder / "retrain")
    course = course_of(folder)
    assert course.stages == tuple(
        type(stage)(
            stage.name, stage.epochs, *(_unscaled(v) for v in (stage.alone, stage.together))
        )
        for stage in whole.stages[:2]
    )
    assert course.metric.title == "error"  # only the result, or the recipe's task, knows better


def _unscaled(percentages):
    return tuple(pytest.approx(value / 100) for value in percentages)


def test_chains_follow_each_other_and_members_stand_where_their_samples_were_taken(tmp_path):
    two = {**CLASSES, "chain.chains": 2, "chain.epochs": 4, "chain.burn_in": 0, "chain.interval": 2}
    run_recipe(load_recipe("digits", two), tmp_path)
    assert course_of(tmp_path).final.epochs == (2, 4, 4 + 2, 4 + 4)


@pytest.mark.slow
def test_of_a_run_that_chose_its_members_those_are_drawn(tmp_path):
    quick = {"chain.epochs": 16, "chain.burn_in": 4, "chain.interval": 2, "chain.chains": 1}
    result = run_recipe(load_recipe("digits-budget", {**quick, "retrain.epochs": 1}), tmp_path)
    chosen = result.candidates[result.chosen]
    course = course_of(tmp_path)
    assert len(course.stages[0].alone) > len(course.final.alone) == chosen.members
    assert course.final.name == ("retrained" if chosen.retrained else "pruned")
    assert course.final.epochs[-1] == max(course.stages[0].epochs[-8:])


def test_of_several_runs_only_what_they_have_come_to_is_drawn(class_run, tmp_path):
    dense = load_recipe("digits", {**CLASSES, "name": "other", "seed": 3})
    run_recipe(dense, tmp_path / "other")
    courses = courses_of([class_run, tmp_path / "other"])
    assert [course.name for course in courses] == ["digits", "other"]
    along, by_number = map(str, draw_courses(courses))
    assert "digits, averaged" in along
    assert "pruned" not in along
    assert re.findall(r'class="label t\d" [^>]*>([^<]*)<', by_number) == ["digits", "other"]
    same = courses_of([class_run, class_run])
    assert {course.name for course in same} == {str(class_run)}


def test_runs_that_were_watched_differently_are_not_drawn_together(class_run, text_run):
    with pytest.raises(InputError, match=r"different metrics \(error, perplexity\)"):
        draw_courses(courses_of([class_run, text_run]))


def test_a_run_without_samples_says_what_to_do(class_run, tmp_path):
    RunFolder(tmp_path).claim(RunFolder(class_run).recipe())
    with pytest.raises(InputError, match="measured no network yet"):
        course_of(tmp_path)


def test_a_sample_before_the_first_step_is_refused(class_run, tmp_path):
    folder = shutil.copytree(class_run, tmp_path / "run")
    (folder / "result.json").unlink()
    trace = RunFolder(folder).chain.part(0)
    trace.record(SampleRecord("chain", 0, 0, 1, "error", "validation examples", 0.1, 0.1))
    with pytest.raises(CorruptFileError, match="before the first step"):
        course_of(folder)


def test_the_command_writes_svg_or_html(command, class_run, tmp_path):
    for name in ("curves.svg", "curves.html"):
        code, out, _ = command("curves", class_run, "--out", tmp_path / name)
        assert code == 0
        assert out.strip() == str(tmp_path / name)
        text = (tmp_path / name).read_text()
        assert set(re.findall("<title>Error % (along|against)", text)) == {"along", "against"}
    code, _, err = command("curves", class_run, "--out", tmp_path / "curves.png")
    assert code == 2
    assert "must end in .svg or .html" in err


def test_cycles_that_end_within_an_epoch_stand_where_they_ended(tmp_path):
    cycles = {
        "chain.collection": "cycles",
        "chain.schedule": {"kind": "cyclical", "lr": 0.1, "period": 1.5},
        "chain.epochs": 3,
        "chain.burn_in": 0,
        "chain.chains": 1,
    }
    run_recipe(load_recipe("digits", {**CLASSES, **cycles}), tmp_path)
    assert course_of(tmp_path).final.epochs == pytest.approx((1.5, 3.0), abs=0.1)
