"""A member in a loop of one's own: what was pruned stays zero under any optimiser."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from own_loops import batches_of, blobs, run, sampled, small_network
from sparsemble import Classification, Collector, InputError, assemble, describe, retraining
from sparsemble.priors import GroupSparse
from sparsemble.samplers import SGHMC, SGLD, Constant
from sparsemble.stages import PruneSettings, RetrainSettings

DATA = blobs()
BATCHES = batches_of(DATA)
PRUNE = PruneSettings(sparsity=0.6)
PRIOR = GroupSparse(penalty=1e-3)
OPTIMIZERS = {
    "momentum": lambda own: torch.optim.SGD(own, lr=0.05, momentum=0.9, weight_decay=0.01),
    "AdamW": lambda own: torch.optim.AdamW(own, lr=0.01),
    "Rprop": lambda own: torch.optim.Rprop(own, lr=0.01),
    "SGLD": lambda own: SGLD(own, lr=0.05, num_data=96),
    "SGHMC": lambda own: SGHMC(own, lr=0.05, num_data=96),
}


@pytest.fixture(scope="module")
def collector() -> Collector:
    torch.manual_seed(0)
    return sampled(small_network(), BATCHES * 10, burn_in=20, interval=40)


def pruned_weights(member):
    own = dict(member.network.named_parameters())
    return torch.cat([own[name][~mask] for name, mask in member.masks.items()])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_pruned_weights_stay_zero_and_the_others_move(name, collector):
    (member,) = assemble(collector, DATA, prune=PRUNE)
    before = copy.deepcopy(member)
    optimizer = OPTIMIZERS[name](member.parameters())
    with retraining(member, optimizer, PRIOR):
        assert member.training
        run(member, optimizer, BATCHES)
    assert not member.training
    assert len(pruned_weights(member)) > 5
    assert bool((pruned_weights(member) == 0).all())
    for mine, theirs in zip(member.network.parameters(), before.network.parameters(), strict=True):
        assert not torch.equal(mine, theirs)


def test_it_would_not_be_so_without():
    torch.manual_seed(0)
    collector = sampled(small_network(), BATCHES * 10, burn_in=20, interval=40)
    (member,) = assemble(collector, DATA, prune=PRUNE)
    optimizer = torch.optim.AdamW(member.parameters(), lr=0.01)
    with retraining(member, optimizer):
        pass
    run(member, optimizer, BATCHES)  # the hooks have gone with the block
    assert bool((pruned_weights(member) != 0).any())


def test_gradients_of_pruned_weights_do_not_count_where_they_are_clipped(collector):
    (member,) = assemble(collector, DATA, prune=PRUNE)
    optimizer = torch.optim.SGD(member.parameters(), lr=0.1)
    inputs, targets = BATCHES[0]
    with retraining(member, optimizer):
        for _ in range(2):  # accumulated
            F.cross_entropy(member(inputs), targets).backward()
        own = dict(member.network.named_parameters())
        for name, mask in member.masks.items():
            assert bool((own[name].grad[~mask] == 0).all())
            assert bool((own[name].grad[mask] != 0).any())


def test_the_ensemble_predicts_by_what_its_members_have_become(collector):
    ensemble = assemble(collector, DATA, prune=PruneSettings(sparsity=0.8))
    before = ensemble.evaluate(DATA)["nll"]
    for member in ensemble:
        optimizer = torch.optim.AdamW(member.parameters(), lr=0.02)
        with retraining(member, optimizer):
            run(member, optimizer, BATCHES * 10)
    after = ensemble.evaluate(DATA)["nll"]
    assert after < 0.8 * before
    alone = F.cross_entropy(ensemble[0](DATA.inputs), DATA.targets)
    assert after == pytest.approx(float(alone.detach()), rel=1e-5)


def test_the_loop_is_the_library_s_retraining():
    torch.manual_seed(0)
    network = small_network()
    traced = describe(network, DATA.inputs)
    sampler = SGLD(network.parameters(), lr=0.2, num_data=96)
    collector = Collector(network, traced, sampler, interval=30)
    run(network, sampler, BATCHES * 5)
    how = RetrainSettings(schedule=Constant(lr=0.1), epochs=3, batch_size=16)
    (expected,) = assemble(collector, DATA, prune=PRUNE, retrain=how, prior=PRIOR)
    (member,) = assemble(collector, DATA, prune=PRUNE)
    optimizer = SGLD(member.parameters(), lr=0.1, num_data=96, temperature=0)
    batches = Classification().training(DATA, outputs=3).batches(16)
    with retraining(member, optimizer, PRIOR):
        for epoch in range(3):
            run(member, optimizer, batches.epoch(epoch))
    assert all(map(torch.equal, member.network.parameters(), expected.network.parameters()))


def test_the_optimiser_of_another_member_is_refused(collector):
    (one,), (other,) = (assemble(collector, DATA, prune=PRUNE) for _ in range(2))
    optimizer = torch.optim.SGD(other.parameters())
    with (
        pytest.raises(InputError, match=r"SGD does not move '0.weight'"),
        retraining(one, optimizer),
    ):
        pass


def test_a_frozen_layer_stays_as_it_was_pruned(collector):
    (member,) = assemble(collector, DATA, prune=PRUNE)
    first = next(iter(member.masks))
    frozen = member.network.get_parameter(first).requires_grad_(False)
    before = frozen.clone()
    optimizer = OPTIMIZERS["momentum"](p for p in member.parameters() if p.requires_grad)
    with retraining(member, optimizer):
        run(member, optimizer, BATCHES)
    assert torch.equal(frozen, before)
    assert not bool(pruned_weights(member).any())
    with (
        pytest.raises(InputError, match=f"'{first}', which is frozen"),
        retraining(member, optimizer, PRIOR),
    ):
        pass
