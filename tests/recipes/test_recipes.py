"""Recipes: the built-in ones, and recipes that change only some settings of another."""

import pytest

from sparsemble.errors import InputError
from sparsemble.priors import Laplace, NoPrior
from sparsemble.recipes import builtin_names, load_recipe
from sparsemble.recipes.baselines import baseline_of
from sparsemble.recipes.networks import LSTMSettings


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_recipe_is_valid_and_says_what_it_is(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.description
    assert recipe.baseline is None or recipe.baseline in builtin_names()


def test_what_is_known_to_help_language_models_is_on_in_one_recipe_only():
    network = load_recipe("ptb-beyond").network
    known = network.build(0, 5).training_settings
    assert {"variational", "weight_dropout", "activation_penalty", "change_penalty"} < set(known)
    for name in set(builtin_names()) - {"ptb-beyond"}:
        other = load_recipe(name)
        if isinstance(other.network, LSTMSettings):
            assert set(other.network.build(0, 5).training_settings) == {"dropout"}
            assert other.task.jitter == 0


def write(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_recipe_that_extends_another_changes_only_what_it_names(tmp_path):
    path = write(tmp_path, 'extends = "grammar"\nseed = 5\n[chain]\nepochs = 64\n')
    mine, grammar = load_recipe(path), load_recipe("grammar")
    assert (mine.name, mine.seed, mine.chain.epochs) == ("mine", 5, 64)
    assert mine.chain.schedule == grammar.chain.schedule
    assert mine.prior == grammar.prior


def test_a_section_with_a_kind_of_its_own_replaces_the_other(tmp_path):
    path = write(
        tmp_path,
        'extends = "grammar-sgd"\n[chain.schedule]\nkind = "constant"\nlr = 0.5\n',
    )
    schedule = load_recipe(path).chain.schedule
    assert schedule.model_dump() == {"kind": "constant", "lr": 0.5}


def test_a_section_can_be_dropped(tmp_path):
    recipe = load_recipe(write(tmp_path, 'extends = "grammar"\nretrain = false\n'))
    assert recipe.retrain is None
    assert recipe.prune is not None


@pytest.mark.parametrize("kind", ["[1]", "{a = 1}"])
def test_a_kind_that_is_no_name_is_told_so(tmp_path, kind):
    file = tmp_path / "own.toml"
    file.write_text(f'extends = "digits"\nprior = {{kind = {kind}}}\n')
    with pytest.raises(InputError, match="prior"):
        load_recipe(file)


def test_only_a_built_in_recipe_can_be_extended(tmp_path):
    path = write(tmp_path, 'extends = "../secret"\n')
    with pytest.raises(InputError, match=r"extends '../secret', which is not a built-in one"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[data]\nname = "text"\n', "goes together with a path"),
        ('[data]\nname = "ptb"\npath = "somewhere"\n', "goes together with a path"),
        ('[data]\nname = "ptb"\nvalidation = 3\n', "validation"),
        ('[network]\nkind = "lstm"\nhidden = []\n', "hidden"),
        ('grouping = "rows"\n', "grouping"),
    ],
)
def test_sections_that_do_not_fit_each_other_are_refused(tmp_path, text, message):
    chain = '[chain]\nepochs = 30\n[chain.schedule]\nkind = "constant"\nlr = 0.1\n'
    with pytest.raises(InputError, match=message):
        load_recipe(write(tmp_path, text + chain))


def test_another_kind_clears_its_section_and_false_drops_one():
    recipe = load_recipe("digits", {"prior.kind": "none", "prune": False, "retrain": False})
    assert recipe.prior == NoPrior()
    assert recipe.prune is None
    changed = load_recipe("digits", {"prior.penalty": 1e-3, "prior.kind": "laplace"})
    assert changed.prior == Laplace(penalty=1e-3)
    own = load_recipe("digits", {"network.factory": "mine:make", "network.kind": "custom"})
    assert own.network.factory == "mine:make"
    same = load_recipe("digits", {"network.kind": "feedforward"})
    assert same.network == load_recipe("digits").network


def test_a_changed_recipe_says_so_in_its_description():
    plain = load_recipe("digits")
    assert load_recipe("digits", {"seed": 3}).description == plain.description
    changed = load_recipe("digits", {"chain.epochs": 70, "chain.interval": 70})
    assert (
        changed.description == f"{plain.description} (with chain.epochs = 70, chain.interval = 70)"
    )


def test_messages_about_whole_sections_do_not_repeat_them():
    with pytest.raises(InputError) as told:
        load_recipe("digits", {"data.name": "text"})
    assert len(str(told.value)) < 120
    with pytest.raises(
        InputError, match=r"unknown setting 'prior\.penalti'; did you mean 'prior\.penalty'"
    ):
        load_recipe("digits", {"prior.penalti": 1})


def test_a_baseline_learns_from_the_same_data(tmp_path):
    texts = {"data.name": "text", "data.path": str(tmp_path)}
    recipe = load_recipe("grammar", {**texts, "seed": 5})
    baseline = baseline_of(recipe)
    assert (baseline.data, baseline.seed) == (recipe.data, 5)
    assert baseline.name == "grammar-sgd"


def test_paths_are_kept_so_that_they_hold_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("grammar", {"data.name": "text", "data.path": "texts"})
    assert recipe.data.path == tmp_path / "texts"


@pytest.mark.parametrize("kind", ["sgld", "sghmc"])
def test_another_kind_of_sampler_keeps_what_all_of_them_have(kind, tmp_path):
    known = load_recipe("digits").chain.sampler
    assert known.temperature != 1.0
    overridden = load_recipe("digits", {"chain.sampler.kind": kind}).chain.sampler
    path = write(tmp_path, f'extends = "digits"\n[chain.sampler]\nkind = "{kind}"\n')
    extended = load_recipe(path).chain.sampler
    assert overridden == extended
    assert (overridden.kind, overridden.temperature) == (kind, known.temperature)


def test_a_file_does_not_take_the_place_of_a_built_in_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("digits", "grammar-sgd"):
        (tmp_path / name).write_text("seed = 7\n")
    assert load_recipe("digits").seed == 0
    assert baseline_of(load_recipe("grammar")).name == "grammar-sgd"


@pytest.mark.parametrize("key", ["chain.clip", "network.init_range", "retrain.clip"])
def test_limits_are_finite(key):
    with pytest.raises(InputError, match=f"{key} = inf"):
        load_recipe("grammar", {key: float("inf")})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("epochs", 10, "did you mean 'chain.epochs' or 'retrain.epochs'"),
        ("lr", 0.1, "did you mean 'chain.schedule.lr' or 'retrain.schedule.lr'"),
        ("temperature", 1, "did you mean 'chain.sampler.temperature'"),
        ("prune.sparsity", 90, r"less than 1: 90 % is 0\.9"),
        ("network.hidden", 300, r"write it as a list, \[300\]"),
        ("data", "mnist", "data = 'mnist': is a section; set what is in it, as data.name=…"),
    ],
)
def test_a_setting_that_is_nearly_right_is_told_how_to_be_written(key, value, message):
    with pytest.raises(InputError, match=message):
        load_recipe("digits", {key: value})
