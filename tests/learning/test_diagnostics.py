"""What a run says about its own chain."""

from __future__ import annotations

import math

import pytest
import torch

from small_runs import recipe
from sparsemble.learning.candidates import Candidate
from sparsemble.learning.diagnostics import Diversity, diagnose
from sparsemble.recipes import load_recipe
from sparsemble.stages import EpochRecord, History, PruneSettings, Rollback, SampleRecord, Shed

ALIKE = Diversity(0.0, "the members differ by 0", seen=False)
BUDGET = {"prune": PruneSettings(flops=1.0), "choose": True}


def trace(*potentials: float, noise: float = 1.0) -> History:
    return History(
        [
            EpochRecord("chain", 0, epoch, value, value, "loss", value, 0.1, noise, math.nan, 1.0)
            for epoch, value in enumerate(potentials, start=1)
        ]
    )


def falling(noise: float = 1.0) -> History:
    return trace(*(10.0 - 0.1 * epoch for epoch in range(60)), noise=noise)


def told(history: History, how=None, **known):
    return {f.question: f for f in diagnose(history, how or recipe(), **known)}


def test_noise_that_dominates_comes_with_a_temperature():
    # 40 times the gradient should be 3 times: T goes with the square.
    found = told(falling(noise=40.0))["noise"]
    assert found.text.endswith("it dominates; lower the temperature")
    assert found.options == "--set chain.sampler.temperature=5.6e-05"


def test_noise_that_vanishes_is_raised_to_the_posterior_at_most():
    assert told(falling(0.01))["noise"].options == "--set chain.sampler.temperature=1"
    at_one = load_recipe("digits", {"chain.sampler.temperature": 1.0})
    assert told(falling(0.01), at_one)["noise"].verdict == "neutral"


def test_a_longer_burn_in_keeps_the_number_of_samples():
    found = told(falling())["stationarity"]
    assert found.text.endswith("; lengthen the burn-in")
    assert found.options == "--set chain.burn_in=14 --set chain.epochs=26"


def test_a_healthy_chain_is_good():
    wobble = torch.randn(60, generator=torch.Generator().manual_seed(0))
    varied = Diversity(0.1, "they differ", seen=False)
    found = diagnose(trace(*(1 + 0.01 * wobble).tolist()), recipe(), diversity=varied)
    assert [finding.verdict for finding in found] == ["good", "good", "good"]


def test_a_drift_that_is_small_beside_the_whole_fall_is_none():
    found = told(
        trace(*(100.0 - 10 * epoch for epoch in range(9)), *(1 - 0.001 * e for e in range(40)))
    )
    assert found["stationarity"].verdict == "good"


@pytest.mark.parametrize(
    ("history", "options"),
    [
        (trace(*[2.3] * 30, noise=100.0), "--set chain.sampler.temperature=9e-06"),
        (trace(*(2.3 - 1e-3 * e for e in range(30))), "--set chain.schedule.lr=3"),
        (trace(*[2.3, 2.35] * 15), "--set chain.schedule.lr=0.03"),
    ],
)
def test_a_chain_that_learned_nothing_is_told_why_and_nothing_else(history, options):
    (found,) = diagnose(history, recipe(), diversity=ALIKE, guess=2.3)
    assert (found.question, found.options) == ("learning", options)


def test_retraining_that_diverged_has_its_own_rate():
    history = falling()
    history.rollbacks.append(Rollback("retrain", 0, 5, "loss", 0, 0, 0.8))
    assert told(history)["divergence"].options == "--set retrain.schedule.lr=0.15"


def test_what_left_the_chain_is_told_with_what_it_saved():
    history = trace(*[1.0] * 60)
    whole = {"inputs": 64, "hidden1": 30}
    for epoch, left, flops in ((5, 28, 0.9), (9, 21, 0.7)):
        gone = {"inputs": 0, "hidden1": 30 - left}
        now = whole | {"hidden1": left}
        history.add(Shed("chain", 0, 7 * epoch, epoch, gone, now, whole, flops))
    found = told(history)["size"]
    assert found.figure == 0.7
    assert found.text == (
        "units that the prior held at zero left the chain, from epoch 5 on (hidden1 30 → 21): a "
        "step took 0.70 of its FLOPs in the end"
    )
    history.add(Rollback("chain", 0, 65, "loss", 56, 8, 0.8))
    assert told(history)["size"].figure == 0.9


def test_members_of_one_chain_that_are_alike_get_more_chains():
    assert told(History(), diversity=ALIKE)["diversity"].options == (
        "--set chain.chains=2 --set chain.epochs=16"
    )
    seen = Diversity(0.0, "alike", seen=True)
    assert "only validation data could tell" in told(History(), diversity=seen)["diversity"].text


def test_what_validation_data_chose_is_no_defect():
    one = Candidate(1, False, 0.1, 1.0, 1.0)
    found = told(falling(), recipe(**BUDGET), diversity=ALIKE, chosen=one)
    assert {finding.verdict for finding in found.values()} <= {"neutral", "good"}
    assert "no defect" in found["stationarity"].text
    assert found["choice"].text == "validation data chose one averaged network, not retrained"
    assert "little more than one averaged network" in found["diversity"].text


def test_a_chosen_chain_is_lengthened_only_if_it_was_still_getting_better():
    def of(*figures):
        samples = [
            SampleRecord("chain", 0, step, step, "error", "validation", figure, figure)
            for step, figure in enumerate(figures, start=1)
        ]
        return told(History(samples=samples), recipe(**BUDGET))

    assert of(0.5, 0.4, 0.3, 0.2)["length"].options == "--set chain.epochs=30"
    assert "length" not in of(0.5, 0.2, 0.3, 0.4)


def test_settings_that_trials_found_are_not_to_be_set():
    base = recipe(**BUDGET)
    found = base.model_copy(update={"chain": base.chain.model_copy(update={"patience": 4})})
    assert not any(f.changes for f in diagnose(falling(noise=100.0), found, diversity=ALIKE))
