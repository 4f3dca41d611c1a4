"""The chain: the loop of both stages, its collection, its resumption and its recovery."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sparsemble.data import ArrayBatches, as_dataset
from sparsemble.errors import DivergedError, InputError
from sparsemble.layouts import layout_of
from sparsemble.priors import GroupSparse, NoPrior
from sparsemble.samplers import Constant, Cyclical, PSGLDSettings, SGHMCSettings, SGLDSettings, Step
from sparsemble.stages import (
    Callback,
    ChainSettings,
    DivergenceSettings,
    collection_steps,
    draw_samples,
)
from sparsemble.tasks import Classification

TASK = Classification(num_classes=3)


def make_network(dropout: float = 0.0) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(dropout), nn.Linear(12, 3))


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(130, 6, generator=generator)
    targets = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()
    return as_dataset(inputs, targets, num_classes=3)


def settings(**changes) -> ChainSettings:
    fields = {
        "sampler": SGLDSettings(temperature=0.1),
        "schedule": Constant(lr=0.2),
        "epochs": 6,
        "burn_in": 2,
        "interval": 2,
    }
    return ChainSettings(**(fields | changes))


def run(data, chosen, *, prior=None, dropout=0.3, **how):
    network = make_network(dropout)
    return draw_samples(
        lambda: make_network(dropout),
        layout_of(network),
        TASK,
        ArrayBatches(data, 20, seed=5),
        prior or GroupSparse(penalty=1e-3),
        chosen,
        **how,
    )


class Stop(Exception):
    pass


class StopAfter(Callback):
    """Stops a chain in the middle of an epoch and keeps its state."""

    def __init__(self, chain: int, step: int) -> None:
        self.where = (chain, step)
        self.state = None
        self.collected = []

    def stepped(self, chain, step, loss, save):
        if (chain, step) == self.where:
            self.state = save()
            raise Stop

    def sampled(self, sample, save):
        self.collected.append(sample)


@pytest.mark.parametrize("kind", [SGLDSettings, PSGLDSettings, SGHMCSettings])
@pytest.mark.parametrize("stop", [(0, 3), (0, 28), (1, 17), (1, 35)])
def test_a_stopped_and_resumed_chain_equals_the_uninterrupted_one(data, kind, stop):
    lr = 0.002 if kind is PSGLDSettings else 0.1
    chosen = settings(sampler=kind(temperature=0.1), schedule=Constant(lr=lr), chains=2)
    whole = run(data, chosen, seed=3)
    stopped = StopAfter(*stop)
    with pytest.raises(Stop):
        run(data, chosen, seed=3, callback=stopped)
    torch.manual_seed(99)  # the caller's own random state must not matter
    resumed = run(data, chosen, seed=3, collected=stopped.collected, resume=stopped.state)
    assert [(s.chain, s.step) for s in resumed] == [(s.chain, s.step) for s in whole]
    for left, right in zip(resumed, whole, strict=True):
        for name in left.parameters:
            assert torch.equal(left.parameters[name], right.parameters[name])


def test_the_callers_random_state_is_left_alone(data):
    network = make_network(dropout=0.5)
    layout = layout_of(network)
    before = torch.get_rng_state()
    batches = ArrayBatches(data, 20, seed=0)
    draw_samples(network, layout, TASK, batches, NoPrior(), settings(epochs=4, chains=2))
    assert torch.equal(torch.get_rng_state(), before)


def test_at_temperature_zero_a_chain_is_the_plain_training_loop(data):
    network = make_network()
    batches = ArrayBatches(data, 20, seed=5)
    sample = draw_samples(
        network,
        layout_of(network),
        TASK,
        batches,
        NoPrior(),
        settings(
            sampler=SGLDSettings(temperature=0),
            schedule=Step(lr=0.3, factor=2, every=2),
            burn_in=0,
            interval=6,
        ),
    )[0]
    optimiser = torch.optim.SGD(network.parameters(), lr=0.3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, 2, 0.5)
    for epoch in range(6):
        for inputs, targets in batches.epoch(epoch):
            optimiser.zero_grad()
            F.cross_entropy(network(inputs), targets).backward()
            optimiser.step()
        scheduler.step()
    for name, parameter in network.named_parameters():
        assert torch.equal(sample.parameters[name], parameter)


def test_chains_start_from_different_weights_and_the_first_from_the_given_ones(data):
    network = make_network()
    samples = draw_samples(
        network,
        layout_of(network),
        TASK,
        ArrayBatches(data, 130, seed=0),
        NoPrior(),
        settings(
            sampler=SGLDSettings(temperature=0),
            schedule=Constant(lr=1e-12),
            epochs=1,
            burn_in=0,
            interval=1,
            chains=3,
        ),
    )
    first = [sample.parameters["0.weight"] for sample in samples]
    assert torch.allclose(first[0], network[0].weight, atol=1e-9)
    assert not torch.allclose(first[1], first[0], atol=1e-3)
    assert not torch.allclose(first[1], first[2], atol=1e-3)


class RollbackLog(Callback):
    def __init__(self):
        self.rollbacks = []

    def rolled_back(self, rollback, save):
        self.rollbacks.append(rollback)


def test_a_diverging_chain_goes_back_slows_down_and_says_so(data):
    log = RollbackLog()
    chosen = settings(
        sampler=SGLDSettings(temperature=0),
        schedule=Constant(lr=150.0),
        divergence=DivergenceSettings(max_rollbacks=30, slow_down=2.0),
    )
    samples = run(data, chosen, dropout=0.0, prior=NoPrior(), callback=log)
    assert log.rollbacks
    factors = [rollback.lr_factor for rollback in log.rollbacks]
    assert factors == [0.5 ** (k + 1) for k in range(len(factors))]
    assert all(rollback.back_to < rollback.step for rollback in log.rollbacks)
    assert all(bool(p.isfinite().all()) for s in samples for p in s.parameters.values())


def test_samples_and_epochs_of_a_diverged_stretch_are_taken_again(data):
    class Log(Callback):
        def __init__(self):
            self.events = []

        def sampled(self, sample, save):
            self.events.append(("sample", sample.step))

        def rolled_back(self, rollback, save):
            self.events.append(("back", rollback.back_to))

    log = Log()
    chosen = settings(
        sampler=SGLDSettings(temperature=1),
        schedule=Constant(lr=2.0),
        epochs=30,
        burn_in=0,
        interval=1,
        divergence=DivergenceSettings(rise=0.02, max_rollbacks=50),
    )
    samples = run(data, chosen, dropout=0.0, prior=NoPrior(), callback=log)
    undone = [
        (place, step)
        for place, (kind, back) in enumerate(log.events)
        if kind == "back"
        for before, step in log.events[:place]
        if before == "sample" and step > back
    ]
    assert undone  # some samples were thrown away with the stretch they came from
    for place, step in undone:
        assert ("sample", step) in log.events[place:]
    assert [sample.step for sample in samples] == [7 * (k + 1) for k in range(30)]


def test_clipping_holds_each_member_by_itself():
    from sparsemble.stages.chain import clip_gradients

    gradients = [torch.tensor([[3.0, 0.0], [0.3, 0.0]]), torch.tensor([[[4.0]], [[0.4]]])]
    clip_gradients(gradients, 1.0, batch_dims=1)
    assert torch.allclose(gradients[0], torch.tensor([[0.6, 0.0], [0.3, 0.0]]))
    assert torch.allclose(gradients[1], torch.tensor([[[0.8]], [[0.4]]]))
    scalars = [torch.tensor([3.0, 0.3]), torch.tensor([[4.0], [0.4]])]  # one number each
    clip_gradients(scalars, 1.0, batch_dims=1)
    assert torch.allclose(scalars[0], torch.tensor([0.6, 0.3]))


def test_clipping_one_network_is_pytorchs():
    from sparsemble.stages.chain import clip_gradients

    parameters = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5))]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    ours = [parameter.grad.clone() for parameter in parameters]
    clip_gradients(ours, 0.5)
    torch.nn.utils.clip_grad_norm_(parameters, 0.5)
    for mine, parameter in zip(ours, parameters, strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-5, atol=1e-7)


def test_a_chain_that_keeps_diverging_fails_with_advice(data):
    chosen = settings(
        schedule=Constant(lr=1e6), divergence=DivergenceSettings(max_rollbacks=2, slow_down=1.0)
    )
    with pytest.raises(DivergedError, match="after 2 rollbacks; lower the learning rate"):
        run(data, chosen)


def overflow(data, epochs):
    """The last sample and the log of a chain whose first steps, one an epoch, leave no number."""
    chosen = settings(
        sampler=SGLDSettings(temperature=0),
        schedule=Constant(lr=1e12),
        epochs=epochs,
        burn_in=0,
        interval=epochs,
        divergence=DivergenceSettings(max_rollbacks=60, slow_down=10.0),
    )
    log = RollbackLog()
    large = as_dataset(data.inputs * 1e30, data.targets, num_classes=3)
    one_step = ArrayBatches(large, len(large.targets), seed=5)
    [sample] = draw_samples(
        make_network, layout_of(make_network()), TASK, one_step, NoPrior(), chosen, callback=log
    )
    return sample, log


def test_a_last_step_that_leaves_no_number_is_a_divergence(data):
    sample, log = overflow(data, epochs=1)
    assert all(bool(tensor.isfinite().all()) for tensor in sample.parameters.values())
    assert log.rollbacks
    assert log.rollbacks[0].reason == "a weight is not a finite number"


def test_a_broken_state_at_the_end_of_an_epoch_is_not_gone_back_to(data):
    _, log = overflow(data, epochs=2)
    assert log.rollbacks[0].step == 2
    assert log.rollbacks[0].back_to == 0


def test_a_resumed_chain_remembers_its_rollbacks(data):
    chosen = settings(
        sampler=SGLDSettings(temperature=0),
        schedule=Constant(lr=150.0),
        divergence=DivergenceSettings(max_rollbacks=30, slow_down=2.0),
    )
    whole = run(data, chosen, dropout=0.0, prior=NoPrior())
    stopped = StopAfter(0, 20)
    with pytest.raises(Stop):
        run(data, chosen, dropout=0.0, prior=NoPrior(), callback=stopped)
    assert stopped.state.numbers["rollbacks"] > 0
    resumed = run(
        data,
        chosen,
        dropout=0.0,
        prior=NoPrior(),
        collected=stopped.collected,
        resume=stopped.state,
    )
    for left, right in zip(resumed, whole, strict=True):
        assert torch.equal(left.parameters["0.weight"], right.parameters["0.weight"])


def test_thinned_collection_is_the_papers():
    steps = collection_steps(
        collection="thinned",
        epochs=100,
        burn_in=10,
        interval=5,
        samples=None,
        steps_per_epoch=600,
    )
    assert [step / 600 for step in steps] == list(range(15, 101, 5))


def test_backward_collection_takes_the_last_iterates():
    steps = collection_steps(
        collection="backward", epochs=2, burn_in=1, interval=1, samples=4, steps_per_epoch=10
    )
    assert steps == (17, 18, 19, 20)


@pytest.mark.parametrize(
    ("schedule", "burn_in", "samples", "expected"),
    [
        (Cyclical(lr=1, period=2.5), 0, None, (25, 50, 75, 100)),
        (Cyclical(lr=1, period=10 / 7, growth=2), 0, None, (14, 43, 100)),
        (Cyclical(lr=1, period=10 / 7, growth=2), 4, None, (43, 100)),
        (Cyclical(lr=1, period=2.5), 0, 2, (75, 100)),
        (Cyclical(lr=1, period=4), 0, None, (40, 80)),
    ],
)
def test_cycles_give_a_sample_where_each_ends(schedule, burn_in, samples, expected):
    chosen = settings(
        collection="cycles", schedule=schedule, epochs=10, burn_in=burn_in, samples=samples
    )
    assert chosen.steps_to_collect(10) == expected


def test_backward_samples_are_successive_iterates(data):
    chosen = settings(collection="backward", samples=3)
    samples = run(data, chosen)
    assert [sample.step for sample in samples] == [40, 41, 42]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 5, "burn_in": 5}, "give no sample"),
        ({"collection": "backward"}, "needs the number of samples"),
        ({"collection": "cycles"}, "collection = cycles needs a cyclical schedule"),
        (
            {"collection": "cycles", "schedule": {"kind": "cyclical", "lr": 1, "period": 1e3}},
            "0 cycles of the schedule end after the burn-in of 2 and within 6 epochs",
        ),
        ({"samples": 4}, "give only 2"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"epochz": 4}, "unknown setting 'epochz'; did you mean 'epochs'?"),
        ({"sampler": {"temperature": -1}}, "sampler.temperature = -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        settings(**changes)


def test_networks_with_buffers_are_refused(data):
    network = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    plain = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    with pytest.raises(InputError, match=r"frozen parameters \(1.running_mean"):
        draw_samples(
            network,
            layout_of(plain),
            TASK,
            ArrayBatches(data, 20, seed=0),
            NoPrior(),
            settings(),
        )
