"""The paper's recipes: the tables they are made of, and the figures of the paper they must have."""

import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from paper import mnist, ptb
from paper.recipes import paper_recipe, ptb_names
from sparsemble.errors import InputError
from sparsemble.recipes import load_recipe
from sparsemble.recipes.baselines import dense_recipe
from sparsemble.results.result import read_result
from sparsemble.search.search import read_search

PAPER = Path(ptb.__file__).parent
RESULTS = sorted((PAPER / "results").glob("*/*-seed*.json"))
SEARCHES = sorted((PAPER / "searches").glob("*.toml"))


@pytest.mark.parametrize("name", ptb_names())
def test_every_row_at_every_size_is_a_recipe_that_says_what_it_is(name):
    recipe = paper_recipe(name)
    _, size, row = name.split("-", 2)
    assert recipe.name == name
    assert recipe.description.startswith(f"PTB, {size}: ")
    if row.startswith("beyond"):
        return
    # What the paper does not have is off.
    assert recipe.network.model_fields_set <= {"kind", "hidden", "dropout", "shared", "init_range"}
    assert recipe.task.jitter == 0


def test_a_row_is_only_where_its_sizes_say():
    def sizes(row):
        return [name.split("-")[1] for name in ptb_names() if name.split("-", 2)[2] == row]

    assert sizes("sgd") == ["small", "medium", "large"]
    assert sizes("sgd-4") == ["small"]
    assert sizes("sgd-10") == ["medium"]
    assert sizes("sgd-38") == ["large"]


def test_a_recipe_is_made_anew_every_time():
    paper_recipe("ptb-small-sgld-gsp", {"prior.penalty": 1.0, "task.window": 3})
    assert paper_recipe("ptb-small-sgld-gsp").prior.penalty == 1e-5
    assert paper_recipe("ptb-small-sgd").task.window == 20


def test_a_row_that_is_not_there_is_told():
    with pytest.raises(InputError, match="no recipe 'ptb-large-sgd-10'"):
        paper_recipe("ptb-large-sgd-10")


@pytest.mark.slow
def test_a_row_can_be_had_as_a_recipe_file(tmp_path):
    name = "ptb-small-sgld-gsp-pr-iss-4"
    command = [sys.executable, "-m", "paper.recipes", name]
    printed = subprocess.run(
        command, cwd=PAPER.parent, capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / f"{name}.toml").write_text(printed)
    assert load_recipe(tmp_path / f"{name}.toml") == paper_recipe(name)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_committed_result_was_made_by_the_recipe_of_its_row(path):
    recipe = read_result(path).recipe
    name = path.stem.removesuffix(f"-seed{recipe.seed}")
    if name.endswith("-dense"):
        row = dense_recipe(paper_recipe(name.removesuffix("-dense"), {"seed": recipe.seed}))
        row = row.model_copy(update={"description": recipe.description})
    else:
        row = paper_recipe(name, {"seed": recipe.seed})
    assert recipe == row


def test_there_are_results_of_every_row_on_mnist():
    found = {path.stem.rpartition("-seed")[0] for path in RESULTS}
    assert {row.recipe for row in mnist.ROWS} <= found


@pytest.mark.parametrize("path", SEARCHES, ids=lambda path: path.stem)
def test_every_point_of_a_search_is_a_recipe(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    search = read_search(path)
    if search.recipe.endswith(".toml"):  # as `python -m paper.recipes` writes it
        recipe = paper_recipe(Path(search.recipe).stem)
        fields = recipe.model_dump(mode="json", exclude_none=True)
        Path(search.recipe).write_text(tomli_w.dumps(fields))
    for changes in search.points():
        assert search.base(changes | search.measured_on_validation()).data is not None


@pytest.mark.parametrize(("size", "table"), [("medium", 3), ("large", 5)])
def test_every_row_of_the_papers_table_has_a_recipe(size, table):
    printed = [row for row in ptb.ROWS if row.table == table and row.paper is not None]
    assert len(printed) == {3: 10, 5: 7}[table]
    for row in printed:
        recipe = paper_recipe(ptb.recipe_name(row.recipe, size))
        steps = recipe.chain.steps_to_collect(steps_per_epoch=100)
        assert len(steps) * recipe.chain.chains == row.models


@pytest.mark.parametrize(
    ("size", "units", "dropout", "clip", "init_range", "epochs"),
    [
        ("small", 200, 0.0, 5.0, 0.1, 13),
        ("medium", 650, 0.5, 5.0, 0.05, 39),
        ("large", 1500, 0.65, 10.0, 0.04, 55),
    ],
)
def test_the_dense_baselines_are_zarembas(size, units, dropout, clip, init_range, epochs):
    recipe = paper_recipe(f"ptb-{size}-sgd")
    assert recipe.network.hidden == (units, units)
    assert (recipe.network.dropout, recipe.network.init_range) == (dropout, init_range)
    assert (recipe.chain.clip, recipe.chain.epochs) == (clip, epochs)
    assert recipe.chain.sampler.temperature == 0
    assert recipe.task.window == (20 if size == "small" else 35)


def test_rates_fall_as_zarembas_do():
    small = paper_recipe("ptb-small-sgd").chain.schedule
    assert [small(epoch) for epoch in range(6)] == [1, 1, 1, 1, 0.5, 0.25]
    medium = paper_recipe("ptb-medium-sgd").chain.schedule
    assert [round(medium(epoch), 4) for epoch in (0, 5, 6, 7)] == [1, 1, 0.8333, 0.6944]


@pytest.mark.parametrize(
    ("size", "dropout", "lr", "untied", "iss"),
    [("medium", 0.3, 1.5, 4.2e-5, 3e-5), ("large", 0.5, 1.0, 2.3e-5, 1.5e-5)],
)
def test_the_group_sparse_rows_have_the_papers_figures(size, dropout, lr, untied, iss):
    for row, penalty, grouping in (
        ("sgld-gsp-pr", untied, "untied"),
        ("sgld-gsp-pr-tied", untied, "tied"),
        ("sgld-gsp-pr-iss", iss, "iss"),
    ):
        recipe = paper_recipe(f"ptb-{size}-{row}")
        assert recipe.prior.penalty == penalty
        assert recipe.grouping == grouping
        assert recipe.network.dropout == dropout
        assert recipe.chain.schedule.lr == recipe.retrain.schedule.lr == lr
        assert recipe.retrain.schedule.factor == 1.25
        assert (recipe.retrain.epochs, recipe.prune.sparsity) == (15, 0.9)
