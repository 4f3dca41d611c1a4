"""Spaces as search files describe them, and what is refused before anything runs."""

from __future__ import annotations

import sys

import pytest

from sparsemble.errors import InputError
from sparsemble.search.search import read_search
from sparsemble.search.space import Range, SpaceSearch
from sparsemble.search.study import next_points


def search(space: dict, **how) -> SpaceSearch:
    return SpaceSearch(recipe="digits", validation=300, space=space, **how)


def test_a_file_with_a_space_is_a_search_of_it(tmp_path):
    file = tmp_path / "search.toml"
    file.write_text(
        'recipe = "digits"\nvalidation = 300\ntrials = 7\nobjectives = ["quality", "flops"]\n'
        '[space]\n"prior.penalty" = {low = 1e-6, high = 1e-3, log = true}\n'
        '"chain.interval" = {low = 2, high = 10}\n"grouping" = ["untied", "tied"]\n'
    )
    found = read_search(file)
    assert (found.trials, found.costs, found.seed) == (7, ("flops",), 0)
    assert found.space == {
        "prior.penalty": Range(low=1e-6, high=1e-3, log=True),
        "chain.interval": Range(low=2, high=10),
        "grouping": ["untied", "tied"],
    }
    assert found.space["chain.interval"].is_whole
    assert not found.space["prior.penalty"].is_whole


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"prior.penalty": {"low": 1e-3, "high": 1e-6}}, "low = 0.001 must be below high = 1e-06"),
        ({"prior.penalty": {"low": 0.0, "high": 1.0, "log": True}}, "nothing below 0"),
        ({"prior.penalty": {"low": 0.1}}, "prior.penalty: missing setting 'high'"),
        ({"prior.penalty": {"low": "a", "high": 1}}, "prior.penalty: low"),
        ({"prior.penalty": 0.1}, "write a range"),
        ({"prior.penalty": []}, "or a list of choices"),
        ({"grouping": ["tied", "tied"]}, "the choice 'tied' stands there twice"),
        ({}, "space"),
        ({"data.validation": [100, 400]}, "a search says itself what it is measured on"),
    ],
)
def test_a_range_that_holds_nothing_is_refused_by_name(space, message):
    with pytest.raises(InputError, match="space") as refused:
        search(space)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("objectives", "message"),
    [
        (["flops"], "'quality' is missing"),
        (["quality", "quality"], "'quality' stands there twice"),
        (["quality", "beauty"], "objectives"),
    ],
)
def test_objectives_are_known_and_quality_is_among_them(objectives, message):
    with pytest.raises(InputError, match=message):
        search({"prior.penalty": [1e-4]}, objectives=objectives)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"prior.penalti": {"low": 0.1, "high": 0.2}}, "unknown setting 'prior.penalti'"),
        ({"prune.sparsity": {"low": 0.1, "high": 1.5}}, "prune.sparsity = 1.5"),
        ({"chain.epochs": {"low": 1.5, "high": 9.0}}, "chain.epochs = 1.5"),
        ({"grouping": ["tied", "braided"]}, "grouping 'braided'"),
    ],
)
def test_a_setting_that_no_recipe_has_is_refused_before_anything_runs(space, message):
    with pytest.raises(InputError) as refused:
        search(space).check()
    assert message in str(refused.value)


def test_an_end_that_other_settings_allow_is_not_refused():
    ranges = {"chain.epochs": {"low": 80, "high": 90}, "chain.burn_in": {"low": 10, "high": 70}}
    search({**ranges, "chain.interval": [5]}).check()  # the recipe itself has 60 epochs


def test_grid_and_space_are_two_searches(tmp_path):
    file = tmp_path / "search.toml"
    file.write_text('recipe = "digits"\n[grid]\nseed = [1]\n[space]\nseed = [1, 2]\n')
    with pytest.raises(InputError, match=r"\[grid\] and \[space\] are two searches"):
        read_search(file)


def test_points_lie_in_their_ranges_and_the_same_seed_gives_the_same():
    space = {
        "prior.penalty": {"low": 1e-6, "high": 1e-3, "log": True},
        "chain.interval": {"low": 2, "high": 5},
        "network.hidden": [[64, 32], [16]],
        "choose": [True, False],
    }
    points = next_points(search(space), [], 40)
    assert all(1e-6 <= point["prior.penalty"] <= 1e-3 for point in points)
    assert {point["chain.interval"] for point in points} == {2, 3, 4, 5}
    assert {str(point["network.hidden"]) for point in points} == {"[64, 32]", "[16]"}
    assert {point["choose"] for point in points} == {True, False}
    below = sum(point["prior.penalty"] < 10**-4.5 for point in points)
    assert abs(below - 20) < 5 * (40 * 0.25) ** 0.5  # half of all, by the logarithm
    assert next_points(search(space), [], 40) == points
    assert next_points(search(space, seed=1), [], 40) != points


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'sparsemble\[search\]'"):
        next_points(search({"prior.penalty": [1e-4]}), [], 1)
