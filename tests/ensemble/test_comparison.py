"""Two ensembles on the same data: their metrics are those of `evaluate`, the intervals honest."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from scenarios import WORDS, model
from sparsemble.data import Text
from sparsemble.ensemble import Ensemble, compare
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.tasks import Classification, Evaluation, LanguageModelling

TASK = Classification(num_classes=2, input_shape=(2,))


def shifted(shift: float) -> Ensemble:
    """Class 1 with log-odds `x₀ + shift`."""
    network = nn.Sequential(nn.Linear(2, 2)).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
        network[0].bias.copy_(torch.tensor([0.0, shift]))
    return Ensemble([Member.dense(network, layout_of(network))], TASK)


def examples(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 2, generator=generator).double()
    labels = torch.rand(count, generator=generator).double() < inputs[:, 0].sigmoid()
    return inputs, labels.long()


def test_the_metrics_are_those_of_evaluate():
    data, own, other = examples(100), shifted(0.3), shifted(-0.5)
    found = compare(own, other, data)
    for ensemble, side in ((own, "own"), (other, "other")):
        score = ensemble.evaluate(data)
        for key, difference in found.items():
            assert getattr(difference, side) == pytest.approx(score[key], abs=1e-12)


def test_an_ensemble_does_not_differ_from_itself():
    for difference in compare(shifted(0.3), shifted(0.3), examples(50)).values():
        assert difference.low == difference.high == 0
        assert not difference.is_clear


def test_the_interval_is_as_wide_as_the_standard_error_of_paired_differences():
    data, own, other = examples(2000), shifted(0.4), shifted(0.0)
    found = compare(own, other, data)["nll"]
    inputs, labels = data
    picked = [
        torch.nn.functional.cross_entropy(
            ensemble[0].network(inputs), labels, reduction="none"
        ).detach()
        for ensemble in (own, other)
    ]
    paired = picked[0] - picked[1]
    error = float(paired.std()) / math.sqrt(len(paired))
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert found.low < float(paired.mean()) < found.high
    assert found.is_clear


@pytest.mark.slow
def test_the_interval_holds_the_true_difference_about_as_often_as_it_says():
    own, other = shifted(0.5), shifted(0.0)
    whole = examples(400_000, seed=99)
    truth = own.evaluate(whole)["nll"] - other.evaluate(whole)["nll"]
    held = sum(
        found.low <= truth <= found.high
        for seed in range(40)
        for found in [compare(own, other, examples(200, seed))["nll"]]
    )
    assert held >= 33  # of 40; fewer happen once in 1,500 times if 95 % is true


def test_words_of_a_text_are_drawn_in_blocks():
    torch.manual_seed(0)
    task = LanguageModelling(words=WORDS)
    ensembles = []
    for _ in range(2):
        network = model()
        ensembles.append(Ensemble([Member.dense(network, layout_of(network))], task))
    tokens = torch.randint(7, (1000,))
    found = compare(*ensembles, tokens)["perplexity"]
    assert found.own == pytest.approx(ensembles[0].evaluate(tokens)["perplexity"])
    assert found.low <= found.own - found.other <= found.high


@pytest.mark.parametrize(("count", "streams"), [(10, 1), (12, 3), (11, 3), (10, 4), (7, 7)])
def test_answers_of_streams_that_are_read_side_by_side_are_put_in_order(count, streams):
    text = Text(torch.arange(count) % 7, streams=streams)
    held = LanguageModelling(words=WORDS).evaluation(text)
    assert isinstance(held, Evaluation)
    read = torch.cat([targets.flatten() for _, targets in held.batches()])
    assert torch.equal(held.in_order(read[read >= 0]), text.tokens)


def test_ensembles_of_different_tasks_cannot_be_compared():
    network = model()
    words = Ensemble([Member.dense(network, layout_of(network))], LanguageModelling(words=WORDS))
    with pytest.raises(InputError, match="cannot be compared"):
        compare(shifted(0.0), words, examples(10))
