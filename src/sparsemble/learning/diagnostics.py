"""Chain diagnostics in plain words: what a user can act on.

Did anything diverge? Was anything learned? Does the injected noise dominate the gradient, or vanish
beside it? Is the trace of the potential stationary after burn-in? Did the chain jump, so that means
of it were useless? Do the members predict differently? Where validation data chose the members,
neither a trace that moves nor members that are alike are a defect; a chain that was too short is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import torch

from sparsemble.learning.candidates import Candidate
from sparsemble.learning.findings import Finding, Findings, Remedy
from sparsemble.learning.remedies import (
    LR,
    PENALTY,
    RETRAIN_LR,
    TEMPERATURE,
    is_found,
    longer_burn_in,
    longer_chain,
    more_chains,
    scaled,
)
from sparsemble.learning.spending import saved_by_shedding, stage_cost
from sparsemble.recipes import Recipe
from sparsemble.stages import EpochRecord, History, Jump, Rollback

_ALIKE = 1e-3
"""Members that differ by less predict as one."""
_LEAST, _MOST = 0.03, 30.0
"""Noise beyond these times the gradient step vanishes, or dominates;"""
_LITTLE, _MUCH = 0.3, 3.0
"""what it should then become."""
_POSTERIOR = 1.0
"""The temperature above which nothing is sampled that has a name."""
_DRIFT = 0.02
"""A potential that moves by less than this share of its range since the start is stationary."""
_STUCK = 0.95, 1.25
"""A loss between these shares of that of guessing has learned nothing."""
_STEADY = 0.8
"""A loss that falls in so many of its epochs is only slow."""
ALL_GROUPS = 0.98
"""With more groups near zero than this, the prior or the noise has left nothing to learn with."""
SLOWER = 0.5
"""What a learning rate that is too high is multiplied by;"""
_FAR = 0.1
"""any setting, if nothing was learned by it."""


@dataclass(frozen=True)
class Diversity:
    """How differently members predict, as their task measures it, and in words.

    `seen`: were they trained on the examples it was measured on?
    """

    figure: float
    text: str
    seen: bool


def diagnose(
    history: History,
    recipe: Recipe,
    *,
    chosen: Candidate | None = None,
    diversity: Diversity | None = None,
    guess: float = math.nan,
    better: str = "lower",
    steps: int = 1,
) -> Findings:
    """Findings about the chains of a run.

    Args:
        history: What was recorded.
        recipe: What was run.
        chosen: What validation data chose, if members were chosen.
        diversity: How differently the members predict.
        guess: The loss of knowing nothing, if it is known.
        better: Which figures of samples are, `lower` or `higher` ones?
        steps: Of an epoch; cycles may be shorter than that.
    """
    found = Findings(settable=not is_found(recipe))
    begins = _settled_from(recipe, steps)
    settled = [r for r in history.epochs if r.stage == "chain" and r.epoch > begins]
    stuck = bool(settled) and _is_stuck(settled, guess)
    if stuck:
        _learning(found, settled, recipe, guess)
    elif settled:
        _noise(found, settled, recipe)
    if history.rollbacks:
        _divergence(found, history.rollbacks, recipe)
    if stuck:
        return found  # nothing else about such a chain means anything
    if settled:
        _stationarity(found, history.epochs, settled, recipe)
    if _is_judged(recipe) and _is_gaining(history, better):
        text = "samples were still getting better on validation data when the chain ended"
        found.add(Finding("length", None, "attention", text), longer_chain(recipe))
    if history.jumps:
        _jumps(found, history.jumps, recipe)
    if history.sheds:
        _shedding(found, history)
    if chosen is not None:
        text = f"validation data chose {chosen}"
        found.add(Finding("choice", float(chosen.members), "good", text))
    if diversity is not None:
        _diversity(found, diversity, recipe)
    return found


def add_alike(found: Findings, finding: Finding, recipe: Recipe) -> None:
    """Add what was found of members that predict nearly the same."""
    if recipe.choose:
        found.add(finding.extended(": they do little more than one averaged network would"))
    elif (remedy := more_chains(recipe)) is None:
        found.add(finding.extended(": nearly alike, of a chain each; fewer would do as well"))
    else:
        found.add(finding.extended(": they are nearly alike", "attention"), remedy)


def _is_judged(recipe: Recipe) -> bool:
    """Did validation data say which samples to take?"""
    return recipe.choose or recipe.chain.patience is not None


def _settled_from(recipe: Recipe, steps: int) -> int:
    """The epoch after which chains are judged: where what is sampled begins.

    Of iterates it is half-way to the first one, if that is later than the burn-in.
    """
    chain = recipe.chain
    first = math.ceil(chain.steps_to_collect(steps)[0] / steps)
    if chain.collection == "means":
        return first - chain.interval
    return max(chain.burn_in, first // 2)


def _is_gaining(history: History, better: str) -> bool:
    """Are the last two samples of a chain its best two, the very last above all?"""
    sign = {"lower": 1, "higher": -1}.get(better, 0)
    for chain in {record.chain for record in history.samples}:
        own = [r for r in history.samples if (r.stage, r.chain) == ("chain", chain)]
        *before, second, last = [sign * r.alone for r in own] if len(own) >= 4 else [0.0] * 3
        if last < second < min(before):
            return True
    return False


def _divergence(found: Findings, rollbacks: Sequence[Rollback], recipe: Recipe) -> None:
    chains = sum(rollback.stage == "chain" for rollback in rollbacks)
    slower, cooler = scaled(recipe, LR, SLOWER), scaled(recipe, TEMPERATURE, _FAR)
    _diverged(found, "a chain", chains, slower, cooler)
    calmer = scaled(recipe, RETRAIN_LR, SLOWER)
    _diverged(found, "retraining", len(rollbacks) - chains, calmer)


def _diverged(found: Findings, what: str, count: int, *remedies: Remedy | None) -> None:
    if count:
        times = "once" if count == 1 else f"{count} times"
        text = f"{what} diverged and was rolled back {times}"
        found.add(Finding("divergence", float(count), "attention", text), *remedies)


def _is_stuck(settled: Sequence[EpochRecord], guess: float) -> bool:
    low, high = _STUCK
    return low * guess < median(record.loss for record in settled) < high * guess


def _learning(
    found: Findings, settled: Sequence[EpochRecord], recipe: Recipe, guess: float
) -> None:
    """What keeps a chain from learning: noise, the prior, or a rate too low or too high?"""
    losses = [record.loss for record in settled if record.chain == settled[0].chain]
    falls = sum(after < before for before, after in pairwise(losses))
    ratio = _noise_ratio(settled) or 0.0
    if ratio > _MOST:
        remedy = scaled(recipe, TEMPERATURE, (_MUCH / ratio) ** 2)
    elif settled[-1].near_zero_groups > ALL_GROUPS:
        remedy = scaled(recipe, PENALTY, _FAR)
    elif falls > _STEADY * (len(losses) - 1):
        remedy = scaled(recipe, LR, 1 / _FAR)
    else:
        remedy = scaled(recipe, LR, _FAR)
    text = f"the loss of the chain is {median(losses):.3g}, that of a guess {guess:.3g}"
    finding = Finding("learning", median(losses), "attention", f"{text}: nothing was learned")
    found.add(finding, remedy, Remedy("look at the data, and at how they are scaled"))


def _noise_ratio(settled: Sequence[EpochRecord]) -> float | None:
    ratios = [r.noise_to_drift for r in settled if math.isfinite(r.noise_to_drift)]
    return median(ratios) if ratios else None


def _noise(found: Findings, settled: Sequence[EpochRecord], recipe: Recipe) -> None:
    """The ratio goes with the root of the temperature."""
    ratio = _noise_ratio(settled)
    if ratio is None:
        text = "there was no gradient to compare the noise with"
        found.add(Finding("noise", None, "neutral", text))
        return
    text = f"injected noise is {ratio:.2g} times the gradient step"
    finding = Finding("noise", ratio, "good", text)
    if ratio > _MOST:
        cooler = scaled(recipe, TEMPERATURE, (_MUCH / ratio) ** 2)
        found.add(finding.extended(": it dominates", "attention"), cooler)
    elif 0 < ratio < _LEAST:
        hotter = scaled(recipe, TEMPERATURE, (_LITTLE / ratio) ** 2, most=_POSTERIOR)
        nearly = ": it vanishes, the chain is nearly plain SGD"
        found.add(finding.extended(nearly, "attention"), hotter)
    else:
        found.add(finding)


def _stationarity(
    found: Findings, epochs: Sequence[EpochRecord], settled: Sequence[EpochRecord], recipe: Recipe
) -> None:
    """Compare the first fifth with the last half of the potential, in standard errors (Geweke)."""
    moved = [_moved(epochs, settled, chain) for chain in {record.chain for record in settled}]
    scores = [score for score in moved if score is not None]
    if not scores:
        found.add(Finding("stationarity", None, "neutral", "trace too short to judge"))
        return
    score = max(scores, key=abs)
    shown = f"(z = {score:.1f})" if score else "but for a little"
    if abs(score) <= 4:
        text = f"the potential is stationary {shown}"
        found.add(Finding("stationarity", score, "good", text))
        return
    text = f"the potential {'still falls' if score < 0 else 'rises'} after burn-in {shown}"
    finding = Finding("stationarity", score, "attention", text)
    if _is_judged(recipe):
        found.add(finding.extended(": no defect, validation data judged the samples"))
    elif score < 0:
        found.add(finding, longer_burn_in(recipe))
    else:
        slower, cooler = scaled(recipe, LR, SLOWER), scaled(recipe, TEMPERATURE, _FAR)
        found.add(finding, slower, cooler)


def _moved(
    epochs: Sequence[EpochRecord], settled: Sequence[EpochRecord], chain: int
) -> float | None:
    """By how many standard errors one chain's potential moved, 0 if that is next to nothing."""
    values = torch.tensor([r.potential for r in settled if r.chain == chain]).double()
    if len(values) < 10:
        return None
    first, last = values[: len(values) // 5], values[len(values) // 2 :]
    difference = float(last.mean() - first.mean())
    whole = [r.potential for r in epochs if (r.stage, r.chain) == ("chain", chain)]
    if abs(difference) < _DRIFT * (max(whole) - min(whole)):
        return 0.0
    spread = first.var(correction=0) / len(first) + last.var(correction=0) / len(last)
    return difference / math.sqrt(float(spread) + 1e-24)


def _shedding(found: Findings, history: History) -> None:
    """Of the chain that got smallest, what it had left in the end; of all, what that saved."""
    ends = list({shed.chain: shed for shed in history.sheds}.values())
    smallest = min(ends, key=lambda shed: shed.flops)
    left = ", ".join(
        f"{name} {smallest.of[name]} → {count}"
        for name, count in smallest.left.items()
        if count < smallest.of[name]
    )
    chains = f"{len(ends)} chains" if len(ends) > 1 else "the chain"
    text = (
        f"units that the prior held at zero left {chains}, from epoch "
        f"{min(shed.epoch for shed in history.sheds)} on ({left}): a step took "
        f"{smallest.flops:.2f} of its FLOPs in the end"
    )
    saved, taken = saved_by_shedding(history), stage_cost("chain", history).flops
    if taken:
        text += f", which saved {saved / (saved + taken):.0%} of the sampling"
    found.add(Finding("size", smallest.flops, "good", text))


def _jumps(found: Findings, jumps: Sequence[Jump], recipe: Recipe) -> None:
    worst = max(jumps, key=lambda jump: jump.mean - jump.iterate)
    text = (
        f"{len(jumps)} means of the chain's weights were useless (loss {worst.mean:.3g} against "
        f"{worst.iterate:.3g} of the last iterate, which was taken instead)"
    )
    finding = Finding("jumps", float(len(jumps)), "attention", text)
    if _is_judged(recipe):
        found.add(finding.extended(": validation data judged what was"))
        return
    on_its_way = finding.extended(": it jumped, or was still on its way", "attention")
    found.add(on_its_way, scaled(recipe, LR, SLOWER), longer_burn_in(recipe))


def _diversity(found: Findings, diversity: Diversity, recipe: Recipe) -> None:
    finding = Finding("diversity", diversity.figure, "good", diversity.text)
    if diversity.figure >= _ALIKE:
        found.add(finding)
    elif diversity.seen:
        learned = (
            ", which they learned from: only validation data could tell how different they are"
        )
        found.add(finding.extended(learned))
    else:
        add_alike(found, finding, recipe)
