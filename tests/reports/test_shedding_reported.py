"""The report of a run whose chain got smaller on its way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from scenarios import CLASSES
from sparsemble.errors import CorruptFileError
from sparsemble.recipes import load_recipe
from sparsemble.reports import collect, write_report
from sparsemble.reports.measures.patterns import member_pictures
from sparsemble.reports.measures.spreads import sample_spreads
from sparsemble.reports.opening import FinishedRun, open_run
from sparsemble.results.running import run_recipe
from sparsemble.store import read_tensors, write_tensors

SHEDDING = {
    **CLASSES,
    "chain.shed_after": 1,
    "chain.prior_step": "proximal",
    "chain.collection": "means",
    "prune.sparsity": 0.8,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shed") / "run"
    run_recipe(load_recipe("digits", SHEDDING), folder)
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> FinishedRun:
    return open_run(folder)


def test_samples_come_back_with_the_units_they_had(run):
    sheds = run.folder.chain.history().sheds
    assert sheds
    for sample in run.samples():
        before = [shed for shed in sheds if shed.step <= sample.step]
        member = run.fitted.dense(sample)
        sizes = {space.name: space.size for space in member.layout.spaces}
        assert sizes == (before[-1].left if before else sheds[0].of)


def test_what_has_gone_counts_as_at_zero_and_is_drawn_as_such(run):
    last = run.sample(len(run.sample_files) - 1)
    spreads = sample_spreads(run)
    gone = {
        space.name: space.size - len(last.units[space.name])
        for space in run.layout.spaces
        if last.units
    }
    assert gone["inputs"] > 0
    inputs = next(family for family in spreads.families if "inputs" in family.name)
    assert inputs.groups == 64
    assert inputs.near_zero >= gone["inputs"]
    for pictures in member_pictures(run):
        assert pictures[0].shape == (30, 64)


def test_the_mean_network_has_the_units_of_the_last_sample(run):
    mean = run.mean_network()
    last = run.sample(len(run.sample_files) - 1)
    assert {name: len(units) for name, units in last.units.items()} == {
        space.name: space.size for space in mean.layout.spaces
    }


def test_the_page_tells_when_units_went_and_what_an_epoch_took(folder):
    write_report(folder)
    page = (folder / "report.html").read_text()
    assert "Units that the prior held at zero left the chain" in page
    assert "FLOPs of an epoch" in page
    assert "Seconds of an epoch" in page
    assert "saved by shedding" in page
    training = collect(folder).training
    chain = next(stage for stage in training.stages if stage.stage == "chain")
    assert training.shed > 0
    # The chain has as many epochs as the dense network beside it.
    assert training.shed + chain.flops == pytest.approx(training.dense.flops)


def test_a_sample_whose_units_were_changed_is_refused(folder, run):
    file = run.sample_files[-1]
    kept = file.read_bytes()
    try:
        tensors, note = read_tensors(file)
        tensors["units/inputs"] = torch.arange(3)
        write_tensors(file, tensors, note)
        with pytest.raises(CorruptFileError, match="not the sample that its name"):
            run.sample(len(run.sample_files) - 1)
    finally:
        file.write_bytes(kept)
