"""The Penn Treebank experiment, run small on the built-in grammar: tables, figure, commands."""

import math
import shutil
import sys
from pathlib import Path

import pytest
import torch

from paper import ptb, ptb_estimate, ptb_figures, ptb_tables
from paper.figure4b import curves_of, figure_table, measure_curves, read_curves, write_curves
from paper.recipes import paper_recipe
from sparsemble.data import grammar
from sparsemble.priors import GroupSparse
from sparsemble.recipes import load_recipe
from sparsemble.search.jobs import Job, Workplace, chain_key, run_jobs

pytestmark = pytest.mark.slow

PAPER = Path(ptb.__file__).parent
TINY = {
    "data.name": "grammar",
    "data.portion": 0.05,
    "network.hidden": [10, 8],
    "network.embedding": 8,
    "chain.epochs": 4,
    "chain.burn_in": 0,
    "chain.interval": 2,
    "chain.batch_size": 5,
}
RETRAINED = {"retrain.epochs": 1, "retrain.batch_size": 5}


def tiny(row, size="small"):
    name = ptb.recipe_name(row, size)
    retrained = paper_recipe(name).retrain is not None
    return paper_recipe(name, TINY | (RETRAINED if retrained else {}))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A few rows of both tables, at toy size."""
    work = tmp_path_factory.mktemp("ptb")
    rows = (
        "sgd",
        "sgld-gsp-p",
        "sgld-gsp-pr",
        "sgld-gsp-pr-iss-4",
        "sgld-gsp-pr-se-iss-4",
        "sgd-gsp-pr-4",
    )
    jobs = [Job(tiny(row), work / f"{row}.json") for row in rows]
    found = dict(run_jobs(jobs, Workplace(work)))
    return {row: [found[job]] for row, job in zip(rows, jobs, strict=True)}


def test_rows_that_differ_after_the_chain_share_its_samples():
    shared = {
        chain_key(tiny(row)) for row in ("sgld-gsp", "sgld-gsp-p", "sgld-gsp-r", "sgld-gsp-pr")
    }
    assert len(shared) == 1
    assert chain_key(tiny("sgld-gsp-pr-tied")) not in shared


def test_what_is_measured_does_not_change_the_chain():
    test = tiny("sgld-gsp")
    valid = paper_recipe("ptb-small-sgld-gsp", TINY | {"data.measure": "validation"})
    assert chain_key(test) == chain_key(valid)
    assert chain_key(test) != chain_key(
        paper_recipe("ptb-small-sgld-gsp", TINY | {"task.window": 7})
    )


def test_the_single_model_is_the_best_on_the_validation_text(results):
    result = results["sgld-gsp-pr"][0]
    on_validation, on_test = (
        result.scores[part].members["perplexity"] for part in ("validation", "test")
    )
    best = on_validation.index(min(on_validation))
    [shown] = [
        row for row in ptb_tables.perplexities(results, "small", 3).rows if row[0] == "SGLD+GSP+PR"
    ]
    assert shown[4:6] == (f"{on_validation[best]:.2f}", f"{on_test[best]:.2f}")
    together = [result.scores[part].curve["perplexity"][-1] for part in ("validation", "test")]
    assert shown[6:8] == tuple(f"{perplexity:.2f}" for perplexity in together)


def test_every_perplexity_stands_above_the_sources_own(results):
    for (result,) in results.values():
        score = result.scores["test"]
        assert score["perplexity"] > score.reference["perplexity"] > 9


def test_tables_show_rows_with_results_beside_the_papers(results):
    table3 = ptb_tables.perplexities(results, "small", 3)
    assert [row[0] for row in table3.rows] == [
        "SGD (Zaremba et al. 2014)",
        "SGLD+GSP+P",
        "SGLD+GSP+PR",
        "SGLD+GSP+PR (ISS)",
    ]
    assert table3.rows[0][-4:] == ("1 (19.8M)", "1 (26.5M)", "86.2 / 82.1", "– / –")
    assert table3.rows[2][-4:] == ("1×", "4×", "79.8 / 76.6", "71.5 / 69.5")
    assert [row[8] for row in table3.rows] == ["0", "0.2", "0.2", "0.2"]  # dropout
    assert [row[9] for row in table3.rows] == ["0", *["0.0001"] * 3]  # T, in every row
    table5 = ptb_tables.perplexities(results, "small", 5)
    cited = [row for row in table5.rows if row[0].endswith("cited")]
    assert [row[-1] for row in cited] == ["– / 68.7", "71.1 / 68.5", "60.0 / 57.3", "56.5 / 54.4"]


def test_a_shared_embedding_is_measured_in_networks_without_one(results):
    plain, own = results["sgd"][0], results["sgld-gsp-pr-se-iss-4"][0]
    dense = plain.parameters / len(plain.structures)
    assert own.parameters_ratio > own.parameters / dense + 0.01
    rows = {row[0]: row for row in ptb_tables.perplexities(results, "small", 5).rows}
    assert rows["SGLD+GSP+PR+SE (ISS)"][2] == f"{own.parameters / dense:.2f}×"


def test_the_structure_table_adds_up(results):
    table = ptb_tables.structures(results, "small")
    dense = results["sgd"][0]
    assert dense.member_shapes[0] == {"lstm1": (40, 18), "lstm2": (32, 18), "softmax": (234, 8)}
    assert table.rows[0][0] == "SGD (Zaremba et al. 2014)"
    assert table.rows[0][5].endswith("(100%)")
    assert table.rows[0][6] == "36M + 36M + 30M = 102M"
    untied = results["sgld-gsp-pr"][0]
    assert set(untied.member_shapes[0]) == {
        *(f"lstm{k} {gate}" for k in (1, 2) for gate in ("input", "forget", "cell", "output")),
        "softmax",
    }
    areas = sum(2 * rows * columns for rows, columns in untied.member_shapes[0].values())
    assert areas == untied.member_flops[0]


def test_the_structure_table_shows_the_flops_of_the_papers_large_member(results):
    shapes = {
        "lstm1": (4 * 311, 365 + 311),
        "lstm2": (4 * 420, 311 + 420),
        "softmax": (10_000, 420),
    }
    flops = sum(2 * rows * columns for rows, columns in shapes.values())
    member = results["sgld-gsp-pr-iss-4"][0].model_copy(
        update={"member_shapes": [shapes], "member_flops": [flops]}
    )
    [row] = ptb_tables.structures({"sgld-gsp-pr-iss-4": [member]}, "large").rows
    assert row[4] == "1.68M + 2.46M + 8.40M"
    assert row[5].startswith("12.54M")


def test_training_costs_are_relative_to_the_independent_ensemble(results):
    table = ptb_tables.costs(results, "small")
    by_method = {row[0]: row for row in table.rows}
    assert by_method["SGD+GSP+PR"][2] == "4·4 + 1·8"
    assert by_method["SGD+GSP+PR"][7:] == ("1.00", "1.00")
    assert by_method["SGLD+GSP+PR (ISS)"][2] == "4 + 1·2"
    assert by_method["SGLD+GSP+PR (ISS)"][7] == f"{(4 + 1 * 2 / 2) / (4 * 4 + 1 * 8 / 2):.2f}"
    alone = {row: found for row, found in results.items() if row != "sgd-gsp-pr-4"}
    without = ptb_tables.costs(alone, "small")
    assert without.header == table.header[:7]
    assert all(len(row) == 7 for row in without.rows)


def test_training_costs_in_flops_are_held_against_the_dense_network(results):
    rows = {row[0]: row for row in ptb_tables.costs(results, "small").rows}
    assert rows["SGD (Zaremba et al. 2014)"][5:7] == ("1.00", "0.50")  # it has two members here
    own, dense = results["sgld-gsp-pr-iss-4"][0], results["sgd"][0]
    share = own.training.total.flops / dense.training.total.flops
    assert rows["SGLD+GSP+PR (ISS)"][5:7] == (f"{share:.2f}", f"{share / 2:.2f}")
    # Of results that do not say it, the recipe does: a member of the chain is a dense network.
    old = {row: [found.model_copy(update={"training": None})] for row, (found,) in results.items()}
    known = {row[0]: row for row in ptb_tables.costs(old, "small").rows}
    assert known["SGLD+GSP+PR (ISS)"][5:7] == rows["SGLD+GSP+PR (ISS)"][5:7]


def test_training_costs_in_epochs_are_counted_as_the_papers_footnote_does(results):
    def planned(row, members):
        known = results["sgd-gsp-pr-4"][0]
        recipe = paper_recipe(ptb.recipe_name(row, "large"))
        return known.model_copy(update={"recipe": recipe, "structures": [(1,)] * members})

    large = {row: [planned(row, 4)] for row in ("sgd-gsp-pr-4", "sgld-gsp-pr-4")}
    rows = {row[2]: row for row in ptb_tables.costs(large, "large").rows}
    assert rows["80 + 15·4"][7] == "0.73"


def test_figure_4b_compares_subsets_of_one_chains_members(results, tmp_path):
    base = results["sgld-gsp-pr"][0]
    chain = base.recipe.chain.model_copy(update={"interval": 2})
    result = base.model_copy(update={"recipe": base.recipe.model_copy(update={"chain": chain})})
    # Six members: the log-probabilities of two tokens by each.
    probabilities = torch.tensor(
        [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.5] * 6], dtype=torch.float64
    ).t()
    curves = curves_of(result, probabilities.log(), results["sgd"][0])
    assert [(p.members, p.interval) for p in curves.uniform] == [(6, 2), (3, 4), (2, 6)]
    mean = (0.2 + 0.4 + 0.6) / 3  # every second member
    assert math.isclose(curves.uniform[1].perplexity, (mean * 0.5) ** -0.5)
    assert [p.members for p in curves.every_six] == [1, 2]
    assert math.isclose(curves.every_six[0].perplexity, (0.3 * 0.5) ** -0.5)
    assert (
        curves.independent[0].perplexity
        == (results["sgd"][0].scores["validation"].curve["perplexity"][0])
    )
    write_curves(curves, tmp_path / "figure4b.json")
    assert read_curves(tmp_path / "figure4b.json") == curves
    assert len(figure_table(curves).rows) == 3 + 2 + 2


def test_every_point_of_figure_4b_ends_where_the_chain_does(results):
    base = results["sgld-gsp-pr"][0]
    chain = base.recipe.chain.model_copy(update={"interval": 2})
    result = base.model_copy(update={"recipe": base.recipe.model_copy(update={"chain": chain})})
    # Only the last of 35 members knows the token: every ensemble it is in has 1/members.
    logs = torch.full((35, 1), -math.inf, dtype=torch.float64)
    logs[-1] = 0
    points = curves_of(result, logs, None).uniform
    assert [p.members for p in points] == [35, 17, 11, 8, 7, 5, 4, 3, 2]
    assert [p.interval for p in points] == [2, 4, 6, 8, 10, 14, 16, 22, 34]
    assert [p.perplexity for p in points] == pytest.approx([p.members for p in points])


def test_figures_are_drawn_of_what_has_been_run(tmp_path, command, monkeypatch):
    monkeypatch.setattr(ptb, "paper_recipe", lambda name: tiny(name.removeprefix("ptb-small-")))
    out, work = tmp_path / "out", tmp_path / "work"
    rows = ("sgd", "sgld-gsp-pr", "sgld-gsp-pr-iss-4")
    jobs = [Job(tiny(row), out / f"{ptb.recipe_name(row, 'small')}-seed0.json") for row in rows]
    out.mkdir()
    found = dict(run_jobs(jobs, Workplace(work)))
    names = [f"ptb-small-{name}.svg" for name in ("figure4a", "figure4b", "figure5")]
    arguments = ("reproduce", "ptb", "--tables", "--out", out, "--pictures", tmp_path)
    code, _, err = command(*arguments, "--work", work)
    assert code == 0
    assert err.count(": drawn") == 3
    first, second, third = ((tmp_path / name).read_text() for name in names)
    assert all(f"{stage}, averaged" in first for stage in ("sampled", "pruned", "retrained"))
    curve = found[jobs[2]].scores["validation"].curve["perplexity"]
    assert f"ISS: {curve[-1]:.1f}" in second
    assert "Untied weights" in third
    assert "ISS: " in third
    assert "Tied weights" not in third  # that was not run
    (tmp_path / names[2]).unlink()
    command(*arguments, "--work", tmp_path / "elsewhere")
    assert (tmp_path / names[2]).read_text() == third  # what it shows of runs was kept
    for kept in out.glob("figure5-*.json"):
        kept.unlink()
    code, _, err = command(*arguments, "--work", tmp_path / "elsewhere")
    assert "figure5.svg: not drawn" in err


def test_what_shedding_saves_is_drawn_of_a_run_that_shed(tmp_path, monkeypatch):
    assert ptb_figures.figures("small", tmp_path, tmp_path)["ptb-small-shedding.svg"] is None
    strong = tiny("shedding").model_copy(update={"prior": GroupSparse(penalty=0.001)})
    monkeypatch.setattr(ptb, "paper_recipe", lambda name: strong)
    job = Job(strong, tmp_path / "ptb-small-shedding-seed0.json")
    assert len(list(run_jobs([job], Workplace(tmp_path)))) == 1
    drawn = ptb_figures.figures("small", tmp_path, tmp_path)["ptb-small-shedding.svg"]
    assert "Of the whole network" in drawn
    assert "seconds" in drawn


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_figure_4b_has_its_recipes_at_every_size(size):
    for row in ("figure4b", ptb.INDEPENDENT[size]):
        assert paper_recipe(ptb.recipe_name(row, size)).network.hidden


def test_what_a_row_would_take_is_told_by_a_few_of_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(ptb_estimate, "paper_recipe", lambda name: tiny(name.split("-", 2)[2]))
    estimate = ptb_estimate.measure("small", None)
    path = ptb_estimate.estimate_file("small", tmp_path)
    ptb_estimate.write_estimate(estimate, path)
    assert ptb_estimate.read_estimate(path) == estimate
    table = ptb_estimate.table(estimate)
    assert [row[0] for row in table.rows] == [row.method for row in estimate.rows]
    recipe = tiny("sgld-gsp-pr")
    row = next(row for row in estimate.rows if row.method == "SGLD+GSP+PR")
    batches = recipe.task.training(recipe.data.load().train).batches(recipe.chain.batch_size)
    assert row.models == len(recipe.chain.steps_to_collect(batches.steps))
    assert row.step_seconds > 0
    hours = row.step_seconds * batches.steps * recipe.chain.epochs / 3600
    assert row.sampling_hours == pytest.approx(hours)
    ratio = row.models * recipe.retrain.epochs / recipe.chain.epochs
    assert row.retraining_hours == pytest.approx(ratio * hours)
    assert estimate.rows[0].retraining_hours == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "ptb", "--size", "tiny"], "size 'tiny' is not one of small, medium, large"),
        (["reproduce", "ptb", "--row", "sgd-38"], "no row 'sgd-38' in the tables at size small"),
        (["reproduce", "ptb", "--figure4b", "--row", "sgd"], "--figure4b has rows of its own"),
        (["reproduce", "ptb", "--figure4b", "--tables", "--out", "x"], "x/figure4b-small.json"),
    ],
)
def test_bad_input_is_one_clear_message(arguments, message, command):
    code, _, err = command(*arguments)
    assert code == 2
    assert message in err


def test_figure_4b_is_measured_on_the_validation_text_like_the_run_itself(tmp_path):
    job, place = Job(tiny("sgld-gsp-p"), tmp_path / "run.json"), Workplace(tmp_path)
    [(_, result)] = run_jobs([job], place)
    curves = measure_curves(job, result, grammar(), place, None)
    [together] = [point for point in curves.uniform if point.members == 2]
    assert together.perplexity == pytest.approx(result.scores["validation"]["perplexity"])


def test_without_the_papers_folder_the_command_says_where_it_is_to_be_had(
    command, monkeypatch, tmp_path
):
    # A folder of that name where the command is called is somebody else's.
    (tmp_path / "paper").mkdir()
    for name in ("__init__.py", "recipes.py", "mnist.py", "mnist_tables.py"):
        (tmp_path / "paper" / name).write_text("raise SystemExit('must not run')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sparsemble.cli.reproducing._BESIDE_SOURCE", tmp_path / "site-packages")
    for options in ((), ("--paper", tmp_path)):
        code, _, err = command("reproduce", "mnist", "--tables", *options)
        assert code == 2
        assert "https://github.com/sparsemble/sparsemble" in err
        assert "--paper" in err


def test_the_papers_folder_can_be_named(command, monkeypatch, tmp_path):
    copy = shutil.copytree(PAPER, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("results"))
    (copy / "results" / "ptb").mkdir(parents=True)
    result = "ptb-small-sgd-seed0.json"
    shutil.copy(PAPER / "results" / "ptb" / result, copy / "results" / "ptb" / result)
    monkeypatch.setattr("sparsemble.cli.reproducing._BESIDE_SOURCE", tmp_path / "site-packages")
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.partition(".")[0] == "paper"]:
            patch.delitem(sys.modules, name)
        code, out, err = command("reproduce", "ptb", "--tables", "--paper", copy)
        used = sys.modules["paper"].__file__
    assert code == 0, err
    assert f"1 result files of these tables in {copy / 'results' / 'ptb'}" in err
    assert "117.62" in out
    assert used == str(copy / "__init__.py")


def test_the_built_in_recipe_is_the_row_that_was_run():
    row = paper_recipe("ptb-medium-beyond")
    built_in = load_recipe("ptb-beyond")
    words = {"name": row.name, "description": row.description}
    assert built_in.model_copy(update=words) == row
