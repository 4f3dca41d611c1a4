"""What a report measures, against independent computations."""

from __future__ import annotations

import math
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from scenarios import CLASSES, TEXT
from sparsemble import generate, learn, next_words
from sparsemble.data import Dataset, diabetes, digits, grammar
from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.layouts import layout_of
from sparsemble.learning.findings import Finding
from sparsemble.members import compact
from sparsemble.nets import feedforward
from sparsemble.pages.images import image_side
from sparsemble.priors import Gaussian, GroupSparse, SumPrior
from sparsemble.recipes import Recipe, builtin_names, load_recipe
from sparsemble.reports import Facts, collect
from sparsemble.reports.measures.advice import advise
from sparsemble.reports.measures.background import recipe_text
from sparsemble.reports.measures.curves import Curves, StageCurve
from sparsemble.reports.measures.patterns import kept_shares, magnitudes, pictures_of
from sparsemble.reports.measures.spreads import FamilySpread, Histogram, Spreads, histogram
from sparsemble.reports.measures.summary import compared
from sparsemble.reports.opening import open_run
from sparsemble.results.result import read_result
from sparsemble.results.running import run_recipe
from sparsemble.store import read_tensors
from sparsemble.tables.columns import CategoryColumn, NumberColumn
from sparsemble.tables.encoding import TableEncoding
from sparsemble.tasks import Classification, LanguageModelling, Metric, Regression, Score
from sparsemble.tasks.sections.class_facts import (
    ClassFacts,
    class_facts,
    confusion,
    reliability_bins,
)
from sparsemble.tasks.sections.text_facts import TextFacts, lowest, read_stretch
from sparsemble.tasks.sections.text_facts import text_facts as read_text


@pytest.fixture(scope="module")
def image_facts(class_run) -> Facts:
    return collect(class_run)


@pytest.fixture(scope="module")
def classes(class_run) -> ClassFacts:
    test = digits()[1]
    return class_facts(Ensemble.load(class_run).evidence(test.inputs), test)


@pytest.fixture(scope="module")
def text_facts(text_run) -> Facts:
    return collect(text_run)


@pytest.fixture(scope="module")
def reading(text_run) -> TextFacts:
    ensemble = Ensemble.load(text_run)
    return read_text(ensemble.task, ensemble, grammar().validation, seed=0)


@pytest.fixture(scope="module")
def number_facts(number_run) -> Facts:
    return collect(number_run)


def samples_in(folder: Path) -> list[dict[str, torch.Tensor]]:
    return [read_tensors(f)[0] for f in sorted((folder / "chain").glob("*/sample-*"))]


# --- the stages ------------------------------------------------------------------------------


def plain_probabilities(weights: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """A feed-forward network with two hidden layers, written out."""
    values = inputs
    for layer in ("0", "2", "4"):
        values = values @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
        values = values if layer == "4" else values.clamp_min(0)
    return values.softmax(-1)


def plainly_pruned(weights: dict[str, torch.Tensor], sparsity: float) -> dict[str, torch.Tensor]:
    every = torch.cat([w.abs().flatten() for n, w in weights.items() if n.endswith("weight")])
    kept = round((1 - sparsity) * len(every))
    limit = every.sort(descending=True).values[kept - 1]
    return {n: w * (w.abs() >= limit) if n.endswith("weight") else w for n, w in weights.items()}


@pytest.mark.parametrize(("place", "stage"), [(0, "sampled"), (1, "pruned")])
def test_errors_of_samples_alone_and_averaged_are_those_computed_by_hand(
    class_run, image_facts, place, stage
):
    test = digits()[1]
    each = [
        plain_probabilities(
            plainly_pruned(weights, 0.8) if stage == "pruned" else weights, test.scaled()
        )
        for weights in samples_in(class_run)
    ]

    def error(p):
        return 100 * float((p.argmax(-1) != test.targets).double().mean())

    def loss(p):
        return float(F.nll_loss(p.log().double(), test.targets))

    for curves, measured in zip(image_facts.curves, (error, loss), strict=True):
        found = curves.stages[place]
        assert found.stage == stage
        assert found.alone == pytest.approx([measured(p) for p in each], rel=1e-4)
        running = [measured(torch.stack(each[: k + 1]).mean(0)) for k in range(3)]
        assert found.together == pytest.approx(running, rel=1e-4)


def test_the_last_stage_is_the_ensemble_the_result_measured(class_run, image_facts):
    score = read_result(class_run / "result.json").score
    errors, losses = image_facts.curves
    assert errors.final.stage == "retrained"
    assert errors.final.together[-1] == pytest.approx(100 * score["error"])
    assert losses.final.together[-1] == pytest.approx(score["nll"])
    mean = sum(errors.final.alone) / len(errors.final.alone)
    assert mean == pytest.approx(100 * score.of_a_member("error"))


@pytest.mark.slow
def test_perplexities_of_samples_are_those_of_streams_read_one_by_one(text_run, text_facts):
    corpus = grammar()
    valid, network = corpus.validation, load_recipe("grammar", TEXT).network.build(234, 234)
    length = -(-len(valid) // 20)
    before = torch.cat([torch.tensor([corpus.vocabulary.words.index("<eos>")]), valid[:-1]])
    each = []
    for weights in samples_in(text_run):
        network.load_state_dict(weights)
        network.eval()
        with torch.no_grad():
            pieces = [
                -F.cross_entropy(network(x.view(-1, 1))[0][:, 0], y, reduction="none").double()
                for x, y in zip(before.split(length), valid.split(length), strict=True)
            ]
        each.append(torch.cat(pieces))
    found = text_facts.curves[0].stages[0]
    alone = [math.exp(-float(p.mean())) for p in each]
    running = [
        math.exp(-float(torch.stack(each[: k + 1]).exp().mean(0).log().mean())) for k in range(3)
    ]
    assert found.stage == "sampled"
    assert found.alone == pytest.approx(alone, rel=1e-4)
    assert found.together == pytest.approx(running, rel=1e-4)


def test_the_members_perplexities_are_those_of_the_result(text_run, text_facts):
    known = read_result(text_run / "result.json").scores["validation"]
    assert text_facts.curves[0].final.together == pytest.approx(known.curve["perplexity"])
    assert text_facts.curves[0].final.alone == pytest.approx(known.members["perplexity"])


def test_a_long_text_is_read_only_as_far_as_time_allows(text_run, monkeypatch):
    monkeypatch.setattr("sparsemble.reports.measures.curves._WORK", 1.0)
    curves = collect(text_run).curves[0]
    # Twelve steps of 20 streams are read at a time: 1,200 is the first multiple above 1,000.
    tokens = grammar().validation
    length = -(-len(tokens) // 20)
    beginnings = [tokens[start : start + 60] for start in range(0, len(tokens), length)]
    before = [tokens[max(start - 1, 0)] for start in range(0, len(tokens), length)]
    before[0] = torch.tensor(grammar().vocabulary.index("<eos>"))
    total = torch.zeros(1200).double()
    for member in Ensemble.load(text_run):
        own = []
        for first, piece in zip(before, beginnings, strict=True):
            inputs = torch.cat([first.view(1), piece[:-1]]).view(-1, 1)
            with torch.no_grad():
                logits = member.network(inputs)[0][:, 0]
            own.append(-F.cross_entropy(logits, piece, reduction="none").double())
        total += torch.cat(own).exp() / 3
    assert curves.measured_on == f"the validation text of grammar (1,200 of {len(tokens):,})"
    assert not curves.whole
    expected = math.exp(-float(total.log().mean()))
    assert curves.final.together[-1] == pytest.approx(expected, rel=1e-5)


def test_a_guess_knows_only_how_frequent_words_are(text_facts):
    corpus = grammar()
    portion = corpus.train[: round(TEXT["data.portion"] * len(corpus.train))]
    train, valid = Counter(portion.tolist()), Counter(corpus.validation.tolist())
    total = len(portion) + 234  # every word is counted once more than it occurs
    nll = -sum(n * math.log((train[word] + 1) / total) for word, n in valid.items())
    assert text_facts.curves[0].guessed == pytest.approx(math.exp(nll / len(corpus.validation)))
    assert text_facts.curves[0].whole


def test_a_guess_names_the_commonest_class_of_the_training_set(image_facts):
    train, test = digits()
    commonest = Counter(train.targets.tolist()).most_common(1)[0][0]
    wrong = sum(target != commonest for target in test.targets.tolist())
    errors, losses = image_facts.curves
    assert errors.guessed == pytest.approx(100 * wrong / len(test))
    assert losses.guessed == pytest.approx(math.log(10), rel=1e-2)


def test_traces_show_every_epoch_of_both_stages(class_run, image_facts):
    chain, again = image_facts.traces
    assert chain.chains[0].epochs == tuple(range(1, 13))
    assert (chain.sampled, chain.burn_in) == ((6, 9, 12), 3)
    assert set(chain.chains[0].lr) == {0.2}
    run = open_run(class_run)
    records = run.folder.retrain.history().epochs
    assert again.chains[0].loss == tuple(record.loss for record in records)


# --- structure -------------------------------------------------------------------------------


def test_a_block_is_marked_as_soon_as_one_weight_is_kept(monkeypatch):
    monkeypatch.setattr("sparsemble.reports.measures.patterns.SIDE", 2)
    mask = torch.zeros(4, 6, dtype=torch.bool)
    mask[0, 0] = True
    mask[2:, 3:] = True
    picture = kept_shares(mask)
    assert picture.block == (2, 3)
    # One of six: 1 + 14·√(1/6) = 6.7.
    assert picture.levels.tolist() == [[7, 0], [0, 15]]


def test_blocks_at_the_edge_count_only_what_is_there(monkeypatch):
    monkeypatch.setattr("sparsemble.reports.measures.patterns.SIDE", 2)
    assert kept_shares(torch.ones(3, 3, dtype=torch.bool)).levels.tolist() == [[15, 15], [15, 15]]


def test_magnitudes_are_drawn_by_powers_of_ten():
    weights = torch.tensor([[1.0, -0.1, 0.01], [1e-3, 1e-9, 0.0]])
    assert magnitudes(weights, 1.0).levels.tolist() == [[15, 10, 5], [0, 0, 0]]


def test_no_picture_has_more_than_200_pixels_a_side():
    assert kept_shares(torch.ones(1001, 200, dtype=torch.bool)).levels.shape == (167, 200)


def test_pruned_pictures_show_weights_where_the_dense_network_had_them():
    network = feedforward(3, [4], 2)
    masks = {"0.weight": torch.ones(4, 3) > 0, "2.weight": torch.ones(2, 4) > 0}
    masks["0.weight"][:, 1] = False
    masks["2.weight"][:, 2] = False
    layout = layout_of(network)
    first, second = pictures_of(compact(network, layout, masks), layout, None)
    assert first.pruned.levels.tolist() == [[15, 0, 15]] * 2 + [[0, 0, 0]] + [[15, 0, 15]]
    assert second.pruned.levels.tolist() == [[15, 15, 0, 15]] * 2
    assert (first.reads, first.makes, first.kept) == ("inputs", "hidden1", 0.5)


def test_costs_are_those_of_the_paper_and_of_the_result(class_run, image_facts):
    sizes, result = image_facts.sizes, read_result(class_run / "result.json")
    assert sizes.dense.units == (64, 30, 20, 10)
    assert sizes.dense.parameters == 64 * 30 + 30 * 20 + 20 * 10
    assert sizes.dense.flops == (2 * 64 * 30, 2 * 30 * 20, 2 * 20 * 10)
    assert [m.parameters for m in sizes.members] == result.member_parameters
    assert [m.total_flops for m in sizes.members] == result.member_flops
    assert sizes.dense_bytes == 4 * (sizes.dense.parameters + 60)
    assert all(sizes.sparsity(m) >= 0.8 - 1e-3 for m in sizes.members)


def test_layers_are_named_as_people_count_them(image_facts, text_facts):
    assert image_facts.sizes.matrices == ("layer 1", "layer 2", "layer 3")
    assert text_facts.sizes.matrices == ("lstm1", "lstm2", "softmax")


def test_inputs_are_counted_by_the_members_that_read_them(class_run, image_facts):
    ensemble = Ensemble.load(class_run / "ensemble")
    assert sum(image_facts.readers) == sum(m.layout.inputs.size for m in ensemble)
    assert max(image_facts.readers) <= len(ensemble)


def test_sizes_of_groups_are_norms_over_the_root_of_their_dimension(class_run, image_facts):
    weights = samples_in(class_run)[-1]
    spreads = image_facts.spreads
    sizes = [weights[f"{k}.weight"].square().mean(0).sqrt() for k in (0, 2, 4)]
    # 900 images; the rate is 0.2, the penalty 2e-3, T 1e-4.
    width = 3 * max(1e-4 / (900 * 2e-3), 0.2 * 2e-3)
    assert spreads.width == pytest.approx(width)
    assert [f.size for f in spreads.families] == [30, 20, 10]
    for family, own in zip(spreads.families, sizes, strict=True):
        assert family.groups == sum(family.histogram.counts) == len(own)
        assert family.near_zero == int((own < width).sum())


def test_the_share_of_groups_near_zero_is_what_the_trace_recorded(class_run, image_facts):
    assert image_facts.spreads.near_zero == pytest.approx(
        image_facts.traces[0].chains[0].near_zero[-1]
    )


def test_the_pruning_threshold_is_the_smallest_kept_weight(class_run, image_facts):
    weights = samples_in(class_run)[-1]
    every = torch.cat([w.abs().flatten() for n, w in weights.items() if n.endswith("weight")])
    kept = every.sort(descending=True).values[: round(0.2 * len(every))]
    assert image_facts.spreads.thresholds == {"the whole network": pytest.approx(float(kept[-1]))}
    assert sum(image_facts.spreads.weights.counts) == len(every)


def test_what_lies_outside_a_histogram_is_counted_at_its_ends():
    found = histogram(torch.tensor([0.0, 1e-9, 0.02, 0.1, 5.0]), (0.01, 0.1, 1.0))
    assert found.counts == (3, 2)


# --- classifiers -----------------------------------------------------------------------------


def test_reliability_bins_by_hand():
    probabilities = torch.tensor([[0.9, 0.1], [0.75, 0.25], [0.375, 0.625], [0.5, 0.5]])
    bins = reliability_bins(probabilities, torch.tensor([0, 1, 1, 0]), bins=4)
    # Bins reach up to 0.25, 0.5, … and hold their upper end, as in the calibration error.
    assert [b.share for b in bins] == [0, 0.25, 0.5, 0.25]
    assert bins[2].confidence == (0.75 + 0.625) / 2
    assert [b.accuracy for b in bins[1:]] == [1.0, 0.5, 1.0]
    assert math.isnan(bins[0].accuracy)


def test_bins_and_calibration_error_tell_the_same(class_run, classes):
    score = read_result(class_run / "result.json").score
    gaps = [b.share * abs(b.accuracy - b.confidence) for b in classes.ensemble_bins if b.share]
    assert sum(gaps) == pytest.approx(score["ece"])
    assert classes.member_ece == pytest.approx(score.of_a_member("ece"))


def test_confusions_count_true_classes_in_rows():
    found = confusion(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 0, 1, 2]), 3)
    assert found == ((1, 1, 0), (0, 1, 0), (0, 0, 1))


def test_the_two_kinds_of_doubt_are_told_apart():
    # Members agree on a close call for the first example and disagree on the second.
    p = torch.tensor([[[0.5, 0.5], [0.99, 0.01], [1.0, 0.0]], [[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]]])
    data = Dataset(torch.eye(3), torch.tensor([0, 1, 0]), ("cat", "dog"), ("a", "b", "c"))
    found = class_facts(p, data)
    assert [d.index for d in found.by_entropy] == [0, 1, 2]
    assert [d.index for d in found.by_information] == [1, 0, 2]
    doubted = found.by_information[0]
    assert doubted.votes == (("cat", 1), ("dog", 1))
    assert (doubted.prediction, doubted.target) == ("cat", "dog")
    assert doubted.probability == pytest.approx(0.595)
    assert doubted.image is None
    assert doubted.features == (("a", 0.0), ("b", 1.0), ("c", 0.0))


def test_rows_of_a_table_are_shown_as_they_stand_there():
    region = CategoryColumn(name="region", categories=("north", "east"))
    columns = TableEncoding(columns=(region, NumberColumn(name="since", holds="date")))
    rows = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 18_224.0]])
    p = torch.tensor([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.2, 0.8]]])
    data = Dataset(rows, torch.tensor([0, 1]), ("cat", "dog"), columns.names)
    doubted = class_facts(p, data, columns).by_information[0]
    assert doubted.features == (("region", "east"), ("since", "2019-11-24"))


def test_examples_that_are_all_alike_are_not_listed():
    p = torch.tensor([0.5, 0.5]).expand(2, 12, 2)
    data = Dataset(torch.eye(12), torch.arange(12) % 2, ("cat", "dog"))
    found = class_facts(p, data)
    assert (found.by_information, found.by_entropy) == ((), ())


@pytest.mark.parametrize(
    ("shape", "side"),
    [
        ((64,), (8, 8)),
        ((784,), (28, 28)),
        ((1, 28, 20), (28, 20)),
        ((65,), None),
        ((4,), None),
        ((3, 8, 8), None),
    ],
)
def test_what_can_be_drawn_as_an_image(shape, side):
    assert image_side(shape) == side


def test_doubted_images_are_the_examples_themselves(classes):
    one = classes.by_entropy[0]
    original = digits()[1].inputs[one.index].view(8, 8)
    assert np.abs(one.image / 255 * 16 - original.numpy()).max() < 0.04


# --- language models -------------------------------------------------------------------------


def test_words_have_the_probabilities_the_ensemble_scores_with(text_run, reading):
    ensemble = Ensemble.load(text_run)
    tokens = grammar().validation[:160]
    read = ensemble.scored(ensemble.task.evaluation(tokens))
    each = torch.cat([evidence for evidence, _ in read], 1).exp().mean(0)
    found = reading.positions
    assert [p.probability for p in found] == pytest.approx(each.tolist(), rel=1e-4)
    assert [p.word for p in found] == grammar().vocabulary.decode(tokens)
    for position in found:
        assert len(position.top) == 5
        assert position.top[0][1] >= position.probability * (1 - 1e-6)
        assert 0 <= position.mutual_information <= position.entropy <= math.log(234)
    assert found[5].top == tuple(
        (w, pytest.approx(p, rel=1e-4))
        for w, p in next_words(ensemble, [q.word for q in found[:5]], 5)
    )


def test_extremes_and_sample_text_are_of_the_ensemble(text_run, monkeypatch):
    monkeypatch.setattr("sparsemble.tasks.sections.text_facts.ALIKE", 0.0)
    ensemble = Ensemble.load(text_run)
    found = read_text(ensemble.task, ensemble, grammar().validation, seed=0)
    told = [p.mutual_information for p in found.positions]
    assert [told[k] for k in found.most] == sorted(told, reverse=True)[:8]
    sure = [p.entropy for p in found.positions]
    assert [sure[k] for k in found.least] == sorted(sure)[:8]
    assert found.context(2) == tuple(p.word for p in found.positions[:2])
    assert found.drawn == tuple(generate(ensemble, 80, seed=0))
    assert len(read_stretch(ensemble.task, ensemble, grammar().validation[:7])) == 7


def test_where_all_positions_are_alike_none_is_listed():
    assert lowest([-0.0001, -0.0005, 0.0], 1e-3) == ()
    assert lowest([-0.0001, -0.2, -0.1], 1e-3) == (1, 2, 0)
    assert len(lowest([float(k) for k in range(20)], 1e-3)) == 8


# --- regressors ------------------------------------------------------------------------------


def plain_numbers(weights: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """Means and log variances of a network with two hidden layers, written out."""
    values = inputs
    for layer in ("0", "2", "4"):
        values = values @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
        values = values if layer == "4" else values.clamp_min(0)
    return torch.cat([values, weights["noise.log_variance"].expand_as(values)], -1).double()


@pytest.mark.parametrize(("place", "stage"), [(0, "sampled"), (1, "pruned")])
def test_distances_of_samples_alone_and_averaged_are_those_computed_by_hand(
    number_run, number_facts, place, stage
):
    train, test = diabetes()
    mean, deviation = train.targets.mean(), train.targets.std(correction=0)
    means, variances = [], []
    for weights in samples_in(number_run):
        own = plainly_pruned(weights, 0.8) if stage == "pruned" else weights
        outputs = plain_numbers(own, test.scaled())
        means.append(outputs[:, 0] * deviation + mean)
        variances.append(outputs[:, 1].exp() * deviation**2)
    truth = test.targets[:, 0].double()

    def distance(first, last):
        return float((torch.stack(means[first:last]).mean(0) - truth).square().mean().sqrt())

    def loss(first, last):
        parts = [
            torch.distributions.Normal(m, v.sqrt()).log_prob(truth).exp()
            for m, v in zip(means[first:last], variances[first:last], strict=True)
        ]
        return -float(torch.stack(parts).mean(0).log().mean())

    assert [curves.metric.key for curves in number_facts.curves] == ["rmse", "nll"]
    for curves, measured in zip(number_facts.curves, (distance, loss), strict=True):
        found = curves.stages[place]
        assert found.stage == stage
        assert found.alone == pytest.approx([measured(k, k + 1) for k in range(3)], rel=1e-4)
        assert found.together == pytest.approx([measured(0, k + 1) for k in range(3)], rel=1e-4)


def test_a_guess_of_numbers_is_the_mean_and_the_spread_of_the_training_set(number_facts):
    train, test = (part.targets.double() for part in diabetes())
    away = (test - train.mean()).square().mean()
    distances, losses = number_facts.curves
    assert distances.guessed == pytest.approx(float(away.sqrt()), rel=1e-6)
    variance = train.var(correction=0)
    expected = 0.5 * (math.log(2 * math.pi) + variance.log() + away / variance)
    assert losses.guessed == pytest.approx(float(expected), rel=1e-6)


def test_regressors_are_summed_up_by_their_distance(number_run, number_facts):
    score = read_result(number_run / "result.json").score
    reached = f"reach RMSE {score['rmse']:.4g} on the 110 test examples of diabetes"
    assert reached in number_facts.summary.verdict
    titles = ("RMSE", "NLL", "CRPS", "Within 90% interval, %")
    assert number_facts.summary.metrics == titles
    told = {answer.question: answer.text for answer in number_facts.advice}
    share = f"different means make {100 * score.diversity:.2f} % of the predicted variance"
    assert share in told["members"]


def test_regressors_have_their_own_sections(number_run, number_facts):
    predictions, intervals = number_facts.predictions
    assert (predictions.anchor, intervals.anchor) == ("predictions", "intervals")
    score = read_result(number_run / "result.json").score
    shown = str(predictions)
    assert "Every dot is one of the 110 test examples of diabetes." in shown
    assert f"Root mean square error {score['rmse']:.2f}." in shown
    assert shown.count('<circle class="dot') == 110
    held = score["coverage_90"]
    assert f"Of intervals of 90 % {100 * held:.0f} % hold their target." in str(intervals)


# --- summary and advice ----------------------------------------------------------------------


def test_the_verdict_compares_with_a_member_and_names_the_price(class_run, image_facts):
    summary, result = image_facts.summary, read_result(class_run / "result.json")
    assert [c.name for c in summary.contenders] == ["this ensemble", "a single member on average"]
    assert summary.contenders[1].parameters == pytest.approx(result.parameters_ratio / 3)
    reached = f"reach error {100 * result.score['error']:.2f} % on the 897 test examples of digits"
    assert reached in summary.verdict
    assert f"hold {result.parameters_ratio:.2f} times the weights" in summary.verdict


def test_a_baseline_in_the_folder_is_what_the_run_is_held_against(text_run, tmp_path):
    folder = shutil.copytree(text_run, tmp_path / "run")
    shutil.copytree(text_run, folder / "baseline")
    summary = collect(folder).summary
    assert summary.contenders[1].name == "the baseline grammar"
    assert summary.baseline is summary.contenders[1]
    assert summary.outcome == "same"
    assert summary.reference == pytest.approx(math.exp(grammar().true_nll["test"]))


@pytest.mark.slow
def test_a_baseline_of_other_data_is_not_compared(text_run, tmp_path):
    folder = shutil.copytree(text_run, tmp_path / "run")
    run_recipe(load_recipe("grammar", TEXT | {"data.portion": 0.04}), folder / "baseline")
    summary = collect(folder).summary
    assert summary.baseline is None
    assert [c.name for c in summary.contenders] == ["this ensemble", "a single member on average"]
    told = "The baseline grammar is of different data and not compared: the recipes differ in"
    assert summary.verdict.endswith(f"{told} data.portion.")


def score_of(key: str, value: float, count: int) -> Score:
    return Score(count=count, curve={key: [value]}, members={key: [value]})


@pytest.mark.parametrize(
    ("own", "other", "examples", "answer"),
    [
        # Two standard errors of 2 % and 3 % on 1000 examples: 1.4 points; on 100,000: 0.14.
        (0.02, 0.03, 1000, ("better", False)),
        (0.02, 0.03, 100_000, ("better", True)),
        (0.03, 0.02, 100_000, ("worse", True)),
        (0.02, 0.02, 1000, ("same", False)),
        (0.9119286510590858, 0.9119286510590855, 1000, ("same", False)),
    ],
)
def test_differences_of_errors_that_chance_explains_are_not_called_clear(
    own, other, examples, answer
):
    scores = (score_of("error", value, examples) for value in (own, other))
    margin = Classification().margin(*scores)
    assert compared(own, other, margin, Classification.metrics[0]) == answer


@pytest.mark.parametrize(
    ("own", "other", "answer"),
    [(99.8, 100.0, ("same", False)), (98.0, 100.0, ("better", True))],
)
def test_a_text_is_long_enough_to_trust_half_a_percent(own, other, answer):
    scores = (score_of("perplexity", value, 1000) for value in (own, other))
    margin = LanguageModelling().margin(*scores)
    assert compared(own, other, margin, LanguageModelling.metrics[0]) == answer


@pytest.mark.parametrize(
    ("own", "other", "examples", "answer"),
    [(50.0, 55.0, 100, ("better", False)), (50.0, 55.0, 10_000, ("better", True))],
)
def test_distances_are_known_to_two_standard_errors(own, other, examples, answer):
    # Twice 55 by the root of the number of examples: 11, and 1.1.
    scores = (score_of("rmse", value, examples) for value in (own, other))
    margin = Regression().margin(*scores)
    assert compared(own, other, margin, Regression.metrics[0]) == answer


def test_of_a_metric_where_more_is_better_the_higher_is():
    assert compared(2.0, 1.0, 0.1, Metric("r2", "R²", better="higher")) == ("better", True)


def curves(sampled, final, alone=None, guessed=90.0):
    return Curves(
        Classification.metrics[0],
        "Error %",
        "a set",
        True,
        guessed,
        (
            StageCurve("sampled", (sampled, sampled), (sampled, sampled)),
            StageCurve("retrained", alone or (final, final), (final, final)),
        ),
    )


def spreads(*, width=1e-3, thermal=3e-4, held=0.6, threshold=0.05, near_zero=30):
    bins = Histogram((0.1, 1.0), (100,))
    family = FamilySpread("units", 100, 10, near_zero, bins)
    return Spreads(1, (family,), width, thermal, held, bins, {"the whole network": threshold})


def advised(findings, curve, found, *, changes=None, too_alike=False):
    return advise(
        findings,
        curve,
        found,
        load_recipe("digits", {"prune.sparsity": 0.9} | (changes or {})),
        diversity="they differ",
        too_alike=too_alike,
    )


ONE_CHAIN = {"chain.chains": 1, "chain.interval": 10}


def advice(found=None, *, curve=None, findings=(), **how):
    answers = advised(findings, curve or curves(2.0, 2.0), found or spreads(), **how)
    return {answer.question for answer in answers if answer.verdict == "attention"}


@pytest.mark.parametrize(
    ("changes", "topics"),
    [
        ({}, set()),
        ({"found": spreads(held=0.1)}, {"prior and pruning"}),
        ({"found": spreads(near_zero=2)}, {"groups"}),
        ({"found": spreads(near_zero=99)}, {"groups"}),
        ({"found": spreads(near_zero=98)}, set()),
        ({"curve": curves(89.0, 89.0)}, {"what was learned"}),
        ({"curve": curves(4.0, 4.0, guessed=4.2)}, {"what was learned"}),
        ({"curve": curves(80.0, 80.0)}, set()),
        ({"found": spreads(threshold=2e-4)}, {"noise and pruning"}),
        ({"too_alike": True, "changes": ONE_CHAIN}, {"members"}),
        ({"too_alike": True}, set()),
        ({"curve": curves(5.0, 2.0)}, {"noise in the samples"}),
        ({"curve": curves(2.0, 2.5)}, {"pruning and retraining"}),
        ({"findings": [Finding("noise", None, "attention", "x")]}, {"noise"}),
    ],
)
def test_advice_is_given_where_something_is_wrong(changes, topics):
    assert advice(**changes) == topics


@pytest.mark.parametrize(
    ("task", "key", "together", "alone", "diversity", "alike"),
    [
        # Classifiers should differ on a fifth of what they get wrong, others gain a percent.
        (Classification(), "error", 0.02, 0.02, 0.002, True),
        (Classification(), "error", 0.02, 0.02, 0.02, False),
        (LanguageModelling(), "perplexity", 100.0, 100.5, 0.0, True),
        (LanguageModelling(), "perplexity", 100.0, 103.0, 0.0, False),
        (Regression(), "rmse", 50.0, 50.2, 0.0, True),
        (Regression(), "rmse", 50.0, 52.0, 0.0, False),
    ],
)
def test_members_are_too_alike_where_averaging_gains_nothing(
    task, key, together, alone, diversity, alike
):
    score = Score(
        count=9, curve={key: [alone, together]}, members={key: [alone] * 2}, diversity=diversity
    )
    assert task.too_alike(score) is alike


def test_what_wants_attention_comes_first():
    answers = advised((), curves(2.0, 2.5), None)
    assert [a.verdict for a in answers] == ["attention", "good"]


@pytest.mark.parametrize(
    ("sampled", "remedy"),
    [(89.0, "lengthen the chain"), (40.0, "prune less")],
)
def test_networks_that_guess_are_told_what_to_change(sampled, remedy):
    found = advised((), curves(sampled, 89.0), spreads())
    (told,) = [a for a in found if a.question == "what was learned"]
    assert "error 89.00 %, a guess that looks at no inputs has error 90.00 %" in told.text
    assert remedy in told.text
    assert [a.question for a in found if a.verdict == "good"] == ["prior and pruning", "groups"]


def test_a_prior_that_holds_everything_near_zero_is_too_strong():
    found = advised((), curves(2.0, 2.0), spreads(near_zero=100))
    assert (found[0].question, found[0].verdict) == ("groups", "attention")
    assert "lower the penalty" in found[0].text
    assert "prior and pruning" not in {a.question for a in found}


@pytest.mark.parametrize(
    ("verdict", "text"),
    [("neutral", "trace too short to judge"), ("good", "the potential is stationary")],
)
def test_what_could_not_be_judged_is_not_called_good(verdict, text):
    finding = Finding("stationarity", None, verdict, text)
    found = advised((finding,), curves(2.0, 2.0), None)
    assert [a.verdict for a in found if a.question == "stationarity"] == [verdict]


def test_advice_judged_on_test_images_says_so(image_facts, text_facts):
    told = {a.question: a.judged_on for a in image_facts.advice}
    for topic in ("members", "pruning and retraining"):
        assert told[topic] == (
            "the 897 test examples of digits: choose settings on validation data, data.validation"
        )
    assert told["noise"] == told["groups"] == ""
    # Of language models on the validation text, which is for choosing.
    assert {a.judged_on for a in text_facts.advice} == {""}


def test_advice_judged_on_held_out_images_needs_no_warning(tmp_path):
    run_recipe(load_recipe("digits", CLASSES | {"data.validation": 100}), tmp_path)
    assert {a.judged_on for a in collect(tmp_path).advice} == {""}


# --- the background --------------------------------------------------------------------------


@pytest.mark.parametrize("name", builtin_names())
def test_a_recipe_written_out_loads_to_the_same(name):
    recipe = load_recipe(name)
    assert Recipe.read(tomllib.loads(recipe_text(recipe)), source="text") == recipe


def test_sums_of_priors_and_strange_texts_are_written_out_too():
    recipe = load_recipe("digits").model_copy(
        update={
            "prior": SumPrior(terms=(Gaussian(penalty=1e-5), GroupSparse(penalty=2e-5))),
            "description": 'a "quoted" \\ tab\t, ü, \x7f\nand a second line',
        }
    )
    assert Recipe.read(tomllib.loads(recipe_text(recipe)), source="text") == recipe


def test_files_are_listed_with_their_sizes(class_run, image_facts):
    files = dict(image_facts.background.files)
    assert files["result.json"] == (class_run / "result.json").stat().st_size
    assert ".lock" not in files
    assert image_facts.background.environment["torch"] == torch.__version__


# --- what cannot be reported -----------------------------------------------------------------


def test_what_is_no_finished_run_is_refused(class_run, tmp_path):
    with pytest.raises(InputError, match="is not a run folder"):
        collect(tmp_path)
    folder = shutil.copytree(class_run, tmp_path / "run")
    (folder / "result.json").unlink()
    with pytest.raises(InputError, match="is not finished: sparsemble resume"):
        collect(folder)


def test_a_run_without_named_data_is_refused(class_run, tmp_path):
    recipe = load_recipe("digits", CLASSES | {"chain.epochs": 6})
    bare = recipe.model_copy(update={"data": None, "network": None})
    learn(lambda: feedforward(64, [5], 10), digits()[0], bare, folder=tmp_path / "run")
    with pytest.raises(InputError, match="names no data or no network"):
        collect(tmp_path / "run")


def test_missing_and_changed_data_are_told(tmp_path):
    words = grammar().vocabulary.decode(grammar().train[:2000])
    folder = tmp_path / "texts"
    folder.mkdir()
    for part in ("train", "valid", "test"):
        (folder / f"{part}.txt").write_text(" ".join(words).replace("<eos>", "\n"))
    changes = TEXT | {"data": {"name": "text", "path": str(folder)}, "chain.epochs": 1}
    changes = {k: v for k, v in changes.items() if k != "data.portion"}
    run_recipe(load_recipe("grammar", changes), tmp_path / "run")
    with pytest.raises(InputError, match=f"reads files outside of it.* --read {folder}"):
        collect(tmp_path / "run")
    assert collect(tmp_path / "run", files=[folder]).summary.measured_on == "the test text of texts"
    (folder / "train.txt").write_text(" ".join(words[::-1]).replace("<eos>", "\n"))
    with pytest.raises(InputError, match="learned on other data"):
        collect(tmp_path / "run", files=[folder])
    shutil.rmtree(folder)
    with pytest.raises(InputError, match="texts does not exist"):
        collect(tmp_path / "run", files=[folder])


def test_code_of_the_users_own_must_be_named(tmp_path, monkeypatch):
    (tmp_path / "mine_for_reports.py").write_text(
        "import torch\nfrom sparsemble.data import digits\n"
        "def data(): return digits()\n"
        "def network(): return torch.nn.Sequential(torch.nn.Linear(64, 12), torch.nn.ReLU(), "
        "torch.nn.Linear(12, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    named = ("mine_for_reports:data", "mine_for_reports:network")
    changes = {k: v for k, v in CLASSES.items() if k != "network.hidden"}
    changes |= {
        "data": {"name": "custom", "loader": named[0]},
        "network": {"kind": "custom", "factory": named[1]},
    }
    run_recipe(load_recipe("digits", changes), tmp_path / "run")
    with pytest.raises(InputError, match="runs code of your own: name it with --code"):
        collect(tmp_path / "run", code=named[:1])
    assert collect(tmp_path / "run", code=named).sizes.dense.units == (64, 12, 10)


def test_samples_may_lie_elsewhere_or_be_gone(class_run, image_facts, tmp_path):
    folder = shutil.copytree(class_run, tmp_path / "run")
    (folder / "chain").rename(tmp_path / "samples")
    facts = collect(folder)
    assert [c.stage for c in facts.curves[0].stages] == ["retrained"]
    assert (facts.has_samples, facts.spreads) == (False, None)
    assert facts.pictures[0][0].learned is None
    assert collect(folder, samples_folder=tmp_path / "samples").curves == image_facts.curves


def test_a_damaged_sample_is_told(class_run, tmp_path):
    folder = shutil.copytree(class_run, tmp_path / "run")
    file = next((folder / "chain").glob("*/sample-*"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFileError, match=file.name):
        collect(folder)


def test_files_of_another_run_are_told(class_run, text_run, tmp_path):
    folder = shutil.copytree(class_run, tmp_path / "run")
    first, second, _ = sorted((folder / "chain").glob("*/sample-*"))
    shutil.copy(second, first)
    with pytest.raises(CorruptFileError, match="is not the sample that its name"):
        collect(folder)
    shutil.rmtree(folder / "ensemble")
    shutil.copytree(text_run / "ensemble", folder / "ensemble")
    with pytest.raises(CorruptFileError, match="its ensemble or result is not of the run"):
        collect(folder)


def test_dense_ensembles_have_one_stage(tmp_path):
    changes = {"chain.chains": 2, "chain.epochs": 2, "chain.interval": 2, "network.hidden": [8]}
    run_recipe(load_recipe("digits-sgd-ensemble", changes), tmp_path)
    facts = collect(tmp_path)
    assert [c.stage for c in facts.curves[0].stages] == ["sampled"]
    assert facts.sizes.target_sparsity is None
    assert facts.pictures[0][0].kept == 1.0
    assert (facts.spreads.width, facts.spreads.thresholds) == (None, {})
    assert facts.summary.verdict.startswith("2 networks, averaged, reach error")


def test_a_run_that_lost_all_its_weights_is_told_so(tmp_path):
    run_recipe(load_recipe("digits", CLASSES | {"prune.sparsity": 0.99999}), tmp_path)
    facts = collect(tmp_path)
    assert facts.summary.contenders[1].parameters == facts.summary.contenders[1].flops == 0
    shown = " ".join(str(section) for section in facts.predictions)
    assert "The members disagree about no example more than others, so none is shown." in shown
    wanting = {a.question for a in facts.advice if a.verdict == "attention"}
    assert "what was learned" in wanting
