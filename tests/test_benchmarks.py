"""Benchmarks are run by hand: at least what they measure must still be there."""

from __future__ import annotations

import deployed
import lstm
import pytest
import search_beside_grid
import timing
import torch
import traced
from feedforward_networks import Structure
from language_networks import dense
from traced_networks import pictures, sequences

import serving
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


@pytest.mark.parametrize(
    "network",
    [sequences("words", 5, 8, 1), pictures("pictures", 4, [4], 1)],
    ids=lambda network: network.name,
)
@pytest.mark.thorough
def test_what_is_measured_of_traced_networks_can_be_called(network, monkeypatch):
    monkeypatch.setattr(timing, "measures", [])
    monkeypatch.setattr(traced, "BATCHES", (2,))
    monkeypatch.setattr(traced, "MEMBERS", 2)
    monkeypatch.setattr(traced, "alternate", lambda calls, **_: _each_called_once(calls))
    traced.tracing(network.name, [(network.make(), network.inputs(3))])
    traced.compact_member(network)
    traced.training_steps(network)
    traced.at_once(network)
    assert len(timing.measures) == 6
    assert len(traced.small_networks()) == 12


@pytest.mark.slow
def test_what_is_measured_of_deployed_ensembles_can_be_called(monkeypatch):
    monkeypatch.setattr(timing, "measures", [])
    monkeypatch.setattr(deployed, "BATCHES", ((2, 1, 1),))
    monkeypatch.setattr(deployed, "THREADS", (1,))
    deployed.predicting("2 of few", 2, Structure((8, 6, 5, 3), (5, 4, 3, 3), 20))
    assert [measure.label[:20] for measure in timing.measures] == ["ONNX Runtime, 2, 2 o"]


def test_the_hypervolume_is_the_area_behind_a_front():
    front = [(0.5, 0.5), (0.25, 0.75), (2.0, 0.1), (0.6, 0.9)]
    found = search_beside_grid.hypervolume(front)
    cells = [(x + 0.5, y + 0.5) for x in range(100) for y in range(100)]
    behind = [any(100 * a < x and 100 * b < y for a, b in front) for x, y in cells]
    assert found == pytest.approx(sum(behind) / len(cells))


def test_the_grid_has_as_many_points_as_the_search_has_trials_in_the_same_ranges():
    grid, space = search_beside_grid.grid(0), search_beside_grid.space(0)
    assert len(list(grid.points())) == space.trials
    for key in search_beside_grid.RANGES:
        limits = space.space[key]
        assert all(limits.low < value < limits.high for value in grid.grid[key])
    space.check()


@pytest.mark.thorough
def test_what_is_measured_of_a_service_can_be_asked(monkeypatch, capsys):
    monkeypatch.setattr(timing, "measures", [])
    for name, few in (("CLIENTS", 4), ("REQUESTS", 20), ("ROWS", (2,)), ("_DIRECT", 2)):
        monkeypatch.setattr(serving, name, few)
    serving.measure()
    assert len(timing.measures) == 2
    assert "20 requests of 2 rows from 4 clients" in capsys.readouterr().out


def _each_called_once(calls):
    for call in calls.values():
        call()
    return dict.fromkeys(calls, (1.0, 1))
