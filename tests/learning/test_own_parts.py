"""Parts of the user's own, given from Python: as good as the library's, also when a run resumes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch

import sparsemble
from small_runs import KillAt, Killed, network, predictions, recipe
from sparsemble.errors import InputError
from sparsemble.priors.prior import ElementwisePrior
from sparsemble.runs import RunFolder
from sparsemble.samplers import Sampler, SamplerSettings, SGLDSettings
from sparsemble.stages import ChainSettings, RetrainSettings
from sparsemble.structure import Family, Layout, Role

pytestmark = pytest.mark.slow


class Cubic(ElementwisePrior):
    """`p(θ) ∝ exp(−rate·Σ|θ|³)`: no prior of the library."""

    @staticmethod
    def term(weight):
        return weight.abs().pow(3).sum()

    @staticmethod
    def slopes(weights):
        return [3 * weight * weight.abs() for weight in weights]


class Averaging(Sampler):
    """SGLD along a running mean of the gradients: it has a state to be kept."""

    def __init__(self, params, lr, *, memory=0.5, **how) -> None:
        super().__init__(params, lr, memory=memory, **how)

    def update(self, group, params, grads, source) -> None:
        means = self._buffers(params, "mean")
        torch._foreach_lerp_(means, grads, 1 - group["memory"])
        torch._foreach_add_(params, means, alpha=-group["lr"])
        torch._foreach_add_(params, source.draw(params), alpha=self.noise_scale(group))


class AveragingSettings(SamplerSettings):
    """`Averaging` in a recipe."""

    sampler: ClassVar[type[Sampler]] = Averaging
    memory: float = 0.5


def falling(epoch: float) -> float:
    """A schedule."""
    return 0.3 / (1 + 0.02 * epoch)


def hidden_rows(layout: Layout) -> tuple[Family, ...]:
    """A grouping: only the weights that compute a hidden unit."""
    hidden = layout.spaces[1].name
    return (Family("rows", layout.slots_of(hidden, Role.PRODUCER)),)


def own_recipe(**changes):
    fields = {
        "prior": Cubic(penalty=1e-3),
        "grouping": hidden_rows,
        "chain": ChainSettings(
            sampler=AveragingSettings(temperature=0.01, memory=0.7),
            schedule=falling,
            batch_size=25,
            epochs=20,
            burn_in=8,
            interval=4,
        ),
        "retrain": RetrainSettings(schedule=falling, epochs=10, batch_size=25),
    }
    return recipe(**(fields | changes))


@pytest.fixture(scope="module")
def whole(arrays):
    return sparsemble.learn(network(), arrays, own_recipe())


def test_parts_of_ones_own_are_used(arrays, whole):
    assert whole.ensemble.evaluate(arrays)["error"] < 0.3
    rates = [record.lr for record in whole.history.epochs if record.stage == "chain"]
    assert rates[-1] == pytest.approx(falling(20 - 1 / 12))
    assert whole.ensemble[0].layout.grouping == f"{__name__}:hidden_rows"
    for other in (
        {"prior": Cubic(penalty=0.0)},
        {"chain": own_recipe().chain.model_copy(update={"sampler": SGLDSettings(temperature=0)})},
    ):
        assert not np.array_equal(
            predictions(sparsemble.learn(network(), arrays, own_recipe(**other)), arrays),
            predictions(whole, arrays),
        )


@pytest.mark.parametrize(
    "at", [("chain", 77), pytest.param(("chain", 150), marks=pytest.mark.thorough), ("retrain", 50)]
)
def test_a_run_with_parts_of_ones_own_resumes_to_the_same_bits(
    arrays, whole, tmp_path, monkeypatch, at
):
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, own_recipe(), folder=tmp_path, callback=KillAt(*at))
    resumed = sparsemble.learn(network(), arrays, own_recipe(), folder=tmp_path)
    assert np.array_equal(predictions(whole, arrays), predictions(resumed, arrays))
    saved = sparsemble.Ensemble.load(tmp_path)
    assert np.array_equal(predictions(whole, arrays), saved.predict_proba(arrays[0]))


def test_a_run_folder_tells_other_parts_of_ones_own_apart(arrays, tmp_path):
    sparsemble.learn(network(), arrays, own_recipe(), folder=tmp_path)
    for other, message in (
        ({"prior": Cubic(penalty=2e-3)}, "holds a run with another recipe"),
        ({"grouping": "outgoing"}, f"code of your own: .*{__name__}:hidden_rows"),
    ):
        with pytest.raises(InputError, match=message):
            sparsemble.learn(network(), arrays, own_recipe(**other), folder=tmp_path)


def test_a_run_folder_s_recipe_follows_code_only_if_it_is_named(arrays, tmp_path):
    chosen = own_recipe()
    sparsemble.learn(network(), arrays, chosen, folder=tmp_path)
    assert set(chosen.code) == {
        f"{__name__}:{name}" for name in ("Cubic", "AveragingSettings", "falling", "hidden_rows")
    }
    assert RunFolder(tmp_path, code=chosen.code).recipe() == chosen
    for missing in chosen.code:
        named = [path for path in chosen.code if path != missing]
        with pytest.raises(InputError, match=f"name it with --code {missing}"):
            RunFolder(tmp_path, code=named).recipe()


def test_what_could_not_be_found_again_is_refused_before_a_run_begins(arrays, tmp_path):
    inner = own_recipe(chain=own_recipe().chain.model_copy(update={"schedule": None}))
    chain = {**inner.chain.__dict__, "schedule": lambda epoch: 0.1}
    nameless = own_recipe(chain=ChainSettings(**chain))
    with pytest.raises(InputError, match="define it at the top of a module"):
        sparsemble.learn(network(), arrays, nameless, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    learned = sparsemble.learn(network(), arrays, nameless)  # without a folder it may be anything
    assert len(learned.ensemble) == 3


def giving_up(epoch):
    """A schedule that forgets to answer after an epoch."""
    return 0.1 if epoch <= 1 else None


def test_a_schedule_that_gives_no_rate_later_on_is_named(arrays):
    chain = {**own_recipe().chain.__dict__, "schedule": giving_up}
    with pytest.raises(InputError, match="the schedule giving_up gives None at epoch 1"):
        sparsemble.learn(network(), arrays, own_recipe(chain=ChainSettings(**chain)))
