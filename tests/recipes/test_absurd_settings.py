"""Numbers, nesting and sizes that mean nothing: one message, before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from sparsemble.cli.main import app
from sparsemble.cli.options import parsed_changes
from sparsemble.errors import InputError
from sparsemble.memory import machine_memory
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.recipes.baselines import baseline_of
from sparsemble.samplers import Cyclical
from sparsemble.search.search import read_search
from sparsemble.store import parsed_json

DEEP = 10_000
TEXTS = {
    "a number of 5000 digits": (f"seed = {'9' * 5000}", "more than 64 bits"),
    "a number of 100 digits": (f"seed = {'9' * 100}", "more than 64 bits"),
    "arrays in arrays": (f"seed = {'[' * DEEP}{']' * DEEP}", "nested more than 64 deep"),
    "tables in tables": (f"seed = {'{a=' * DEEP}1{'}' * DEEP}", "nested more than 64 deep"),
    "a key of many parts": (f"{'.'.join('a' * 20_000)} = 1", "a key of more than 50 parts"),
    "a quoted key": (" . ".join(['"a"'] * 20_000) + " = 1", "a key of more than 50 parts"),
    "a section of many parts": (f"[{'.'.join('a' * 20_000)}]", "a key of more than 50 parts"),
}


@pytest.mark.parametrize(("text", "why"), TEXTS.values(), ids=TEXTS)
def test_a_recipe_that_no_parser_can_take_is_refused_by_name(text, why, tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(f'extends = "digits"\n{text}\n')
    with pytest.raises(InputError, match=f"odd.toml: .*{why}"):
        load_recipe(file)


def test_a_search_file_that_no_parser_can_take_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "search.toml"
    file.write_text(TEXTS["arrays in arrays"][0])
    with pytest.raises(InputError, match=r"search.toml: values nested more than 64 deep"):
        read_search(file)


def test_words_with_many_dots_are_no_keys(tmp_path: Path) -> None:
    file = tmp_path / "wordy.toml"
    words = "many words. " * 60 + "x" * 100_000
    file.write_text(f'extends = "digits"\ndescription = "{words}"\n')
    assert load_recipe(file).description == words


@pytest.mark.parametrize(
    "change",
    [
        f"seed={'9' * 5000}",
        f"network.hidden={'[' * DEEP}{']' * DEEP}",
        f"{'.'.join('a' * 20_000)}=1",
        f"chain.{'.'.join('a' * 20_000)}=1",
    ],
    ids=["digits", "nesting", "a key", "a key in a section"],
)
def test_a_change_on_the_command_line_that_means_nothing_is_refused(change: str) -> None:
    with pytest.raises(InputError) as refused:
        load_recipe("digits", parsed_changes([change]))
    assert len(str(refused.value)) < 400


def test_the_command_line_says_it_in_one_message_and_exits_with_2() -> None:
    found = CliRunner().invoke(app, ["learn", "digits", "--set", f"seed={'9' * 5000}"])
    assert isinstance(found.exception, InputError)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"chain.schedule.lr": 1e308}, "chain.schedule.lr = 1e[+]308: .* equal to 1000000000000"),
        ({"chain.sampler.temperature": 1e308}, "chain.sampler.temperature"),
        ({"prior.penalty": 1e308}, "prior.penalty"),
        ({"chain.clip": 1e308}, "chain.clip"),
        ({"retrain.schedule.lr": 1e308}, "retrain.schedule.lr"),
        ({"chain.divergence.slow_down": 1e308}, "chain.divergence.slow_down"),
        ({"chain.epochs": 10**18}, "chain.epochs"),
        ({"retrain.epochs": 10**18}, "retrain.epochs"),
        ({"chain.chains": 10**18}, "chain.chains"),
        ({"chain.batch_size": 10**18}, "chain.batch_size"),
        ({"chain.every": 10**18}, "chain.every"),
        ({"prune.steps": 10**18}, "prune.steps"),
        ({"seed": 10**5000}, "seed = a number of very many digits"),
        ({"network.hidden": [10**9]}, "network.hidden.0 = 1000000000"),
        ({"network.hidden": [8] * 20_000}, r"network.hidden = .*59,800 more.* at most 1000 items"),
    ],
)
def test_settings_have_limits(change: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        load_recipe("digits", change)


def test_more_dense_networks_than_anyone_could_train_are_refused() -> None:
    with pytest.raises(InputError, match="a number of dense networks"):
        baseline_of(load_recipe("digits", {"baseline": "9" * 5000}))


def test_cycles_without_number_are_refused_before_they_are_counted() -> None:
    with pytest.raises(InputError, match="cycles, more than 1,000,000"):
        Cyclical(lr=0.1, period=0.01).ends(1_000_000)


def test_a_grid_of_a_million_points_is_refused(tmp_path: Path) -> None:
    values = [k / 1000 for k in range(1, 1001)]
    file = tmp_path / "search.toml"
    file.write_text(
        f'recipe = "digits"\nvalidation = 300\n[grid]\n"prior.penalty" = {values}\n'
        f'"chain.schedule.lr" = {values}\n'
    )
    with pytest.raises(InputError, match="1,000,000 combinations, more than 10,000"):
        read_search(file)


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("digits", {"network.hidden": [1_000_000, 1_000_000]}),
        ("digits-cnn", {"network.channels": [1_000_000, 1_000_000]}),
        ("grammar", {"network.hidden": [1_000_000, 1_000_000]}),
        ("grammar-transformer", {"network.width": 1_000_000}),
    ],
)
def test_a_network_beyond_the_machines_memory_is_refused_before_it_is_made(recipe, changes) -> None:
    network = load_recipe(recipe, changes).network
    with pytest.raises(InputError, match=rf"would take [\d,]+ bytes.* has {machine_memory():,}"):
        network.made(64, 10)


def test_asking_for_the_size_of_a_network_changes_nothing_of_its_weights() -> None:
    network = load_recipe("grammar", {"network.hidden": [8]}).network
    torch.manual_seed(3)
    plain = network.build(20, 20)
    torch.manual_seed(3)
    made = network.made(20, 20)
    assert all(map(torch.equal, plain.parameters(), made.parameters()))
    assert all(parameter.device.type == "cpu" for parameter in made.parameters())


@pytest.mark.parametrize(
    "text", ["9" * 5000, "[" * DEEP + "]" * DEEP, '{"a":' * 200 + "1" + "}" * 200, "{"]
)
def test_json_that_no_file_of_ours_holds_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parsed_json(text, "a file")


def test_a_recipe_from_python_has_the_same_limits() -> None:
    fields = load_recipe("digits").model_dump(mode="json")
    with pytest.raises(InputError, match="seed = a number of very many digits"):
        Recipe(**(fields | {"seed": 10**5000}))
