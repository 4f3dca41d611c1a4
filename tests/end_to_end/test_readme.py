"""The README's examples in Python run as printed."""

import re
from pathlib import Path

import pytest
import torch

import sparsemble

ROOT = Path(__file__).parents[2]


def examples_in_the_readme() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_readmes_first_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(examples_in_the_readme()[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert re.match(r"error 0\.\d+, nll ", printed[0])
    assert 0 < float(printed[1]) <= 1
    assert (tmp_path / "digits-ensemble" / "manifest.json").exists()


def test_what_the_readme_says_of_its_network_is_what_is_found():
    text = (ROOT / "README.md").read_text()
    names: dict = {}
    exec(
        compile(examples_in_the_readme()[0].partition("\n\n\ntrain")[0], "README.md", "exec"), names
    )
    found = str(sparsemble.describe(names["Pictures"](), torch.rand(2, 64)))
    assert f"```\n{found}\n```" in text


@pytest.mark.slow
def test_the_readmes_example_of_a_budget_runs_and_keeps_it(monkeypatch, capsys):
    monkeypatch.setattr("sparsemble.learning.planning._FEWEST_STEPS", 100)
    monkeypatch.setattr("sparsemble.learning.planning._MOST_STEPS", 100)
    names: dict = {}
    exec(compile(examples_in_the_readme()[1], "README.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("learning rate ")
    assert re.match(r"The promise is (NOT )?kept", printed[1])
    assert not names["budget"].exceeded_by(names["learned"].ensemble.cost)


@pytest.mark.slow
def test_the_readmes_regression_example_runs(short_recipes, monkeypatch, capsys):
    monkeypatch.setattr("sparsemble.recipes.files._BUILTIN", short_recipes)
    exec(compile(examples_in_the_readme()[2], "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert re.match(r"rmse \d+\.\d+, nll ", printed[0])
    assert "epistemic" in printed[1]


@pytest.mark.slow
def test_the_readmes_language_example_runs(capsys):
    exec(compile(examples_in_the_readme()[3], "README.md", "exec"), {})
    score, text = capsys.readouterr().out.splitlines()
    assert re.match(r"perplexity \d+\.\d+ \(2 members on ", score)
    assert len(text.split()) == 20
