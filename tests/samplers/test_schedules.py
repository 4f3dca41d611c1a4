"""Schedules are pure functions of the time in epochs; their values are written out."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from sparsemble.errors import InputError
from sparsemble.samplers import Constant, Cyclical, Exponential, Polynomial, Schedule, Step
from sparsemble.samplers.schedules import schedule_of
from sparsemble.stages import RetrainSettings


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        pytest.param(Constant(lr=0.5), {0: 0.5, 0.25: 0.5, 99: 0.5}, id="constant"),
        pytest.param(
            Polynomial(lr=0.4, delay=3.0, power=1.0),
            {0: 0.4, 3: 0.2, 9: 0.1, 4.5: 0.16},
            id="polynomial, inverse",
        ),
        pytest.param(
            Polynomial(lr=1.0),
            {0: 1.0, 1: 2**-0.55, 2.5: 3.5**-0.55, 99: 100**-0.55},
            id="polynomial, Welling and Teh's power by default",
        ),
        pytest.param(
            Cyclical(lr=0.8, period=4),
            {0: 0.8, 2: 0.4, 4: 0.8, 6: 0.4, 1: 0.4 * (1 + math.sqrt(0.5)), 8: 0.8},
            id="cyclical",
        ),
        pytest.param(
            Cyclical(lr=1.0, period=3, floor=0.1),
            {0: 1.0, 1.5: 0.55, 1: 0.775, 2: 0.325, 3: 1.0, 4.5: 0.55},
            id="cyclical with a floor",
        ),
        pytest.param(
            Cyclical(lr=0.8, period=2, growth=2),
            {0: 0.8, 1: 0.4, 2: 0.8, 4: 0.4, 6: 0.8, 10: 0.4, 14: 0.8},
            id="cyclical with growing cycles",
        ),
        pytest.param(
            Step(lr=1.0, factor=4.0, every=3),
            {0: 1.0, 2: 1.0, 2.99: 1.0, 3: 0.25, 5.5: 0.25, 6: 0.0625},
            id="step",
        ),
        pytest.param(
            Step(lr=0.2), {9.9: 0.2, 10: 0.1, 25: 0.05}, id="step, halved every 10 by default"
        ),
        pytest.param(
            Exponential(lr=0.01, factor=1.25),
            {0: 0.01, 0.9: 0.01, 1: 0.008, 2: 0.0064, 3.5: 0.00512},
            id="exponential",
        ),
    ],
)
def test_a_schedule_has_these_rates_at_these_epochs(schedule, values):
    assert {epoch: schedule(epoch) for epoch in values} == pytest.approx(values)


def test_retraining_as_in_the_paper_ends_near_a_fourteenth_of_the_first_rate():
    # MNIST: 20 epochs from 0.01, divided by 1.15 after each: 1.15¹⁹ = 14.232
    assert Exponential(lr=0.01, factor=1.15)(19.999) == pytest.approx(0.01 / 14.23177, rel=1e-6)


def test_a_cycle_never_falls_below_its_floor_nor_rises_above_its_rate():
    schedule = Cyclical(lr=0.5, period=7, floor=0.2)
    rates = [schedule(step / 10) for step in range(211)]
    assert max(rates) == 0.5
    assert min(rates) >= 0.1
    assert min(rates) < 0.101


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        (Constant, {"lr": 0.0}, "lr = 0.0"),
        (Constant, {"lr": -1.0}, "lr = -1.0"),
        (Constant, {"lr": math.nan}, "lr = nan"),
        (Constant, {"lr": math.inf}, "lr = inf"),
        (Constant, {"lr": "fast"}, "lr = 'fast'"),
        (Constant, {}, "missing setting 'lr'"),
        (Constant, {"lr": 0.1, "lrr": 1}, "unknown setting 'lrr'; did you mean 'lr'"),
        (Polynomial, {"lr": 0.1, "delay": 0.0}, "delay = 0.0"),
        (Polynomial, {"lr": 0.1, "power": 0.5}, "power = 0.5"),
        (Polynomial, {"lr": 0.1, "power": 1.5}, "power = 1.5"),
        (Cyclical, {"lr": 0.1}, "missing setting 'period'"),
        (Cyclical, {"lr": 0.1, "period": 0}, "period = 0"),
        (Cyclical, {"lr": 0.1, "period": math.nan}, "period = nan"),
        (Cyclical, {"lr": 0.1, "period": 5, "growth": 0.5}, "growth = 0.5"),
        (Cyclical, {"lr": 0.1, "period": 5, "floor": 1.0}, "floor = 1.0"),
        (Cyclical, {"lr": 0.1, "period": 5, "floor": -0.1}, "floor = -0.1"),
        (Step, {"lr": 0.1, "factor": 0.5}, "factor = 0.5"),
        (Step, {"lr": 0.1, "every": 0}, "every = 0"),
        (Step, {"lr": 0.1, "every": 1.5}, "every = 1.5"),
        (Exponential, {"lr": 0.1}, "missing setting 'factor'"),
        (Exponential, {"lr": 0.1, "factor": 0.9}, "factor = 0.9"),
        (Exponential, {"lr": 0.1, "factor": math.inf}, "factor = inf"),
    ],
)
def test_an_impossible_schedule_is_refused_with_the_value_named(kind, fields, named):
    with pytest.raises(InputError, match=named):
        kind(**fields)


def test_a_schedule_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Constant(lr=0.1).lr = 0.2


class Given(Schedule):
    """Whatever it is told, however little it is a rate."""

    rate: Any

    def __call__(self, epoch):
        return self.rate


@pytest.mark.parametrize(
    "rate", [None, "fast", math.nan, math.inf, -0.1, 1j, [0.1], torch.tensor([0.1, 0.2])], ids=repr
)
def test_what_is_no_rate_is_refused_with_the_schedule_the_value_and_the_time(rate):
    def careless(epoch):
        return rate

    for schedule, name in ((Given(rate=rate), "Given"), (schedule_of(careless), r".*careless")):
        with pytest.raises(InputError, match=f"the schedule {name} gives ") as told:
            schedule(2.5)
        assert f"gives {rate!r} at epoch 2.5: the learning rate must be" in str(told.value)


@pytest.mark.parametrize("rate", [0, 0.5, np.float32(0.5), torch.tensor(0.5)], ids=repr)
def test_any_number_is_a_rate(rate):
    found = Given(rate=rate)(1)
    assert (type(found), found) == (float, float(rate))


def test_a_schedule_that_cannot_begin_is_refused_where_it_is_set():
    with pytest.raises(InputError, match=r"^schedule: the schedule Given gives None at epoch 0"):
        RetrainSettings(schedule=Given(rate=None), epochs=1)


def test_a_function_that_fails_at_once_is_refused_where_it_is_set():
    def broken(epoch):
        return epoch.seek(0)

    with pytest.raises(InputError, match=r"broken fails at epoch 0: AttributeError: 'int' object"):
        RetrainSettings(schedule=schedule_of(broken), epochs=1)
