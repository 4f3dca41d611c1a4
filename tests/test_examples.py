"""What the documentation shows runs as printed: the README's walk-through, every help example."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from sparsemble.cli.app import app, main

ROOT = Path(__file__).parent.parent
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
def clone(tmp_path_factory):
    """A working folder with what a clone holds, and the runs that examples begin with."""
    folder = tmp_path_factory.mktemp("clone")
    for part in ("examples", "searches", "results"):
        shutil.copytree(ROOT / part, folder / part)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        quick = "--set chain.epochs=2 --set chain.burn_in=0 --set chain.interval=2"
        call(f"sparsemble learn digits-sgd-ensemble {quick} --set chain.chains=2 --quiet")
        small = "--no-baseline --set data.portion=0.02 --set network.hidden=[8]"
        call(f"sparsemble learn grammar {quick} {small} --set retrain.epochs=1 --quiet")
        yield folder


def test_the_walk_through_of_the_readme_works(clone, monkeypatch, capsys):
    monkeypatch.chdir(clone)
    section = (ROOT / "README.md").read_text().partition("## A walk-through")[2]
    lines = section.split("```")[1].strip().splitlines()
    assert lines[:2] == ["make demo", ". .venv/bin/activate"]
    verbs = [line.split()[1] for line in lines[2:]]
    assert {"learn", "resume", "report", "predict"} <= set(verbs)
    assert verbs.index("learn") == 0
    said = {}
    for verb, line in zip(verbs, lines[2:], strict=True):
        call(line)
        said[verb] = capsys.readouterr()
    assert "runs/digits is complete: nothing is left to do" in said["resume"].err
    assert len(said["predict"].out.strip().splitlines()) == 1 + 8
    assert (clone / "runs" / "digits" / "report.html").stat().st_size > 100_000


def test_every_command_has_one_example_of_itself():
    for name, examples in EXAMPLES.items():
        assert len(examples) == 1
        assert f"{examples[0]} ".startswith(f"{name} ")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_help_example_runs_as_printed(name, clone, monkeypatch, capsys):
    monkeypatch.chdir(clone)
    if not (clone / "runs" / "digits").exists():
        call("sparsemble learn digits --quiet")
    call(f"sparsemble {EXAMPLES[name][0]}")
    said = capsys.readouterr()
    assert said.out.strip() or "0 result files" in said.err
