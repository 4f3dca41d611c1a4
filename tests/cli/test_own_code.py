"""Code of the user's own that a recipe names: followed from a file of theirs, never from a folder
alone."""

from __future__ import annotations

import shutil
import sys
import textwrap

import pytest

from small_runs import saved_ensemble

MODULE = """
    import torch
    from sklearn.datasets import load_iris
    from torch import nn
    from sparsemble.layouts import layout_of
    from dataclasses import replace

    def data():
        x, y = load_iris(return_X_y=True)
        order = torch.randperm(150, generator=torch.Generator().manual_seed(0)).numpy()
        x, y = x[order], y[order]
        return (x[:100], y[:100]), (x[100:], y[100:])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))

        def forward(self, x):
            return self.body(x)

    def network():
        made = Net()
        inner = layout_of(made.body)
        def named(slot):
            return replace(slot, parameter=f"body.{slot.parameter}")
        layout = replace(
            inner,
            slots=tuple(map(named, inner.slots)),
            families=tuple(replace(f, slots=tuple(map(named, f.slots))) for f in inner.families),
            matrices=tuple(
                replace(m, parameters=tuple(f"body.{p}" for p in m.parameters))
                for m in inner.matrices
            ),
            name="mine",
        )
        return made, layout
"""


RECIPE = """
    baseline = "none"
    [data]
    name = "custom"
    loader = "own_code:data"
    [network]
    kind = "custom"
    factory = "own_code:network"
    [prior]
    kind = "group-sparse"
    penalty = 1e-3
    [chain]
    epochs = 12
    burn_in = 4
    interval = 4
    batch_size = 10
    [chain.sampler]
    temperature = 1e-3
    [chain.schedule]
    kind = "constant"
    lr = 0.1
    [prune]
    sparsity = 0.5
"""


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """A folder with a module and a recipe of the user's, where the user stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_code.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "mine.toml").write_text(textwrap.dedent(RECIPE))


@pytest.mark.usefixtures("own_code")
def test_code_of_ones_own_is_run_only_when_it_is_named(command, tmp_path):
    assert command("learn", "mine.toml", "--out", "run", "--quiet")[0] == 0
    (tmp_path / "run" / "result.json").unlink()
    code, _, err = command("resume", "run")
    assert code == 2
    assert "name it with --code own_code:data --code own_code:network" in err
    both = ("--code", "own_code:data", "--code", "own_code:network")
    assert command("resume", "run", "--quiet", *both)[0] == 0
    code, _, err = command("inspect", "run")
    assert code == 2
    assert "networks of your own" in err
    code, out, _ = command("inspect", "run", "--code", "own_code:network")
    assert code == 0
    assert "2 classifiers, mine" in out


@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("network.factory=own_code:nothing", "module 'own_code' has no 'nothing'"),
        ("network.factory=nowhere:make", "cannot import 'nowhere'"),
        ("network.factory=os.system", "factory = 'os.system'"),
        ("network.factory=own_code:data", "must return a torch module"),
        ("data.loader=own_code:network", "must return (train, test), each a Dataset or a pair"),
        ("data.loader=os:getcwd", "must return (train, test), each a Dataset or a pair"),
    ],
)
def test_code_that_does_not_do_is_told(command, change, message):
    code, _, err = command("learn", "mine.toml", "--set", change)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


PARTS = """
    from typing import ClassVar

    from sparsemble.priors.prior import ElementwisePrior
    from sparsemble.samplers import SGLD, SamplerSettings

    class Cubic(ElementwisePrior):
        @staticmethod
        def term(weight):
            return weight.abs().pow(3).sum()

        @staticmethod
        def slopes(weights):
            return [3 * weight * weight.abs() for weight in weights]

    class Mine(SamplerSettings):
        sampler: ClassVar[type] = SGLD

    def falling(epoch):
        return 0.2 / (1 + epoch)

    def rows(layout):
        from sparsemble.structure import Family, Role

        return (Family("rows", layout.slots_of(layout.spaces[1].name, Role.PRODUCER)),)
"""
WITH_PARTS = """
    extends = "digits"
    baseline = "none"
    grouping = "own_parts:rows"
    [prior]
    kind = "own_parts:Cubic"
    penalty = 1e-4
    [chain]
    chains = 1
    epochs = 4
    burn_in = 0
    interval = 2
    [chain.sampler]
    kind = "own_parts:Mine"
    temperature = 1e-5
    [chain.schedule]
    kind = "own_parts:falling"
    [retrain]
    epochs = 1
"""
NAMES = ("rows", "Cubic", "Mine", "falling")


@pytest.fixture
def own_parts(tmp_path, monkeypatch):
    """A folder with a prior, a sampler, a schedule and a grouping of the user's, and a recipe."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    (tmp_path / "own_parts.py").write_text(textwrap.dedent(PARTS))
    (tmp_path / "parts.toml").write_text(textwrap.dedent(WITH_PARTS))


@pytest.mark.usefixtures("own_parts")
def test_parts_of_ones_own_in_a_recipe_file_are_followed_and_in_a_run_folder_if_named(
    command, tmp_path
):
    code, _, err = command("learn", "parts.toml", "--out", "run", "--quiet")
    assert code == 0, err
    run = tmp_path / "run"
    whole = saved_ensemble(run)
    (run / "result.json").unlink()
    shutil.rmtree(run / "ensemble")
    options = [f"--code=own_parts:{name}" for name in NAMES]
    for left_out in options:
        named = [option for option in options if option != left_out]
        code, _, err = command("resume", "run", "--quiet", *named)
        assert code == 2
        assert f"runs code of your own: name it with --code {left_out.partition('=')[2]}" in err
        assert len(err.strip().splitlines()) == 1
    code, _, err = command("resume", "run", "--quiet", *options)
    assert code == 0, err
    assert saved_ensemble(run) == whole
    # The same command as at first goes on as well: the user's file names the code.
    assert "nothing is left to do" in command("learn", "parts.toml", "--out", "run")[2]


@pytest.mark.usefixtures("own_parts")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("prior.kind=own_parts:nothing", "module 'own_parts' has no 'nothing'"),
        ("prior.kind=own_parts:Mine", "is no Prior"),
        ("prior.kind=nowhere:Prior", "cannot import 'nowhere'"),
        ("prior.kind=Cubic", "or the import path of your own Prior, package.module:Class"),
        ("prior.strength=3", "strength"),
        ("chain.schedule.kind=own_parts:Cubic", "Schedule"),
        ("grouping=own_parts:PARTS", "has no 'PARTS'"),
    ],
)
def test_parts_that_do_not_do_are_told(command, change, message):
    code, _, err = command("learn", "parts.toml", "--set", change)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
