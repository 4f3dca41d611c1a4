"""Searches: every point of a grid measured on validation data."""

from pathlib import Path

import pytest

from sparsemble.errors import InputError
from sparsemble.search.jobs import Workplace
from sparsemble.search.search import read_search, run_search
from sparsemble.store import read_json

ROOT = Path(__file__).parents[2]


def test_a_point_that_diverges_does_not_end_a_search(command, tmp_path):
    file, out = tmp_path / "search.toml", tmp_path / "found.json"
    file.write_text(
        'recipe = "digits"\nvalidation = 300\n[grid]\n"chain.schedule.lr" = [1e9, 0.2]\n'
        '"chain.chains" = [1]\n"chain.epochs" = [3]\n"chain.interval" = [3]\n'
        '"retrain.epochs" = [1]\n'
    )
    code, said, _ = command("search", file, "--out", out, "--work", tmp_path / "work")
    assert code == 0
    assert "lower the learning rate" in said
    found = read_json(out)
    assert [point["changes"]["chain.schedule.lr"] for point in found["points"]] == [0.2]
    assert [changes["chain.schedule.lr"] for changes in found["diverged"]] == [1e9]


def test_settings_for_data_of_ones_own_are_searched_on_validation_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    file = tmp_path / "search.toml"
    file.write_text(
        'recipe = "examples/iris.toml"\nvalidation = 30\n[grid]\n"chain.epochs" = [6]\n'
        '"chain.burn_in" = [2]\n"chain.interval" = [2]\n"retrain.epochs" = [1]\n'
    )
    [(_, result)] = run_search(read_search(file), Workplace(tmp_path / "work"))
    assert result.recipe.data.validation == 30
    split = result.recipe.data.load()
    assert (len(split.train), len(split.measured["validation"].data)) == (70, 30)
    assert set(result.scores) == {"validation"}
    file.write_text('recipe = "examples/iris.toml"\n[grid]\n"seed" = [1]\n')
    with pytest.raises(InputError, match=r"returns examples: say data\.validation"):
        list(run_search(read_search(file), Workplace(tmp_path / "work")))


def test_points_are_called_by_their_values_as_far_as_files_can_be_called_so(tmp_path, monkeypatch):
    values = ["plain", "../../outside", "a/b", "a\\u0000b", "…", "x" * 300, "x" * 301, "."]
    file = tmp_path / "search.toml"
    quoted = ", ".join(f'"{value}"' for value in values)
    file.write_text(
        f'recipe = "digits"\nvalidation = 300\n[grid]\n"description" = [{quoted}]\n',
        encoding="utf-8",
    )
    jobs = []
    monkeypatch.setattr(
        "sparsemble.search.search.outcomes", lambda given, place: jobs.extend(given) or []
    )
    assert not list(run_search(read_search(file), Workplace(tmp_path / "work")))
    names = [job.result.name for job in jobs]
    assert len(set(names)) == len(values)
    assert all(job.result.parent == tmp_path / "work" for job in jobs)
    assert all(name.isascii() and name.isprintable() and len(name) < 200 for name in names)
    assert names[0].startswith("point-digits-descriptionplain-")
