"""Jobs: recipes that share a chain, run beside each other, and the result files they leave."""

import re
import subprocess
import sys

import pytest
import torch

import sparsemble
from scenarios import is_free, wait_until
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.recipes import load_recipe
from sparsemble.results.result import read_result, write_result
from sparsemble.search.jobs import Job, Workplace, chain_key, run_jobs, seeded_results

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


@pytest.mark.slow
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
        write_result(result, tmp_path / f"digits-seed{seed}.json")
    found = seeded_results(quick(), tmp_path)
    assert [result.recipe.seed for result in found] == [0, 2, 10]


@pytest.mark.slow
def test_processes_give_the_same_bits_as_one_process(done, processes):
    folder, jobs, results = done
    elsewhere = [Job(job.recipe, folder / "again" / job.result.name) for job in jobs]
    again = dict(run_jobs(elsewhere, Workplace(folder / "work2", processes)))
    for job, other in zip(jobs, elsewhere, strict=True):
        assert again[other].scores == results[job].scores


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
    path.write_text(re.sub(r'"flops": [0-9]+', '"flops": 1', text, count=1))
    with pytest.raises(CorruptFileError, match="does not match its checksum"):
        read_result(path)


@pytest.mark.slow
def test_what_is_waiting_does_not_begin_once_nobody_asks_for_it(processes, tmp_path):
    jobs = [Job(quick(seed=seed), tmp_path / f"{seed}.json") for seed in range(3)]
    long = {"chain.epochs": 100_000, "chain.burn_in": 99_998}
    jobs[1] = Job(quick(seed=1, **long), jobs[1].result)
    running = run_jobs(jobs, Workplace(tmp_path / "work", processes))
    first, _ = next(running)
    wait_until(lambda: len(list((tmp_path / "work").glob("1-*/run.json"))) == 1)
    running.close()
    assert first == jobs[0]
    assert not list((tmp_path / "work").glob("2-*"))
    assert list((tmp_path / "work").glob(f"chain-{chain_key(jobs[1].recipe)}/0000/checkpoint*"))


@pytest.mark.slow
def test_a_worker_saves_and_stops_when_the_process_that_started_it_is_killed(tmp_path):
    (tmp_path / "long.toml").write_text(
        'recipe = "digits"\nvalidation = 300\n[grid]\n"seed" = [0]\n"chain.epochs" = [100000]\n'
    )
    starter = subprocess.Popen(
        [sys.executable, "-m", "sparsemble", "search", "long.toml", "--jobs=1", "--work=work"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: bool(list(tmp_path.glob("work/chain-*/stage.json"))))
    finally:
        starter.kill()
        starter.wait()
    (chain,) = tmp_path.glob("work/chain-*")
    wait_until(lambda: is_free(chain))
    assert (chain / "0000" / "checkpoint.safetensors").exists()
