"""Benchmarks are run by hand: at least what they measure must still be there."""

from __future__ import annotations

import deployed
import lstm
import timing
import torch
import traced
from feedforward_networks import Structure
from language_networks import dense
from traced_networks import pictures, sequences

from sparsemble.layouts import layout_of
from sparsemble.members import Member


def test_the_chain_that_is_measured_takes_steps_and_the_products_multiply():
    network = dense(4, dropout=0.3)
    for temperature in (1e-4, 0.0):
        member = Member.dense(network, layout_of(network))
        chain = lstm.chain_of(member, temperature=temperature, autocast=False)
        lstm.advancing(chain)()
        assert chain.step == lstm.STEPS
    lstm.products(4, torch.float32)()


def test_what_is_measured_of_traced_networks_can_be_called(monkeypatch):
    monkeypatch.setattr(timing, "measures", [])
    monkeypatch.setattr(traced, "BATCHES", (2,))
    monkeypatch.setattr(traced, "alternate", lambda calls, **_: _each_called_once(calls))
    for network in (pictures("pictures", 4, [4], 1), sequences("words", 5, 8, 1)):
        traced.tracing(network.name, [(network.make(), network.inputs(3))])
        traced.compact_member(network)
        traced.training_steps(network)
        traced.at_once(network)
    assert len(timing.measures) == 12
    assert len(traced.small_networks()) == 12


def test_what_is_measured_of_deployed_ensembles_can_be_called(monkeypatch):
    monkeypatch.setattr(timing, "measures", [])
    monkeypatch.setattr(deployed, "BATCHES", ((2, 1, 1),))
    deployed.predicting("2 of few", 2, Structure((8, 6, 5, 3), (5, 4, 3, 3), 20))
    assert [measure.label[:20] for measure in timing.measures] == ["ONNX Runtime, 2, 2 o"]


def _each_called_once(calls):
    for call in calls.values():
        call()
    return dict.fromkeys(calls, (1.0, 1))
