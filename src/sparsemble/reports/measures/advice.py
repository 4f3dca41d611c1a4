"""What the run says about its own settings, in plain words, with what to change.

The findings kept with the result are about the chain. Added here are questions that need the
samples and the evaluation set: was anything learned, did the prior make the sparsity that pruning
asks for, do the members differ where it counts, did retraining make up for what pruning cost?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean
from typing import get_args

from sparsemble.learning.diagnostics import ALL_GROUPS, SLOWER, add_alike
from sparsemble.learning.findings import Finding, Findings, Remedy, Severity
from sparsemble.learning.remedies import (
    LR,
    PENALTY,
    TEMPERATURE,
    is_found,
    less_sparsity,
    longer_burn_in,
    longer_chain,
    longer_retraining,
    scaled,
)
from sparsemble.recipes import Recipe
from sparsemble.reports.measures.curves import Curves
from sparsemble.reports.measures.spreads import Spreads

_FEW_GROUPS = 0.05
"""With fewer groups near zero than this, pruning finds little structure."""
_GUESSING = 0.9
"""A network whose metric is above this share of a guess's has learned little."""
_HELD = 0.5
"""At least this share of what pruning cuts should have been held near zero by the prior."""
_NOISY = 2.0
"""A sample this many times worse than what retraining makes of it is mostly noise."""
_LOST = 1.05
"""Retraining should bring the pruned ensemble back within this factor of the samples'."""
_BADLY = 2.0
"""Beyond this factor longer retraining is not enough."""
_STRONGER, _WEAKER = 3.0, 1 / 3
"""What penalties are multiplied by,"""
_COOLER = 0.1
"""and temperatures: it takes the noise to a third."""


def advise(
    findings: Sequence[Finding],
    curves: Curves,
    spreads: Spreads | None,
    recipe: Recipe,
    *,
    diversity: str,
    too_alike: bool,
    judged_on: str = "",
) -> tuple[Finding, ...]:
    """All findings, those that want attention first.

    Args:
        findings: What the run itself has told; its advice stands.
        curves: What the stages made of the networks.
        spreads: How large the weights of a sample are.
        recipe: What was run.
        diversity: How differently members predict, in words.
        too_alike: Is that too little?
        judged_on: What the curves were measured on, if that is no data to choose settings on.
    """
    found = Findings(findings, settable=not is_found(recipe))
    guesses = _guesses(curves)
    if spreads is not None and not _never_learned(found):
        _about_sparsity(found, spreads, recipe, guesses=guesses)
    told = len(found)
    if guesses:
        _about_guessing(found, curves, spreads, recipe)
    # Networks that guess may agree or differ as they like: nothing about them is good.
    good: Severity = "neutral" if guesses else "good"
    if len(curves.final.alone) > 1:
        finding = Finding("members", None, good, f"{diversity}; {_averaging(curves)}")
        if too_alike:
            add_alike(found, finding, recipe)
        else:
            found.add(finding)
    _about_stages(found, curves, recipe, good)
    found[told:] = [replace(finding, judged_on=judged_on) for finding in found[told:]]
    order = get_args(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.verdict)))


def _about_sparsity(found: Findings, spreads: Spreads, recipe: Recipe, *, guesses: bool) -> None:
    """Can magnitude pruning tell the weights that matter from those the prior holds at zero?"""
    sparsity = None if recipe.prune is None else recipe.prune.sparsity
    width, thermal = spreads.width, spreads.thermal
    if sparsity is None or width is None or thermal is None or not spreads.thresholds:
        return
    # A stronger prior is not what networks need that have learned nothing.
    stronger = None if guesses else scaled(recipe, PENALTY, _STRONGER)
    near = spreads.near_zero
    groups = Finding(
        "groups", near, "good", f"{100 * near:.1f} % of the groups are near zero in the last sample"
    )
    if near > ALL_GROUPS:
        left = ": hardly a unit is left to learn with, and what pruning keeps is little but chance"
        cures = [scaled(recipe, PENALTY, _WEAKER), scaled(recipe, TEMPERATURE, _COOLER)]
        by_noise = 3 * thermal >= width
        found.add(groups.extended(left, "attention"), *(reversed(cures) if by_noise else cures))
        return
    threshold = min(spreads.thresholds.values())
    cut = min(1.0, spreads.held / sparsity) if sparsity else 1.0
    held = Finding(
        "prior and pruning",
        cut,
        "good",
        f"of the weights that pruning cuts (below {threshold:.2g}) the prior held "
        f"{100 * cut:.0f} % near zero (below {width:.2g})",
    )
    if threshold < thermal:
        text = (
            f"the noise alone gives weights a size of {thermal:.2g}, more than the pruning "
            f"threshold of {threshold:.2g}: magnitudes cannot tell what matters"
        )
        cooler = scaled(recipe, TEMPERATURE, threshold / (3 * thermal))
        found.add(Finding("noise and pruning", thermal, "attention", text), cooler, stronger)
    elif threshold > width and cut < _HELD:
        weak = (
            f": it is too weak for a sparsity of {100 * sparsity:g} %, and retraining has to make "
            "up for the rest"
        )
        found.add(held.extended(weak, "attention"), stronger, less_sparsity(recipe, spreads.held))
    else:
        found.add(held)
    if near < _FEW_GROUPS:
        costly = ": whole units will hardly go, so FLOPs stay high"
        found.add(groups.extended(costly, "attention"), stronger)
    else:
        found.add(groups)


def _guesses(curves: Curves) -> bool:
    """Do the members know no more than how frequent targets are?"""
    return _is_guess(curves, curves.final.together[-1])


def _is_guess(curves: Curves, reached: float) -> bool:
    if curves.guessed is None or curves.metric.better != "lower":
        return False
    return reached > _GUESSING * curves.guessed


def _about_guessing(
    found: Findings, curves: Curves, spreads: Spreads | None, recipe: Recipe
) -> None:
    assert curves.guessed is not None
    finding = Finding(
        "what was learned",
        curves.final.together[-1],
        "attention",
        f"together the members have {_shown(curves, curves.final.together[-1])}, a guess that "
        f"looks at no inputs has {_shown(curves, curves.guessed)}",
    )
    sampled = curves.of("sampled")
    if recipe.prune is not None and sampled and not _is_guess(curves, sampled.together[-1]):
        taken = finding.extended(": pruning took what had been learned", "attention")
        held = None if spreads is None else spreads.held
        found.add(taken, less_sparsity(recipe, held), longer_retraining(recipe))
        return
    if _never_learned(found):
        found.append(finding.extended("; see learning", "attention"))
        return
    weaker = scaled(recipe, PENALTY, _WEAKER)
    cures = [longer_chain(recipe), weaker, scaled(recipe, TEMPERATURE, _COOLER)]
    if spreads is not None and spreads.near_zero > _HELD:
        cures.insert(0, weaker)
    if is_found(recipe):
        cures.append(Remedy("allow a larger budget"))
    nothing = finding.extended(": hardly anything was learned", "attention")
    found.add(nothing, *cures, scaled(recipe, LR, SLOWER))


def _never_learned(found: Findings) -> bool:
    """Has the run itself told that its chain learned nothing?"""
    return any(finding.question == "learning" for finding in found)


def _averaging(curves: Curves) -> str:
    alone, together = mean(curves.final.alone), curves.final.together[-1]
    return f"averaging takes the {_shown(curves, alone)} of one to {_shown(curves, together)}"


def _about_stages(found: Findings, curves: Curves, recipe: Recipe, good: Severity) -> None:
    """What did retraining make of the samples?"""
    sampled, final = curves.of("sampled"), curves.final
    if sampled is None or final.stage == "sampled" or curves.metric.better != "lower":
        return
    before, after = mean(sampled.alone), mean(final.alone)
    if before > _NOISY * after:
        text = (
            f"a sample has {_shown(curves, before)}, a final member {_shown(curves, after)}: "
            "retraining does most of the work"
        )
        finding = Finding(
            "noise in the samples", before / after if after else None, "attention", text
        )
        ratio = next((known.figure for known in found if known.question == "noise"), None)
        cures = [scaled(recipe, LR, SLOWER), scaled(recipe, TEMPERATURE, _COOLER)]
        if ratio is None or ratio > 1:
            cures.reverse()
        if _never_learned(found):
            found.append(finding.extended("; see learning", "attention"))
        else:
            found.add(finding, *cures, None if recipe.choose else longer_burn_in(recipe))
    kept, lost = sampled.together[-1], final.together[-1]
    text = f"the samples together have {_shown(curves, kept)}, the members {_shown(curves, lost)}"
    finding = Finding("pruning and retraining", lost / kept if kept else None, good, text)
    if lost <= _LOST * kept:
        found.add(finding)
    elif recipe.choose:
        found.add(finding.extended(": validation data found nothing better within the budget"))
    else:
        cost = finding.extended(": pruning cost more than retraining gave back", "attention")
        cures = [longer_retraining(recipe), less_sparsity(recipe)]
        found.add(cost, *(reversed(cures) if lost > _BADLY * kept else cures))


def _shown(curves: Curves, value: float) -> str:
    unit = " %" if curves.metric.factor != 1 else ""
    return f"{curves.metric.name} {curves.metric.text(value / curves.metric.factor)}{unit}"
