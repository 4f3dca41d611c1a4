"""Commands on runs whose recipe names code of the user's own: named again, all of them work."""

import sys

import pytest

from scenarios import QUICK

MODULE = '''
from sparsemble.priors import GroupSparse
from sparsemble.tasks import Classification

class Careful(Classification):
    """A subclass of a task that comes with the library."""

class Weak(GroupSparse):
    """A subclass of a prior that does."""
'''
CODE = ("--code", "careful:Careful", "--code", "careful:Weak")


@pytest.fixture
def run(tmp_path, monkeypatch, command):
    (tmp_path / "careful.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    changes = {**QUICK, "task.kind": "careful:Careful", "prior.kind": "careful:Weak"}
    options = [f"--set={key}={value}" for key, value in changes.items()]
    options.append("--set=prior.penalty=1e-4")
    assert command("learn", "digits", "--out", "run", "--quiet", *options)[0] == 0
    yield "run"
    sys.modules.pop("careful", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("resume", "run"),
        ("inspect", "run"),
        ("evaluate", "run", "--on", "digits"),
        ("compare", "run", "run"),
        ("report", "run"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_wants_the_code_named_and_then_works(run, command, arguments):
    code, _, said = command(*arguments)
    assert code == 2
    assert "--code careful:" in said
    assert command(*arguments, *CODE)[0] == 0


def test_a_finished_run_whose_ensemble_is_damaged_is_made_whole_by_resuming(run, command, tmp_path):
    (tensors,) = (tmp_path / "run" / "ensemble").glob("members-*")
    content = tensors.read_bytes()
    tensors.write_bytes(content[:-100])
    assert command("resume", "run", *CODE, "--quiet")[0] == 0
    assert tensors.read_bytes() == content
