"""A chain without the units that the prior has taken to zero: equal outputs, equal bits."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from scenarios import WORDS, Skip, mlp, model, skip_layout
from sparsemble.data import ArrayBatches, TextBatches, as_dataset
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, with_units
from sparsemble.priors import GroupSparse, NoPrior
from sparsemble.samplers import SGHMC, Constant, PSGLDSettings, SGHMCSettings, SGLDSettings
from sparsemble.stages import (
    Callback,
    ChainSettings,
    ChainState,
    DivergenceSettings,
    Sample,
    Shed,
    draw_samples,
)
from sparsemble.stages.pruning import PruneSettings, masks_of
from sparsemble.stages.samples import mean_of
from sparsemble.stages.shedding import Shedding
from sparsemble.structure import Layout, survivors
from sparsemble.tasks import Classification, LanguageModelling

# --- one cut, by itself ------------------------------------------------------------------------


def cut_once(
    network: nn.Module, layout: Layout, at_zero: Mapping[str, Tensor], *, means: bool = False
) -> tuple[ChainState, Member] | None:
    """The state of a chain after some groups have been at zero for one epoch, and its network."""
    whole = Member.dense(network, layout)
    shedding = Shedding(whole, lambda member: member, after=1)  # type: ignore[arg-type,return-value]
    shedding.count(at_zero)
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    tensors = {f"parameter/{name}": tensor for name, tensor in parameters.items()}
    for number, (name, tensor) in enumerate(parameters.items()):
        tensors[f"sampler/{number}/velocity"] = 3 * tensor
        tensors[f"sampler/{number}/steps"] = torch.ones(1)
        if means:
            tensors[f"mean/{number}"] = 2 * parameters[name]
    smaller = shedding.smaller(ChainState(tensors, {"step": 7}), list(parameters))
    if smaller is None:
        return None
    shedding.restore(smaller.part("shedding"))
    units = shedding.member.origin.units
    return smaller, with_units(network, layout, smaller.part("parameter"), units)


def groups_at_zero(layout: Layout, share: float, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for family in layout.families:
        size = layout.space(family.space).size
        found[family.name] = torch.rand(size, generator=generator) < share
        found[family.name][0] = False
    return found


def emptied(network: nn.Module, layout: Layout, groups: Mapping[str, Tensor]) -> nn.Module:
    """The network with some groups at exactly zero."""
    network = copy.deepcopy(network)
    parameters = dict(network.named_parameters())
    with torch.no_grad():
        for family in layout.families:
            for slot in family.slots:
                size = layout.space(slot.space).size
                own = slot.part.of(parameters[slot.parameter])
                own.index_fill_(slot.dim, slot.indices(size)[groups[family.name]].flatten(), 0)
    return network


NETWORKS = {
    "feed-forward, relu": lambda: mlp(6, 9, 7, 3),
    "feed-forward, sigmoid": lambda: mlp(6, 9, 7, 3, activation=nn.Sigmoid),
    "language model": lambda: model(8, 6),
    "language model, shared": lambda: model(8, 4, shared=True),
}
GROUPINGS = [
    *(("feed-forward, relu", grouping) for grouping in ("outgoing", "incoming", "iss")),
    *(("feed-forward, sigmoid", grouping) for grouping in ("outgoing", "incoming", "iss")),
    *(("language model", grouping) for grouping in ("untied", "tied", "iss", "outgoing")),
    *(("language model, shared", grouping) for grouping in ("untied", "tied", "iss")),
]


@pytest.mark.parametrize(("kind", "grouping"), GROUPINGS)
@pytest.mark.parametrize("seed", range(4))
def test_outputs_are_equal_before_and_after_units_have_gone(kind, grouping, seed):
    torch.manual_seed(seed)
    network = NETWORKS[kind]()
    layout = layout_of(network, grouping)
    # Rows and columns of every matrix must all be at zero before a unit can go.
    groups = groups_at_zero(layout, 0.9 if grouping in ("untied", "tied") else 0.4, seed)
    network = emptied(network, layout, groups)
    found = cut_once(network, layout, groups)
    kept = survivors(layout, dict(network.named_parameters())).kept
    assert found is not None
    smaller, member = found
    assert {name: units.tolist() for name, units in member.origin.units.items()} == {
        name: units.tolist() for name, units in kept.items()
    }
    inputs = torch.randint(0, 7, (9, 5)) if "language" in kind else torch.randn(20, 6).double()
    with torch.no_grad():
        before, after = network(inputs), member(inputs)
    if "language" in kind:
        before, after = before[0], after[0]
    torch.testing.assert_close(after, before, rtol=1e-10, atol=1e-10)
    assert member.cost.flops < Member.dense(network, layout).cost.flops
    for number, (name, parameter) in enumerate(member.network.named_parameters()):
        velocity = smaller.tensors[f"sampler/{number}/velocity"]
        assert velocity.shape == parameter.shape
        if "bias" not in name:
            torch.testing.assert_close(velocity, 3 * parameter.detach())
        assert torch.equal(smaller.tensors[f"sampler/{number}/steps"], torch.ones(1))


@pytest.mark.parametrize("grouping", ["outgoing", "incoming", "iss"])
def test_units_go_in_every_grouping_in_which_they_can(grouping):
    torch.manual_seed(0)
    network = mlp(6, 9, 7, 3)
    layout = layout_of(network, grouping)
    groups = groups_at_zero(layout, 0.4, seed=0)
    found = cut_once(emptied(network, layout, groups), layout, groups)
    assert found is not None
    gone = {s.name: s.size - found[1].layout.space(s.name).size for s in layout.spaces}
    assert all(gone[f.space] == int(groups[f.name].sum()) for f in layout.families)


def test_groups_keep_the_dimension_they_had():
    network = mlp(6, 9, 7, 3)
    layout = layout_of(network, "iss")
    groups = groups_at_zero(layout, 0.5, seed=1)
    found = cut_once(emptied(network, layout, groups), layout, groups)
    assert found is not None
    sizes = found[1].origin.group_sizes
    assert sizes == Member.dense(network, layout).origin.group_sizes
    prior = GroupSparse(penalty=1.0)
    before = prior.bind(layout, dict(emptied(network, layout, groups).named_parameters()))
    after = prior.bind(found[1].layout, dict(found[1].network.named_parameters()), sizes=sizes)
    torch.testing.assert_close(after.value(), before.value())


def test_a_mean_loses_the_same_units_and_keeps_what_they_emit():
    """A unit that computes nothing of its inputs goes into the biases, in the mean by its own."""
    network = mlp(4, 5, 2, activation=nn.Sigmoid)
    layout = layout_of(network, "incoming")
    at_zero = {"incoming hidden1": torch.tensor([False, True, False, True, False])}
    assert set(at_zero) == {family.name for family in layout.families}
    network = emptied(network, layout, at_zero)
    found = cut_once(network, layout, at_zero, means=True)
    assert found is not None
    mean = {
        name: found[0].tensors[f"mean/{number}"]
        for number, name in enumerate(dict(network.named_parameters()))
    }
    whole = copy.deepcopy(network)
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.mul_(2)
        inputs = torch.randn(7, 4).double()
        smaller = with_units(network, layout, mean, found[1].origin.units)
        torch.testing.assert_close(smaller(inputs), whole(inputs), rtol=1e-10, atol=1e-10)


def test_a_layer_of_which_nothing_would_be_left_stays():
    network = mlp(4, 5, 2)
    layout = layout_of(network, "outgoing")
    everything = {
        family.name: torch.ones(layout.space(family.space).size, dtype=torch.bool)
        for family in layout.families
    }
    assert cut_once(emptied(network, layout, everything), layout, everything) is None


# --- whole chains ------------------------------------------------------------------------------

TASK = Classification(num_classes=2)
INPUTS = 12


def make_network(dropout: float = 0.2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(INPUTS, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(120, INPUTS, generator=generator)
    return ArrayBatches(as_dataset(inputs, (inputs[:, 0] > 0).long()), 20, seed=5)


def settings(**changes) -> ChainSettings:
    fields = {
        "sampler": SGLDSettings(temperature=1e-3),
        "schedule": Constant(lr=0.3),
        "epochs": 24,
        "burn_in": 8,
        "interval": 4,
        "every": 2,
        "average_every": 1,
        "prior_step": "proximal",
        "shed_after": 2,
    }
    return ChainSettings(**(fields | changes))


def run(batches, chosen: ChainSettings, *, penalty: float = 2e-2, **how) -> list[Sample]:
    return draw_samples(
        make_network,
        layout_of(make_network(), "outgoing"),
        TASK,
        batches,
        GroupSparse(penalty=penalty),
        chosen,
        **how,
    )


class Log(Callback):
    """What has gone, and the epochs' records."""

    def __init__(self) -> None:
        self.sheds: list[Shed] = []
        self.epochs = []

    def shed(self, shed: Shed) -> None:
        self.sheds.append(shed)

    def epoch_ended(self, record) -> None:
        self.epochs.append(record)


def test_a_chain_sheds_what_the_prior_takes_to_zero_and_tells(batches):
    log = Log()
    samples = run(batches, settings(), callback=log)
    assert len(log.sheds) > 1
    sizes = [sum(shed.left.values()) for shed in log.sheds]
    assert sizes == sorted(sizes, reverse=True)
    shares = [shed.flops for shed in log.sheds]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.7
    for before, after in zip(log.sheds, log.sheds[1:], strict=False):
        assert {k: before.left[k] - after.gone[k] for k in after.left} == after.left
    last = samples[-1]
    assert {name: len(units) for name, units in last.units.items()} == log.sheds[-1].left
    assert last.parameters["0.weight"].shape == (
        len(last.units["hidden1"]),
        len(last.units["inputs"]),
    )
    assert 0 in last.units["inputs"]  # the one that tells the class
    widths = [sample.parameters["0.weight"].numel() for sample in samples]
    assert widths == sorted(widths, reverse=True)


def test_an_epoch_costs_what_the_network_has_left(batches):
    log = Log()
    run(batches, settings(), callback=log)
    assert log.sheds
    whole = Member.dense(make_network(), layout_of(make_network())).cost.flops
    for record in log.epochs:
        before = [shed.flops for shed in log.sheds if shed.epoch < record.epoch]
        share = before[-1] if before else 1.0
        assert record.flops == pytest.approx(3 * 120 * share * whole)


def test_what_has_gone_still_counts_among_the_groups_at_zero(batches):
    log = Log()
    run(batches, settings(), callback=log)
    shares = [record.near_zero_groups for record in log.epochs]
    groups = INPUTS + 16
    assert log.sheds
    for shed in log.sheds:
        gone = sum(shed.of.values()) - sum(shed.left.values())
        assert shares[shed.step // batches.steps] >= gone / groups  # of the epoch after


def test_without_the_setting_nothing_goes_and_without_groups_nothing_can(batches):
    log = Log()
    samples = run(batches, settings(shed_after=None), callback=log)
    assert not any(sample.units for sample in samples)
    free = draw_samples(
        make_network, layout_of(make_network()), TASK, batches, NoPrior(), settings(), callback=log
    )
    assert not any(sample.units for sample in free)
    assert not log.sheds


@pytest.mark.parametrize(("temperature", "penalty"), [(1e-3, 1e-4), (1.0, 2e-2)])
def test_a_prior_too_weak_for_its_noise_takes_nothing_out(batches, temperature, penalty):
    """Nearly all groups then lie within the near-zero width, which says nothing about them."""
    log = Log()
    chosen = settings(sampler=SGLDSettings(temperature=temperature), epochs=12, shed_after=3)
    may = run(batches, chosen, penalty=penalty, callback=log)
    assert not log.sheds
    assert max(record.near_zero_groups for record in log.epochs) > 0.4
    may_not = run(batches, chosen.model_copy(update={"shed_after": None}), penalty=penalty)
    for left, right in zip(may, may_not, strict=True):
        assert all(map(torch.equal, left.parameters.values(), right.parameters.values()))


class Stop(Exception):
    pass


class StopAfter(Log):
    """Stops a chain after a step, or in the middle of shedding, with its last checkpoint."""

    def __init__(self, step: int | None = None, *, shed: int | None = None, every: int = 1) -> None:
        super().__init__()
        self.step, self.number, self.every = step, shed, every
        self.state: ChainState | None = None
        self.collected: list[Sample] = []

    def stepped(self, chain, step, loss, save):
        if step % self.every == 0:
            self.state = save()
        if step == self.step:
            raise Stop

    def sampled(self, sample, save):
        self.collected.append(sample)

    def shed(self, shed):
        super().shed(shed)
        if len(self.sheds) == self.number:
            raise Stop


def assert_same(left: Sequence[Sample], right: Sequence[Sample]) -> None:
    assert [(s.chain, s.step) for s in left] == [(s.chain, s.step) for s in right]
    for one, other in zip(left, right, strict=True):
        assert set(one.units) == set(other.units)
        assert all(torch.equal(one.units[name], other.units[name]) for name in one.units)
        for name, tensor in one.parameters.items():
            assert torch.equal(tensor, other.parameters[name])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SGLDSettings, SGHMCSettings, PSGLDSettings])
@pytest.mark.parametrize(
    "stop",
    [
        *(29, 72, 131),
        *(pytest.param(n, marks=pytest.mark.thorough) for n in (36, 40, 71, 73, 95, 120)),
    ],
)
def test_a_chain_killed_anywhere_resumes_to_the_same_bits(batches, kind, stop):
    lr, penalty, step = {
        SGLDSettings: (0.1, 5e-2, "proximal"),
        SGHMCSettings: (0.1, 5e-3, "proximal"),
        PSGLDSettings: (0.001, 0.3, "gradient"),
    }[kind]
    chosen = settings(sampler=kind(temperature=1e-3), schedule=Constant(lr=lr), prior_step=step)
    log = Log()
    whole = run(batches, chosen, seed=3, penalty=penalty, callback=log)
    assert log.sheds
    killed = StopAfter(stop)
    with pytest.raises(Stop):
        run(batches, chosen, seed=3, penalty=penalty, callback=killed)
    known, state = killed.collected, killed.state
    again = run(batches, chosen, seed=3, penalty=penalty, collected=known, resume=state)
    assert_same(again, whole)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "every"), [(1, 5), (2, 1), (3, 5)])
def test_a_chain_killed_while_it_sheds_resumes_to_the_same_bits(batches, number, every):
    whole = run(batches, settings(), seed=3)
    killed = StopAfter(shed=number, every=every)
    with pytest.raises(Stop):
        run(batches, settings(), seed=3, callback=killed)
    known = [s for s in killed.collected if s.step <= killed.state.numbers["step"]]
    again = run(batches, settings(), seed=3, collected=known, resume=killed.state)
    assert_same(again, whole)


class Burst(ArrayBatches):
    """Batches of which one is poisoned the first time it comes."""

    def __init__(self, data, *how, poisoned: int, **more) -> None:
        super().__init__(data, *how, **more)
        self._poisoned = poisoned

    def epoch(self, number, start=0, variant=0):
        for offset, (inputs, targets) in enumerate(super().epoch(number, start, variant)):
            at = number * self.steps + start + offset
            is_bad = at == self._poisoned and not variant
            yield (inputs * float("nan") if is_bad else inputs, targets)


def test_a_chain_thrown_back_has_the_units_of_that_time_again(batches):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(120, INPUTS, generator=generator)
    data = as_dataset(inputs, (inputs[:, 0] > 0).long())
    log = Log()
    run(Burst(data, 20, seed=5, poisoned=10**6), settings(), callback=log)
    first = log.sheds[0]
    # Diverges in the epoch after the first cut, twice: the second time to a state from before it.
    poisoned = first.step + 2

    class Always(Burst):
        def epoch(self, number, start=0, variant=0):
            return super().epoch(number, start, 0 if variant < 2 else variant)

    log = Log()
    chosen = settings(divergence=DivergenceSettings(max_rollbacks=3))
    samples = run(Always(data, 20, seed=5, poisoned=poisoned), chosen, callback=log)
    again = [shed for shed in log.sheds if shed.step == first.step]
    assert len(again) == 2  # gone, back again with the earlier state, and gone once more
    last = samples[-1]
    assert {name: len(units) for name, units in last.units.items()} == log.sheds[-1].left


def test_a_checkpoint_of_other_units_is_refused(batches):
    killed = StopAfter(100)
    with pytest.raises(Stop):
        run(batches, settings(), callback=killed)
    for units in (torch.tensor([0, 99]), torch.tensor([3, 1]), torch.tensor([-1, 2])):
        tensors = {**killed.state.tensors, "shedding/units/inputs": units}
        state = ChainState(tensors, killed.state.numbers)
        with pytest.raises(CorruptFileError, match="checkpoint of chain 0"):
            run(batches, settings(), collected=killed.collected, resume=state)


class Grouped(SGHMC):
    """Biases and weights in groups of their own, in another order than the network's."""

    def __init__(self, params, lr, **how):
        biases_first = sorted(params, key=lambda tensor: tensor.ndim)
        super().__init__(biases_first[:2], lr, **how)
        self.add_param_group({"params": biases_first[2:]})


class GroupedSettings(SGHMCSettings):
    sampler: ClassVar = Grouped


class Counting(SGHMC):
    """Keeps a number for every row besides."""

    def update(self, group, params, grads, source):
        super().update(group, params, grads, source)
        for param in params:
            self.state[param]["rows"] = torch.zeros(len(param) + 1)


class CountingSettings(SGHMCSettings):
    sampler: ClassVar = Counting


def test_buffers_go_with_their_own_parameters_whatever_the_samplers_order(batches):
    log = Log()
    chosen = settings(sampler=GroupedSettings(temperature=1e-3), schedule=Constant(lr=0.1))
    whole = run(batches, chosen, seed=3, penalty=5e-3, callback=log)
    assert log.sheds
    killed = StopAfter(100)
    with pytest.raises(Stop):
        run(batches, chosen, seed=3, penalty=5e-3, callback=killed)
    how = {"collected": killed.collected, "resume": killed.state}
    assert_same(run(batches, chosen, seed=3, penalty=5e-3, **how), whole)


def test_a_sampler_that_keeps_what_cannot_be_cut_is_refused(batches):
    chosen = settings(sampler=CountingSettings(temperature=1e-3), schedule=Constant(lr=0.1))
    with pytest.raises(InputError, match=r"keeps 'rows' of shape .* leave chain\.shed_after out"):
        run(batches, chosen, seed=3, penalty=5e-3)


@pytest.mark.parametrize("collection", ["thinned", "backward"])
def test_iterates_are_as_small_as_the_chain_at_their_time(batches, collection):
    chosen = settings(collection=collection, samples=4, epochs=24)
    log = Log()
    samples = run(batches, chosen, callback=log)
    for sample in samples:
        before = [shed for shed in log.sheds if shed.step <= sample.step]
        assert {name: len(units) for name, units in sample.units.items()} == before[-1].left


def test_a_layout_without_groups_or_matrices_is_as_good_as_any(batches):
    layout = layout_of(make_network(), "outgoing")
    for own in (layout.ungrouped(), replace(layout, matrices=())):
        log = Log()
        samples = draw_samples(
            make_network, own, TASK, batches, GroupSparse(penalty=2e-2), settings(), callback=log
        )
        assert bool(samples[-1].units) == bool(log.sheds) == bool(own.families)


def test_an_emptied_branch_stays_whole_while_others_shed():
    network, layout = Skip(6, 5, 3), skip_layout(6, 5, 3)
    groups = {"inputs": torch.arange(6) % 2 == 0, "hidden": torch.ones(5) > 0}
    network = emptied(network, layout, groups)
    found = cut_once(network, layout, groups)
    assert found is not None
    assert found[1].layout.sizes == {"inputs": 3, "hidden": 5, "outputs": 3}
    inputs = torch.randn(20, 6).double()
    with torch.no_grad():
        torch.testing.assert_close(found[1](inputs), network(inputs), rtol=1e-10, atol=1e-10)


# --- language models ---------------------------------------------------------------------------


def text_run(grouping: str, chosen: ChainSettings, callback: Callback | None = None, **how):
    tokens = torch.tensor([0, 2, 3, 4, 5] * 30)

    def make():
        return model(10, 6, init_range=0.3).float()

    return draw_samples(
        make,
        layout_of(make(), grouping),
        LanguageModelling(words=WORDS, window=5),
        TextBatches(tokens, 4, 5),
        GroupSparse(penalty=1e-2),
        chosen,
        callback=callback,
        **how,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grouping", "lr"), [("iss", 0.5), pytest.param("tied", 0.5, marks=pytest.mark.thorough)]
)
def test_a_language_model_sheds_and_resumes_to_the_same_bits(grouping, lr):
    chosen = settings(schedule=Constant(lr=lr), clip=5.0)
    log = Log()
    whole = text_run(grouping, chosen, log)
    assert log.sheds[-1].flops < 1
    assert whole[-1].units
    stop = log.sheds[0].step + 3
    killed = StopAfter(stop)
    with pytest.raises(Stop):
        text_run(grouping, chosen, killed)
    assert_same(text_run(grouping, chosen, collected=killed.collected, resume=killed.state), whole)


def test_runs_begun_before_there_was_shedding_are_known_again():
    known = settings(shed_after=None).what_samples_depend_on()
    assert not {"shed_after", "chains"} & set(known)
    assert settings(shed_after=3).what_samples_depend_on() == {**known, "shed_after": 3}


# --- samples of different sizes ----------------------------------------------------------------


def test_the_mean_of_samples_has_the_units_of_the_last():
    network = mlp(3, 4, 2)
    layout = layout_of(network, "outgoing")
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    at_zero = {f.name: torch.zeros(layout.space(f.space).size) > 0 for f in layout.families}
    at_zero["outgoing hidden1"][2] = True
    empty = emptied(network, layout, at_zero)
    found = cut_once(empty, layout, at_zero)
    assert found is not None
    state, member = found
    later = Sample(0, 2, state.part("parameter"), member.origin.units)
    mean = mean_of([Sample(0, 1, dict(empty.named_parameters())), later], layout, network)
    assert mean.units["hidden1"].tolist() == [0, 1, 3]
    inputs = torch.randn(5, 3).double()
    small = with_units(network, layout, mean.parameters, mean.units)
    with torch.no_grad():
        torch.testing.assert_close(small(inputs), empty(inputs), rtol=1e-10, atol=1e-10)
    with pytest.raises(InputError, match="not of one chain"):
        mean_of([later, Sample(0, 3, parameters)], layout, network)


@pytest.mark.parametrize("scope", ["global", "layer"])
def test_what_has_gone_counts_as_pruned(scope):
    network = mlp(6, 10, 8, 3)
    layout = layout_of(network, "outgoing")
    at_zero = {f.name: torch.zeros(layout.space(f.space).size) > 0 for f in layout.families}
    at_zero["outgoing inputs"][:3] = True
    found = cut_once(emptied(network, layout, at_zero), layout, at_zero)
    assert found is not None
    masks = masks_of(found[1], PruneSettings(sparsity=0.8, scope=scope))
    kept = {name: int(mask.sum()) for name, mask in masks.items()}
    assert sum(kept.values()) == pytest.approx(0.2 * (60 + 80 + 24), abs=2)
    if scope == "layer":
        assert kept == {"0.weight": 12, "2.weight": 16, "4.weight": 5}


def test_units_that_are_none_are_refused():
    network = mlp(3, 4, 2)
    layout = layout_of(network)
    whole = {space.name: torch.arange(space.size) for space in layout.spaces}
    parameters = dict(network.named_parameters())
    with pytest.raises(InputError, match="units of inputs: the network has inputs, hidden1"):
        with_units(network, layout, parameters, {"inputs": whole["inputs"]})
    with pytest.raises(InputError, match="are no units of 'hidden1', of 4"):
        with_units(network, layout, parameters, whole | {"hidden1": torch.tensor([1, 9])})


def test_a_proximal_step_that_takes_groups_to_zero_for_an_instant_takes_nothing_out():
    network = mlp(4, 6, 3)
    layout = layout_of(network)
    at_zero = {family.name: torch.zeros(0) for family in layout.families}
    for family in layout.families:
        at_zero[family.name] = torch.zeros(layout.space(family.space).size, dtype=torch.bool)
    long_ago = {name: own.clone() for name, own in at_zero.items()}
    long_ago["outgoing hidden1"][0] = True
    now = {name: own.clone() for name, own in long_ago.items()}
    now["outgoing hidden1"][1] = True
    network = emptied(network, layout, now)
    shedding = Shedding(Member.dense(network, layout), None, after=3)
    for idle in (long_ago, long_ago, now):
        assert not shedding.is_due
        shedding.count(idle)
    assert shedding.is_due
    parameters = {f"parameter/{name}": p.detach() for name, p in network.named_parameters()}
    smaller = shedding.smaller(ChainState(parameters, {}), [])
    assert smaller is not None
    assert smaller.tensors["shedding/units/hidden1"].tolist() == [1, 2, 3, 4, 5]


def test_groups_that_could_not_go_are_not_looked_at_again():
    network = model(8, 6)
    layout = layout_of(network, "untied")
    some = {f.name: torch.zeros(layout.space(f.space).size, dtype=bool) for f in layout.families}
    some[layout.families[0].name][0] = True
    shedding = Shedding(Member.dense(network, layout), None, after=2)
    due = []
    for _ in range(4):
        shedding.count(some)
        due.append(shedding.is_due)
    assert due == [False, True, False, False]
