"""Tables in recipes: what a run learns from and measures on, and that it can be written down."""

from pathlib import Path

import pytest
import torch

import sparsemble
from sparsemble.errors import InputError
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.recipes.data import TableData
from sparsemble.recipes.tables import table_recipe

PEOPLE = Path(__file__).parents[2] / "examples" / "people.csv"


def test_a_recipe_in_a_file_names_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(PEOPLE.parent)
    text = """
    [data]
    name = "table"
    files = ["people.csv"]
    target = "income"
    leave_out = ["since"]
    [network]
    hidden = [8]
    [chain.schedule]
    kind = "constant"
    lr = 0.1
    """
    (tmp_path / "mine.toml").write_text(text)
    recipe = load_recipe(tmp_path / "mine.toml")
    assert isinstance(recipe.data, TableData)
    assert recipe.data.files == (PEOPLE,)  # wherever the run is resumed
    assert recipe.data.target == ("income",)
    split = recipe.data.load()
    assert "since" not in split.train.feature_names
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


def test_a_share_of_the_rows_is_set_aside_by_a_seed():
    recipe = table_recipe([PEOPLE], ["income"])
    split = recipe.data.load()
    again = recipe.data.load()
    other = table_recipe([PEOPLE], ["income"], changes={"data.draw": 1}).data.load()
    assert (len(split.train), len(split.measured["test"].data)) == (192, 48)
    assert split.measured["test"].name == "the 48 test examples of people.csv"
    assert torch.equal(split.train.inputs, again.train.inputs)
    assert not torch.equal(split.train.inputs, other.train.inputs)
    assert split.train.columns == split.measured["test"].data.columns


def test_a_search_measures_on_training_rows():
    split = table_recipe([PEOPLE], ["hours"], changes={"data.validation": 40}).data.load()
    assert (len(split.train), len(split.validation)) == (152, 40)
    assert split.validation.columns == split.train.columns


def test_the_settings_of_another_recipe_are_taken():
    known = load_recipe("digits")
    recipe = table_recipe([PEOPLE], ["income"], recipe="digits", hidden=[5])
    assert (recipe.chain, recipe.prune, recipe.retrain) == (known.chain, known.prune, known.retrain)
    assert recipe.network.hidden == (5,)
    assert recipe.name == "people"


def test_other_sizes_leave_the_rest_of_a_network_as_it_is(tmp_path):
    own = tmp_path / "smooth.toml"
    own.write_text('extends = "digits"\nnetwork = { activation = "tanh", dropout = 0.3 }\n')
    network = table_recipe([PEOPLE], ["income"], recipe=str(own), hidden=[5]).network
    assert (network.hidden, network.activation, network.dropout) == ((5,), "tanh", 0.3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.share": 1.0}, "data.share = 1.0"),
        ({"data.target": []}, "data.target"),
        ({"data.categorys": ["x"]}, "did you mean 'data.categories'?"),
        ({"data.unseen": "maybe"}, "data.unseen = 'maybe'"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(InputError) as error:
        table_recipe([PEOPLE], ["income"], changes=changes)
    assert message in str(error.value)


def test_a_table_is_no_recipe():
    with pytest.raises(InputError, match=r"is a table, not a recipe: sparsemble learn --csv"):
        sparsemble.load_recipe(PEOPLE)
