"""The command line: what it prints, what it writes, how it fails."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparsemble.cli.main import app
from sparsemble.errors import InputError
from sparsemble.recipes import builtin_names, load_recipe
from sparsemble.results import read_result
from sparsemble.store import read_json, write_json

QUICK = [
    "--set",
    "chain.chains=2",
    "--set",
    "chain.epochs=12",
    "--set",
    "chain.burn_in=4",
    "--set",
    "chain.interval=4",
    "--set",
    "retrain.epochs=2",
    "--baseline=none",
]


def test_help_loads_nothing_that_takes_time():
    probe = (
        "import sys; sys.argv = ['sparsemble', '--help']\n"
        "from sparsemble.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'pydantic', 'jinja2'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True)


@pytest.mark.parametrize(
    "command",
    [
        "learn",
        "resume",
        "reproduce mnist",
        "reproduce ptb",
        "search",
        "demo",
        "evaluate",
        "predict",
        "merge",
        "sample",
        "inspect",
        "compare",
        "curves",
        "report",
        "recipes",
    ],
)
def test_every_command_shows_an_example(command):
    answer = CliRunner().invoke(app, [*command.split(), "--help"])
    assert answer.exit_code == 0
    assert f"Example: sparsemble {command}" in " ".join(answer.output.split())


@pytest.mark.slow
def test_learn_leaves_a_run_folder_and_goes_on_in_it(tmp_path, command):
    arguments = ("learn", "digits", "--out", str(tmp_path / "run"), *QUICK)
    code, out, _ = command(*arguments)
    assert code == 0
    assert re.search(r"Members +│ 4 ", out)
    assert re.search(r"Error % +│ +\d", out)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        ".lock",
        "chain",
        "ensemble",
        "pruned",
        "result.json",
        "retrain",
        "run.json",
    ]
    before = (tmp_path / "run" / "ensemble" / "manifest.json").read_bytes()
    code, again, _ = command(*arguments)
    assert code == 0
    assert (tmp_path / "run" / "ensemble" / "manifest.json").read_bytes() == before
    assert out.splitlines()[-6:] == again.splitlines()[-6:]


@pytest.mark.slow
def test_a_run_remembers_where_it_computes_and_goes_on_there(tmp_path, command):
    folder = tmp_path / "run"
    code, *_ = command("learn", "digits", "--out", folder, "--device", "cpu:0", *QUICK)
    assert code == 0
    assert read_result(folder / "result.json").provenance["device"] == "cpu:0"
    (folder / "result.json").unlink()
    assert command("resume", folder)[0] == 0
    assert read_result(folder / "result.json").provenance["device"] == "cpu:0"


def test_a_run_that_was_begun_elsewhere_can_be_resumed_here(class_run, tmp_path, command):
    folder = Path(shutil.copytree(class_run, tmp_path / "run"))
    write_json(folder / "run.json", {**read_json(folder / "run.json"), "device": "meta"})
    code, _, err = command("resume", folder)
    assert code == 2
    assert "device = 'meta' cannot be used" in err
    assert command("resume", folder, "--device", "cpu")[0] == 0


def test_a_run_under_way_goes_on_with_the_kind_of_device_it_was_begun_on(
    class_run, tmp_path, command
):
    """The random numbers of another kind are others."""
    folder = Path(shutil.copytree(class_run, tmp_path / "run"))
    write_json(folder / "run.json", {**read_json(folder / "run.json"), "device": "cuda"})
    (folder / "result.json").unlink()
    shutil.rmtree(folder / "ensemble")
    code, _, err = command("compare", folder)
    assert code == 2
    assert f"{folder} holds a run that is not finished: sparsemble resume {folder}" in err
    code, _, err = command("resume", folder, "--device", "cpu")
    assert code == 2
    assert "was begun on cuda, where its checkpoints go on to the same bits, and not on cpu" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn", "digitz"], "did you mean 'digits'?"),
        (["learn", "digits", "--set", "prune.sparsity=1.5"], "prune.sparsity = 1.5"),
        (["learn", "digits", "--set", "prune.sparsitty=0.5"], "did you mean 'prune.sparsity'?"),
        (["learn", "digits", "--set", "chain.sampler.temperature=-1"], "temperature = -1"),
        (["learn", "digits", "--set", "chain.sampler.friction=1"], "kind of chain.sampler has it"),
        (["learn", "digits", "--set", "chain.epoch=1"], "did you mean 'chain.epochs'?"),
        (
            ["learn", "digits", "--set", "prior.kind=gaussian", "--set", "chain.shed_after=2"],
            "chain.shed_after = 2: the prior holds no group at zero",
        ),
        (["learn", "digits", "--set", "nonsense"], "write KEY=VALUE"),
        (["learn", "digits", "--device", "nowhere"], "device = 'nowhere' cannot be used"),
        (["learn", "digits", "--device", "meta"], "name another, as cpu or cuda:1"),
        (["learn", "missing.toml"], "missing.toml does not exist"),
        (["reproduce", "mnist", "--row", "mnist-x"], "no row 'mnist-x'"),
        (["search", "missing.toml"], "search file missing.toml"),
        (["search", "plan.toml", "--out", "found.html"], "call the file found.json"),
        (["recipes", "nothing"], "no built-in recipe 'nothing'"),
        (["learn", "digits", "--set", "name=../evil"], "name = '../evil'"),
        (["learn", "digits", "--set", "chain.schedule.lr=-1"], "chain.schedule.lr = -1"),
        (["learn", "digits", "--set", "data.name=grammar"], "a text needs a network that takes"),
        (["learn", "grammar", "--set", "data.name=digits"], "learns from a Corpus, not from"),
        (["learn", "digits", "--set", "network.kind=lstm"], "cannot take inputs of shape (1, 64)"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    arguments, message, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, _, err = command(*arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_folder_is_bad_input(tmp_path, command):
    (tmp_path / "file").write_text("")
    arguments = ("learn", "digits", "--out", str(tmp_path / "file"))
    code, _, err = command(*arguments)
    assert code == 2
    assert "cannot be used as a run folder" in err


def test_a_diverging_chain_exits_with_3(tmp_path, command):
    options = ("--baseline=none", "--set=chain.schedule.lr=1e9")
    code, _, err = command("learn", "digits", "--out", tmp_path / "run", *options)
    assert code == 3
    assert "lower the learning rate" in err


@pytest.mark.slow
def test_a_damaged_checkpoint_exits_with_2(tmp_path, command):
    arguments = ("learn", "digits", "--out", str(tmp_path / "run"), *QUICK)
    command(*arguments)
    (tmp_path / "run" / "result.json").unlink()
    file = next((tmp_path / "run" / "chain").glob("*/sample-*.safetensors"))
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    code, _, err = command(*arguments)
    assert code == 2
    assert "does not match its checksum" in err


def test_every_builtin_recipe_is_valid_and_listed():
    assert {
        "digits",
        "mnist-sgd",
        "mnist-sgd-ensemble",
        "mnist-sgld",
        "mnist-sgld-gsp-90",
        "mnist-sgld-gsp-96",
        "mnist-sgld-l1-90",
        "mnist-sgld-l1-96",
    } <= set(builtin_names())
    listed = CliRunner().invoke(app, ["recipes"]).output
    for name in builtin_names():
        recipe = load_recipe(name)
        assert recipe.description
        assert recipe.description in listed


def test_the_rows_of_table_1_have_the_papers_structure():
    for name in builtin_names():
        recipe = load_recipe(name)
        if name.startswith("mnist") and not recipe.choose:
            assert recipe.network.hidden == (300, 100)
            members = recipe.chain.chains * len(recipe.chain.steps_to_collect(600))
            assert members == (1 if name == "mnist-sgd" else 18)
    assert load_recipe("mnist-sgld").prior.kind == "none"
    ninety, ninety_six = load_recipe("mnist-sgld-gsp-90"), load_recipe("mnist-sgld-gsp-96")
    assert ninety.chain == ninety_six.chain
    assert ninety.prior == ninety_six.prior


def test_a_recipe_file_of_ones_own_works_the_same(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[chain]\nepochs = 30\n[chain.schedule]\nkind = "constant"\nlr = 0.1\n')
    recipe = load_recipe(path)
    assert (recipe.name, recipe.chain.epochs) == ("mine", 30)
    path.write_text("chain = 3\nnot toml")
    with pytest.raises(InputError, match="not valid TOML"):
        load_recipe(path)


@pytest.mark.slow
def test_search_measures_validation_data_and_writes_one_file(tmp_path, command):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'recipe = "digits"\nvalidation = 200\n[grid]\n'
        '"chain.epochs" = [12]\n"chain.chains" = [2]\n'
        '"chain.burn_in" = [4]\n"chain.interval" = [4]\n'
        '"retrain.epochs" = [1, 2]\n"prune.sparsity" = [0.5]\n'
    )
    out = tmp_path / "found.json"
    arguments = ("search", str(plan), "--out", str(out), "--work", str(tmp_path / "work"))
    code, text, _ = command(*arguments)
    assert code == 0
    found = json.loads(out.read_text())
    assert [sorted(p["changes"]) for p in found["points"]] == [sorted(found["search"]["grid"])] * 2
    losses = [point["scores"]["validation"]["curve"]["nll"][-1] for point in found["points"]]
    assert losses == sorted(losses)
    assert "On validation data" in text
    chains = [p for p in (tmp_path / "work").iterdir() if p.name.startswith("chain-")]
    assert len(chains) == 1  # both points share one chain
