"""What the documentation shows runs as printed: the first five minutes, every help example.

Recipes are shortened; `make thorough` has `test_readme` learn by one as it is.
"""

from __future__ import annotations

import re
import shlex
import shutil
from functools import partial
from pathlib import Path

import pytest

from sparsemble.cli.app import app
from sparsemble.cli.main import main
from sparsemble.recipes import load_recipe
from sparsemble.recipes.reference import settings_reference
from sparsemble.results.demo import demonstrate

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_process_beside")]

ROOT = Path(__file__).parents[2]
COMMANDS = {info.callback.__name__: info.callback for info in app.registered_commands} | {
    f"{group.name} {info.callback.__name__}": info.callback
    for group in app.registered_groups
    for info in group.typer_instance.registered_commands
}
EXAMPLES = {
    name: re.findall(r"Example: sparsemble (.*)", callback.__doc__)
    for name, callback in COMMANDS.items()
}


def call(line: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", shlex.split(line, comments=True))
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0, line


@pytest.fixture(scope="module")
def clone(tmp_path_factory, short_recipes):
    """A working folder with what a clone holds, and the runs that examples begin with."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "examples", folder / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sparsemble.recipes.files._BUILTIN", short_recipes)
        quick = "--set chain.epochs=2 --set chain.burn_in=0 --set chain.interval=2"
        call(f"sparsemble learn digits-sgd-ensemble {quick} --set chain.chains=2 --quiet")
        small = "--baseline=none --set data.portion=0.02 --set network.hidden=[8]"
        call(f"sparsemble learn grammar {quick} {small} --set retrain.epochs=1 --quiet")
        aside = f"{quick} --set data.validation=300 --set retrain.epochs=1 --baseline=none"
        for seed, name in enumerate("ab"):
            call(f"sparsemble learn digits {aside} --set seed={seed} --out runs/{name} --quiet")
        yield folder


def test_the_five_minutes_to_start_with_work(clone, monkeypatch, capsys):
    monkeypatch.chdir(clone)
    page = (ROOT / "docs" / "start.md").read_text()
    first, *lines = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0].strip().splitlines()
    assert first == "pip install sparsemble"
    verbs = [line.split()[1] for line in lines]
    assert verbs == ["learn", "report", "predict"]
    said = {}
    for verb, line in zip(verbs, lines, strict=True):
        call(line)
        said[verb] = capsys.readouterr()
    call("sparsemble resume runs/digits")
    assert "runs/digits is complete: nothing is left to do" in capsys.readouterr().err
    assert len(said["predict"].out.strip().splitlines()) == 1 + 8
    assert (clone / "runs" / "digits" / "report.html").stat().st_size > 50_000


def test_a_recipe_with_a_network_and_data_of_ones_own_runs(clone, monkeypatch, capsys):
    monkeypatch.chdir(clone)
    monkeypatch.syspath_prepend(str(clone))
    call("sparsemble learn examples/iris.toml --quiet")
    assert re.search(r"Error % +│ +[0-9]\.\d\d", capsys.readouterr().out)  # below 10 %


def test_recipes_in_the_documentation_can_be_read(tmp_path):
    texts = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "recipes.md").read_text(), re.S)
    own, perturbed, language = texts
    (tmp_path / "own.toml").write_text(own)
    (tmp_path / "perturbed.toml").write_text(f'extends = "digits"\n{perturbed}')
    assert load_recipe(tmp_path / "own.toml").prune.sparsity == 0.98
    assert len(load_recipe(tmp_path / "perturbed.toml").chain.augment.parts) == 2
    (tmp_path / "language.toml").write_text(f'extends = "grammar"\n{language}')
    read = load_recipe(tmp_path / "language.toml")
    beyond = load_recipe("ptb-beyond")
    assert (read.network.dropout, read.task.jitter) == (0.3, 0.25)
    assert read.network == beyond.network.model_copy(update={"init_range": 0.1})
    assert read.chain.augment == beyond.chain.augment


def test_the_list_of_settings_in_the_documentation_is_the_command_s(tmp_path):
    copy = shutil.copy(ROOT / "docs" / "recipes.md", tmp_path / "recipes.md")
    call(f"sparsemble recipes --settings --into {copy}")
    assert copy.read_text() == (ROOT / "docs" / "recipes.md").read_text()
    assert all(setting.meaning for setting in settings_reference())


def test_every_command_has_one_example_of_itself():
    for name, examples in EXAMPLES.items():
        assert len(examples) == 1
        assert f"{examples[0]} ".startswith(f"{name} ")


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"serve"}))  # which goes on until stopped
def test_the_help_example_runs_as_printed(name, clone, monkeypatch, capsys):
    monkeypatch.chdir(clone)
    monkeypatch.setattr("sparsemble.results.demo.demonstrate", partial(demonstrate, repeats=2))
    if not (clone / "runs" / "digits").exists():
        call("sparsemble learn digits-budget --out runs/digits --quiet")
    call(f"sparsemble {EXAMPLES[name][0]}")
    said = capsys.readouterr()
    assert said.out.strip() or "0 result files" in said.err
