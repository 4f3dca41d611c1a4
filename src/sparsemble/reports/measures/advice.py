"""What the run says about its own settings, in plain words, with what to change.

The findings kept with the result are about the chain. Added here are questions that need the
samples and the evaluation set: was anything learned, did the prior make the sparsity that pruning
asks for, do the members differ where it counts, did retraining make up for what pruning cost?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import get_args

from sparsemble.reports.measures.curves import Curves
from sparsemble.reports.measures.spreads import Spreads
from sparsemble.stages.diagnostics import Finding, Verdict

_FEW_GROUPS = 0.05
"""With fewer groups near zero than this, pruning finds little structure."""
_ALL_GROUPS = 0.98
"""With more near zero than this, the prior or the noise has left nothing to learn with."""
_GUESSING = 0.9
"""A network whose metric is above this share of a guess's has learned little."""
_HELD = 0.5
"""At least this share of what pruning cuts should have been held near zero by the prior."""
_NOISY = 2.0
"""A sample this many times worse than what retraining makes of it is mostly noise."""
_LOST = 1.05
"""Retraining should bring the pruned ensemble back within this factor of the samples'."""


@dataclass(frozen=True)
class Advice:
    """One answer: the question, whether something should change, and what.

    `judged_on` names the test examples, and what to choose settings on instead, if it took them.
    """

    topic: str
    verdict: Verdict
    text: str
    judged_on: str = ""


def advise(
    findings: Sequence[Finding],
    curves: Curves,
    spreads: Spreads | None,
    *,
    sparsity: float | None,
    diversity: str,
    too_alike: bool,
    rollbacks: int,
    judged_on: str = "",
) -> tuple[Advice, ...]:
    """All answers, those that want attention first.

    `diversity` says how differently members predict, `too_alike` whether that is too little;
    `judged_on` names what the curves were measured on if that is no data to choose settings on.
    """
    answers = [Advice(f.question, f.verdict, f.text) for f in findings]
    if spreads is not None and sparsity is not None:
        answers += _about_sparsity(spreads, sparsity)
    measured = _about_curves(curves, diversity, too_alike, pruned=sparsity is not None)
    answers += [replace(answer, judged_on=judged_on) for answer in measured]
    if rollbacks:
        times = "once" if rollbacks == 1 else f"{rollbacks} times"
        text = f"a chain diverged and was rolled back {times}; a lower learning rate is safer"
        answers.append(Advice("divergence", "attention", text))
    order = get_args(Verdict)
    return tuple(sorted(answers, key=lambda answer: order.index(answer.verdict)))


def _about_sparsity(spreads: Spreads, sparsity: float) -> list[Advice]:
    """Can magnitude pruning tell the weights that matter from those the prior holds at zero?"""
    if spreads.width is None or spreads.thermal is None or not spreads.thresholds:
        return []
    near = 100 * spreads.near_zero
    share = f"{near:.1f} % of the groups are near zero in the last sample"
    if spreads.near_zero > _ALL_GROUPS:
        share += (
            ": hardly a unit is left to learn with, and what pruning keeps is little but chance; "
            "take a weaker prior (prior.penalty) or a lower temperature"
        )
        return [Advice("groups", "attention", share)]
    threshold, width = min(spreads.thresholds.values()), spreads.width
    cut = min(1.0, spreads.held / sparsity) if sparsity else 1.0
    shown = (
        f"of the weights that pruning cuts (below {threshold:.2g}) the prior held "
        f"{100 * cut:.0f} % near zero (below {width:.2g})"
    )
    if threshold < spreads.thermal:
        strength = Advice(
            "noise and pruning",
            "attention",
            f"the noise alone gives weights a size of {spreads.thermal:.2g}, more than the pruning "
            f"threshold of {threshold:.2g}: magnitudes cannot tell what matters; lower the "
            "temperature or raise the penalty",
        )
    elif threshold > width and cut < _HELD:
        strength = Advice(
            "prior and pruning",
            "attention",
            f"{shown}: it is too weak for a sparsity of {100 * sparsity:g} %, and retraining has "
            "to make up for the rest; raise the penalty, run longer, or prune less",
        )
    else:
        strength = Advice("prior and pruning", "good", shown)
    if spreads.near_zero < _FEW_GROUPS:
        share += ": whole units will hardly go, so FLOPs stay high; raise the penalty"
        return [strength, Advice("groups", "attention", share)]
    return [strength, Advice("groups", "good", share)]


def _about_curves(curves: Curves, diversity: str, too_alike: bool, *, pruned: bool) -> list[Advice]:
    """What the networks do with data they were not trained on."""
    answers = _about_members(curves, diversity, too_alike) + _about_stages(curves)
    guessing = _about_guessing(curves, pruned=pruned)
    if guessing is None:
        return answers
    # Networks that guess may agree or differ as they like: nothing about them is good.
    return [
        guessing,
        *(replace(a, verdict="neutral") if a.verdict == "good" else a for a in answers),
    ]


def _about_guessing(curves: Curves, *, pruned: bool) -> Advice | None:
    """Do the members know more than how frequent targets are?"""
    if curves.guessed is None or curves.metric.better != "lower":
        return None
    reached, limit = curves.final.together[-1], _GUESSING * curves.guessed
    if reached <= limit:
        return None
    text = (
        f"together the members have {_shown(curves, reached)}, a guess that looks at no inputs has "
        f"{_shown(curves, curves.guessed)}"
    )
    sampled = curves.of("sampled")
    if pruned and sampled is not None and sampled.together[-1] <= limit:
        text += ": pruning took what had been learned; ask for less sparsity, or retrain longer"
    else:
        less = ", or less sparsity" if pruned else ""
        text += (
            ": hardly anything was learned; take a weaker prior (prior.penalty), a lower "
            f"temperature, more epochs{less}"
        )
    return Advice("what was learned", "attention", text)


def _about_members(curves: Curves, diversity: str, too_alike: bool) -> list[Advice]:
    """Do they differ where it counts, on data they were not trained on?"""
    final = curves.final
    if len(final.alone) < 2:
        return []
    alone, together = mean(final.alone), final.together[-1]
    text = (
        f"{diversity}; averaging takes the {_shown(curves, alone)} of one to "
        f"{_shown(curves, together)}"
    )
    if too_alike:
        text += ": they are too alike; more chains, a longer interval or a higher lr help"
    return [Advice("members", "attention" if too_alike else "good", text)]


def _about_stages(curves: Curves) -> list[Advice]:
    sampled, final = curves.of("sampled"), curves.final
    if sampled is None or final.stage == "sampled" or curves.metric.better != "lower":
        return []
    answers = []
    before, after = mean(sampled.alone), mean(final.alone)
    compared = f"a sample has {_shown(curves, before)}, a final member {_shown(curves, after)}"
    if before > _NOISY * after:
        text = f"{compared}: noise or rate is high; lower the temperature or the learning rate"
        answers.append(Advice("noise in the samples", "attention", text))
    kept, lost = sampled.together[-1], final.together[-1]
    text = f"the samples together have {_shown(curves, kept)}, the members {_shown(curves, lost)}"
    if lost > _LOST * kept:
        text += ": pruning cost more than retraining gave back; prune less or retrain longer"
        answers.append(Advice("pruning and retraining", "attention", text))
    else:
        answers.append(Advice("pruning and retraining", "good", text))
    return answers


def _shown(curves: Curves, value: float) -> str:
    unit = " %" if curves.metric.factor != 1 else ""
    return f"{curves.metric.name} {curves.metric.text(value / curves.metric.factor)}{unit}"
