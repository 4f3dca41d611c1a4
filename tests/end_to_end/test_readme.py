"""The README's examples in Python run as printed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST, BUDGET = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("short", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_the_readmes_first_example_runs(short, short_recipes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if short:
        monkeypatch.setattr("sparsemble.recipes.files._BUILTIN", short_recipes)
    exec(compile(FIRST, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert re.match(r"error 0\.\d+, nll ", printed[0])
    assert 0 < float(printed[1]) <= 1
    assert (tmp_path / "digits-ensemble" / "manifest.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("short", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_the_readmes_example_of_a_budget_runs_and_keeps_it(short, request, capsys):
    if short:
        request.getfixturevalue("short_plans")
    names: dict = {}
    exec(compile(BUDGET, "README.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("learning rate ")
    assert re.match(r"The promise is (NOT )?kept", printed[1])
    assert not names["budget"].exceeded_by(names["learned"].ensemble.cost)
