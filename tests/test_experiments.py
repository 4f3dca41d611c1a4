"""Experiments: result files, the tables made from them, and jobs that share chains."""

import re
import subprocess
import sys
from pathlib import Path

import kept
import pytest
import torch

import sparsemble
from scenarios import wait_until
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.experiments import mnist, ptb, ptb_tables
from sparsemble.experiments.demo import comparison
from sparsemble.experiments.jobs import Job, Workplace, chain_key, run_jobs
from sparsemble.experiments.mnist_tables import table1, table2
from sparsemble.experiments.search import read_search, run_search
from sparsemble.recipes import load_recipe
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.provenance import commit_of
from sparsemble.runs.results import read_result, write_result
from sparsemble.runs.sheets import put_into, spread
from sparsemble.store import read_json

ROOT = Path(__file__).parent.parent
QUICK = {
    "chain.chains": 1,
    "chain.epochs": 6,
    "chain.burn_in": 2,
    "chain.interval": 2,
    "prune.sparsity": 0.9,
    "retrain.epochs": 1,
}


def quick(seed: int = 0, **changes) -> sparsemble.Recipe:
    return load_recipe("digits", QUICK | {"seed": seed} | changes)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Two recipes that share a chain, and one with another seed, run as jobs."""
    folder = tmp_path_factory.mktemp("jobs")
    jobs = [
        Job(quick(), folder / "out" / "a.json"),
        Job(quick(**{"prune.sparsity": 0.5}), folder / "out" / "b.json"),
        Job(quick(seed=1), folder / "out" / "c.json"),
    ]
    results = dict(run_jobs(jobs, Workplace(folder / "work")))
    return folder, jobs, results


def test_recipes_that_differ_after_the_chain_share_it(done):
    folder, jobs, results = done
    chains = [path for path in (folder / "work").iterdir() if path.name.startswith("chain-")]
    assert len(chains) == 2
    assert results[jobs[0]].parameters < results[jobs[1]].parameters
    assert chain_key(jobs[0].recipe) == chain_key(jobs[1].recipe) != chain_key(jobs[2].recipe)


def test_the_number_of_chains_is_no_part_of_what_is_shared():
    one, many = load_recipe("mnist-sgd"), load_recipe("mnist-sgd-ensemble")
    assert chain_key(one) == chain_key(many)


def test_finished_jobs_are_read_not_run(done):
    folder, jobs, results = done
    again = dict(run_jobs(jobs, Workplace(folder / "nowhere")))
    assert again == results
    assert not (folder / "nowhere").exists()


def test_a_result_of_another_recipe_is_not_taken_for_this_one(done):
    folder, jobs, _ = done
    changed = Job(quick(**{"retrain.epochs": 2}), jobs[0].result)
    with pytest.raises(InputError, match="made by another version of recipe"):
        list(run_jobs([changed], Workplace(folder / "work")))


def test_results_come_in_the_order_of_seeds(done, tmp_path):
    _, jobs, results = done
    for seed in (10, 2, 0):
        result = results[jobs[0]].model_copy(update={"recipe": quick(seed=seed)})
        write_result(result, tmp_path / f"mnist-sgld-seed{seed}.json")
    found = mnist.results_in(tmp_path)["mnist-sgld"]
    assert [result.recipe.seed for result in found] == [0, 2, 10]


def test_processes_give_the_same_bits_as_one_process(done):
    folder, jobs, results = done
    elsewhere = [Job(job.recipe, folder / "again" / job.result.name) for job in jobs]
    again = dict(run_jobs(elsewhere, Workplace(folder / "work2", processes=2)))
    for job, other in zip(jobs, elsewhere, strict=True):
        assert again[other].metrics == results[job].metrics


def test_a_result_says_how_to_repeat_it(done):
    _, jobs, results = done
    result = results[jobs[2]]
    assert result.recipe == jobs[2].recipe
    assert {"sparsemble", "torch", "python", "threads", "commit"} <= set(result.provenance)
    assert result.provenance["threads"] == torch.get_num_threads()
    assert result.provenance["finished by"] == result.provenance["commit"]
    assert len(result.structures) == 2
    assert sum(result.member_parameters) == result.parameters


def test_a_changed_result_file_is_refused(done):
    folder, jobs, _ = done
    path = folder / "changed.json"
    text = jobs[0].result.read_text()
    path.write_text(re.sub(r'"error": [0-9.]+', '"error": 0.0001', text, count=1))
    with pytest.raises(CorruptFileError, match="does not match its checksum"):
        read_result(path)


def test_the_demonstration_compares_one_dense_network_with_both_ensembles(done):
    _, jobs, results = done
    sheet = comparison(results[jobs[1]], results[jobs[0]])
    assert [row[0] for row in sheet.rows] == [
        "SGD, 1 dense network (mean of 2)",
        "SGD ensemble of 2",
        "Sparse structured ensemble of 2",
    ]
    assert sheet.rows[0][4:] == ("1.00×", "1.00×", "1.00×")
    assert sheet.rows[2][1] == f"{100 * results[jobs[0]].metrics['error']:.2f}"


def test_spread_is_mean_and_sample_deviation():
    assert spread([1.0]) == "1.00"
    assert spread([1.0, 2.0, 3.0]) == "2.00 ± 1.00"


def test_tables_say_what_was_not_run(tmp_path):
    results = mnist.results_in(tmp_path)
    rows = table1(results).rows
    assert [row[0] for row in rows] == [row.method for row in mnist.ROWS]
    assert {row[2] for row in rows} == {"not run"}
    assert [row[-1] for row in rows] == ["1.66", "1.49", "1.53", "1.26", "1.39", "1.26", "1.29"]
    assert table2(results).rows == ()


def test_our_rows_run_before_the_baselines(tmp_path):
    planned = mnist.jobs(seeds=3, ensemble_seeds=2, out=tmp_path)
    names = [job.result.stem for job in planned]
    assert names[:3] == [f"mnist-sgld-gsp-90-seed{k}" for k in range(3)]
    assert len(names) == 6 * 3 + 2
    assert names.index("mnist-sgld-l1-96-seed2") < names.index("mnist-sgld-seed0")
    assert names.index("mnist-sgld-seed0") < names.index("mnist-sgd-seed0")


def test_the_readme_shows_the_tables_of_the_committed_results(tmp_path):
    copy = tmp_path / "README.md"
    copy.write_bytes((ROOT / "README.md").read_bytes())
    results = mnist.results_in(ROOT / "results" / "mnist")
    put_into(copy, "mnist", (table1(results), table2(results)))
    language = ptb.results_in(ROOT / "results" / "ptb", "small")
    put_into(copy, "ptb small", ptb_tables.sheets(language, "small"))
    put_into(copy, "benchmarks", [kept.sheet(read_json(ROOT / kept.FILE))])
    assert copy.read_text() == (ROOT / "README.md").read_text()


def test_tables_are_only_put_between_marks(tmp_path):
    plain = tmp_path / "plain.md"
    plain.write_text("no marks")
    with pytest.raises(InputError, match="lacks the marks"):
        put_into(plain, "mnist", ())
    assert plain.read_text() == "no marks"


def examples_in_the_readme() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_readmes_first_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(examples_in_the_readme()[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("Metrics(error=")
    assert float(printed[1]) < 1
    assert (tmp_path / "digits-ensemble" / "manifest.json").exists()


def test_the_readmes_language_example_runs(capsys):
    exec(compile(examples_in_the_readme()[1], "README.md", "exec"), {})
    curve, text = capsys.readouterr().out.splitlines()
    assert len(curve.split(",")) == 2
    assert len(text.split()) == 20


def test_a_point_that_diverges_does_not_end_a_search(command, tmp_path):
    file, out = tmp_path / "search.toml", tmp_path / "found.json"
    file.write_text(
        'recipe = "digits"\nheld_out = 300\n[grid]\n"chain.schedule.rate" = [1e9, 0.2]\n'
        '"chain.chains" = [1]\n"chain.epochs" = [3]\n"chain.interval" = [3]\n'
        '"retrain.epochs" = [1]\n'
    )
    code, said, _ = command("search", file, "--out", out, "--work", tmp_path / "work")
    assert code == 0
    assert "lower the learning rate" in said
    found = read_json(out)
    assert [point["changes"]["chain.schedule.rate"] for point in found["points"]] == [0.2]
    assert [changes["chain.schedule.rate"] for changes in found["diverged"]] == [1e9]


def test_workers_save_and_stop_when_the_process_that_started_them_is_killed(tmp_path):
    (tmp_path / "long.toml").write_text(
        'recipe = "digits"\nheld_out = 300\n[grid]\n"seed" = [0, 1]\n"chain.epochs" = [100000]\n'
    )
    starter = subprocess.Popen(
        [sys.executable, "-m", "sparsemble", "search", "long.toml", "--jobs=2", "--work=work"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(list(tmp_path.glob("work/chain-*/stage.json"))) == 2)
    finally:
        starter.kill()
        starter.wait()
    chains = list(tmp_path.glob("work/chain-*"))
    wait_until(lambda: not any(map(in_use, chains)))
    assert all((chain / "checkpoint.safetensors").exists() for chain in chains)


def in_use(folder: Path) -> bool:
    try:
        with RunFolder(folder).locked():
            return False
    except InputError:
        return True


def test_a_commit_is_marked_when_any_file_of_the_package_was_changed(tmp_path):
    package = tmp_path / "src" / "package"
    (package / "below").mkdir(parents=True)
    for name in ("__init__.py", "below/part.py"):
        (package / name).write_text("x = 1\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "begun"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    commit = commit_of(package)
    assert re.fullmatch("[0-9a-f]{40}", commit)
    (package / "below" / "part.py").write_text("x = 2\n")
    assert commit_of(package) == f"{commit} with changes"
    assert commit_of(tmp_path / "src") is None


def test_what_is_waiting_does_not_begin_once_nobody_asks_for_it(tmp_path):
    jobs = [Job(quick(seed=seed), tmp_path / f"{seed}.json") for seed in range(3)]
    long = {"chain.epochs": 100_000, "chain.burn_in": 99_998}
    jobs[1] = Job(quick(seed=1, **long), jobs[1].result)
    running = run_jobs(jobs, Workplace(tmp_path / "work", processes=2))
    first, _ = next(running)
    wait_until(lambda: len(list((tmp_path / "work").glob("1-*/run.json"))) == 1)
    running.close()
    assert first == jobs[0]
    assert not list((tmp_path / "work").glob("2-*"))
    assert list((tmp_path / "work").glob(f"chain-{chain_key(jobs[1].recipe)}/checkpoint*"))


def test_settings_for_data_of_ones_own_are_searched_on_held_out_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    file = tmp_path / "search.toml"
    file.write_text(
        'recipe = "examples/iris.toml"\nheld_out = 30\n[grid]\n"chain.epochs" = [6]\n'
        '"chain.burn_in" = [2]\n"chain.interval" = [2]\n"retrain.epochs" = [1]\n'
    )
    [(_, result)] = run_search(read_search(file), Workplace(tmp_path / "work"))
    assert result.recipe.data.held_out == 30
    training, held_out = result.recipe.data.load()
    assert (len(training), len(held_out)) == (70, 30)
    file.write_text('recipe = "examples/iris.toml"\n[grid]\n"seed" = [1]\n')
    with pytest.raises(InputError, match="returns examples: say held_out"):
        list(run_search(read_search(file), Workplace(tmp_path / "work")))
