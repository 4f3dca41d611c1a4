"""Progress people can believe: the growing ensemble measured, the pace, and what is shown."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

import sparsemble
from sparsemble.data import Corpus, digits, grammar
from sparsemble.members import Member
from sparsemble.recipes import load_recipe
from sparsemble.runs import learn
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.meter import Meter
from sparsemble.runs.pace import Pace
from sparsemble.runs.progress import TerminalProgress
from sparsemble.stages import EpochRecord, History, Observer, Rollback, Sample, SampleRecord

QUICK = {"chain.chains": 2, "chain.epochs": 6, "chain.burn_in": 2, "chain.interval": 2}
TEXT = {
    "network.hidden": [12],
    "chain.epochs": 3,
    "chain.burn_in": 1,
    "chain.interval": 1,
    "retrain.epochs": 1,
    "retrain.schedule.factor": 2.0,
}


class StopAfter(Observer):
    """Kills the run after so many samples and retrained members."""

    def __init__(self, samples: int) -> None:
        self.left = samples

    def sampled(self, sample, save):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def images(folder=None, observer=None, **how):
    train, _ = digits()
    recipe = load_recipe("digits", {**QUICK, "retrain.epochs": 2})
    network = recipe.network
    return learn(
        lambda: network.build(train), train, recipe, folder=folder, observer=observer, **how
    )


def small_corpus() -> Corpus:
    return grammar().beginning(0.02)


def text(folder=None, observer=None):
    corpus, recipe = small_corpus(), load_recipe("grammar", TEXT)
    network = recipe.network
    return learn(lambda: network.build(corpus), corpus, recipe, folder=folder, observer=observer)


def test_every_sample_and_member_is_measured_alone_and_with_those_before_it():
    _, test = digits()
    learned = images(validation=test)
    records = learned.history.samples
    assert [(r.stage, r.chain, r.members) for r in records] == [
        *(("chain", chain, 2 * chain + k) for chain in (0, 1) for k in (1, 2)),
        *(("retrain", 0, member) for member in (1, 2, 3, 4)),
    ]
    assert {(r.metric, r.on) for r in records} == {("error", "validation examples")}
    metrics = learned.ensemble.evaluate(test)
    assert records[-1].together == pytest.approx(metrics.error)
    own = [r.alone for r in records if r.stage == "retrain"]
    assert sum(own) / 4 == pytest.approx(metrics.member_error)
    assert own[0] == records[4].together


def test_without_validation_data_the_training_examples_are_looked_at():
    train, _ = digits()
    learned = images()
    assert learned.history.samples[-1].on == "training examples"
    assert learned.history.samples[-1].together == learned.ensemble.evaluate(train).error
    assert any("of the training examples" in f.text for f in learned.findings)


def test_a_language_model_is_looked_at_on_its_validation_text():
    learned = text()
    tokens = small_corpus().valid[:20_000]
    score = learned.ensemble.score(tokens, streams=20)
    records = [r for r in learned.history.samples if r.stage == "retrain"]
    assert [r.members for r in records] == [1, 2]
    assert [r.together for r in records] == pytest.approx(score.curve)
    assert [r.alone for r in records] == pytest.approx(score.members)


@pytest.mark.parametrize("kind", [images, text])
@pytest.mark.parametrize("killed_after", [1, 3])
def test_a_resumed_run_goes_on_measuring_where_it_stopped(kind, killed_after, tmp_path):
    whole = kind()
    with pytest.raises(KeyboardInterrupt):
        kind(tmp_path, StopAfter(killed_after))
    resumed = kind(tmp_path)
    assert resumed.history.samples == whole.history.samples
    run = RunFolder(tmp_path)
    assert run.chain.history().samples + run.retrain.history().samples == whole.history.samples


def test_looking_changes_no_bits():
    _, test = digits()
    looked, not_looked = images(validation=test), images()
    for one, other in zip(looked.ensemble, not_looked.ensemble, strict=True):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)


def test_validation_data_must_fit():
    train, test = digits()
    with pytest.raises(sparsemble.errors.InputError, match="not a DataLoader"):
        images(validation=torch.utils.data.DataLoader([(train.inputs[0], 0)]))
    few = sparsemble.as_dataset(test.inputs, test.targets % 3)
    with pytest.raises(sparsemble.errors.InputError, match="the data has 3 classes"):
        images(validation=few)
    narrow = sparsemble.as_dataset(test.inputs[:, :9], test.targets)
    with pytest.raises(sparsemble.errors.InputError, match="validation data have 9 features"):
        images(validation=narrow)


def test_members_are_kept_as_pruned_and_as_retrained(tmp_path):
    learned = images(tmp_path)
    pruned = sparsemble.Ensemble.load(tmp_path / "pruned")
    samples = RunFolder(tmp_path).chain.samples(RunFolder(tmp_path).chain.checkpoint())
    for before, after, sample in zip(pruned, learned.ensemble, samples, strict=True):
        assert before.cost == after.cost
        kept = before.network.get_parameter("0.weight")[before.masks["0.weight"]]
        assert torch.isin(kept, sample.parameters["0.weight"]).all()


class Fixed:
    """A look that hands out figures one after the other; together they are averaged."""

    metric, on = "error", "nothing"

    def __init__(self, *figures: float) -> None:
        self.figures = list(figures)

    def predictions(self, member: Member) -> torch.Tensor:
        return torch.tensor(self.figures.pop(0))

    def figure(self, predictions):
        return float(torch.stack(predictions).mean())


def test_what_a_rollback_undid_is_forgotten():
    meter = Meter("chain", Fixed(1.0, 3.0, 5.0), lambda sample: [None])
    history = History()
    for step in (10, 20):
        for record in meter.measure(Sample(0, step, {})):
            history.add(record)
    history.add(EpochRecord("chain", 0, 2, *[0.0] * 7))
    rollback = Rollback("chain", 0, 25, "loss", 15, 1, 0.5)
    meter.undo(rollback)
    history.add(rollback)
    assert [r.step for r in history.samples] == [10]
    assert history.epochs == []
    (record,) = meter.measure(Sample(0, 20, {}))
    assert (record.members, record.together) == (2, 3.0)


def test_the_pace_is_that_of_the_last_minute():
    now = [0.0]
    pace = Pace(0, clock=lambda: now[0])
    assert pace.left(1000) is None
    for second in range(1, 101):  # a slow beginning
        now[0] = second
        pace.mark(second)
    assert pace.left(1000) == pytest.approx(900)
    for second in range(101, 181):  # ten times as fast
        now[0] = second
        pace.mark(100 + 10 * (second - 100))
    assert pace.rate == pytest.approx(10)
    assert pace.left(1000) == pytest.approx(10)
    now[0] = 181
    pace.mark(500)  # thrown back
    assert pace.left(1000) is None
    now[0] = 183
    pace.mark(520)
    assert pace.rate == pytest.approx(10)


def shown(terminal: bool) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=220, highlight=False, color_system=None
    )
    progress = TerminalProgress(console, "digits", lines_every=0)
    images(observer=progress)
    progress.rolled_back(Rollback("chain", 0, 25, "loss 9", 15, 1, 0.5), lambda: None)
    progress.close()
    return out.getvalue()


def test_plain_lines_tell_stage_loss_sparsity_ensemble_rate_and_time_left():
    lines = shown(terminal=False).splitlines()
    sampling = next(line for line in lines if "ensemble of 2" in line)
    assert sampling.startswith("digits: sampling ")
    for part in ("epoch ", "loss ", "near-zero groups ", "error ", " steps/s", "about ", " left"):
        assert part in sampling
    assert any("retraining" in line for line in lines)
    assert "diverged at step 25 (loss 9); went back to step 15" in lines[-1]


def test_a_terminal_gets_a_live_bar():
    output = shown(terminal=True)
    assert "sampling" in output
    assert "retraining" in output
    assert "steps/s" in output
    assert "ensemble of 2: error" in output


def test_a_record_of_every_kind_survives_the_trace(tmp_path):
    stage = RunFolder(tmp_path).chain
    records = [
        EpochRecord("chain", 0, 1, *[0.5] * 7),
        SampleRecord("chain", 0, 10, 1, "error", "training examples", 0.1, 0.1),
        Rollback("chain", 1, 25, "loss", 15, 1, 0.5),
    ]
    for record in records:
        stage.record(record)
    history = stage.history()
    assert [*history.epochs, *history.samples, *history.rollbacks] == records


def test_a_line_of_the_trace_with_a_word_for_a_number_is_refused(tmp_path):
    stage = RunFolder(tmp_path).chain
    stage.record(EpochRecord("chain", 0, 1, "much", *[0.5] * 6))
    with pytest.raises(sparsemble.errors.CorruptFileError, match="a damaged line"):
        stage.history()
