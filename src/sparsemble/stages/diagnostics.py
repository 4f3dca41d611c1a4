"""Chain diagnostics in plain words: what a user can act on.

Four questions. Does the injected noise dominate the gradient, or vanish beside it? Is the trace of
the potential stationary after burn-in? Did the chain jump, so that means of it were useless? Do the
members predict differently?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from sparsemble.stages.history import EpochRecord, Jump

_ALIKE = 1e-3
"""Members that differ by less predict as one."""
Verdict = Literal["attention", "neutral", "good"]


@dataclass(frozen=True)
class Finding:
    """One answer: what was asked, the measured figure, and advice if something should change."""

    question: str
    figure: float | None
    verdict: Verdict
    text: str


def diagnose(
    epochs: Sequence[EpochRecord],
    *,
    burn_in: int,
    jumps: Sequence[Jump] = (),
    diversity: float | None = None,
    diversity_text: str = "",
    seen: bool = False,
) -> list[Finding]:
    """Findings for the chains that `epochs` tell of.

    Args:
        epochs: What the chains recorded.
        burn_in: Epochs that are not judged.
        jumps: Means that were useless.
        diversity: How differently the members predict, as their task measures it.
        diversity_text: The same in words.
        seen: Were the members trained on the examples it was measured on?
    """
    settled = [record for record in epochs if record.stage == "chain" and record.epoch > burn_in]
    findings = []
    if settled:
        findings.append(_noise(settled))
        findings.append(_stationarity(settled))
    if jumps:
        findings.append(_jumps(jumps))
    if diversity is not None:
        findings.append(_diversity(diversity, diversity_text, seen=seen))
    return findings


def _noise(settled: Sequence[EpochRecord]) -> Finding:
    ratios = sorted(r.noise_to_drift for r in settled if math.isfinite(r.noise_to_drift))
    if not ratios:
        return Finding("noise", None, "neutral", "there was no gradient to compare the noise with")
    ratio = ratios[len(ratios) // 2]
    text = f"injected noise is {ratio:.2g} times the gradient step"
    if ratio > 30:
        text += ": it dominates; lower the temperature"
        return Finding("noise", ratio, "attention", text)
    if 0 < ratio < 0.03:
        text += ": it vanishes, the chain is nearly plain SGD; raise the temperature"
        return Finding("noise", ratio, "attention", text)
    return Finding("noise", ratio, "good", text)


def _stationarity(settled: Sequence[EpochRecord]) -> Finding:
    """Compare the first fifth with the last half of the potential, in standard errors (Geweke)."""
    scores = []
    for chain in {record.chain for record in settled}:
        values = torch.tensor([r.potential for r in settled if r.chain == chain]).double()
        if len(values) >= 10:
            first, last = values[: len(values) // 5], values[len(values) // 2 :]
            spread = first.var(correction=0) / len(first) + last.var(correction=0) / len(last)
            difference = float(last.mean() - first.mean())
            scores.append(difference / math.sqrt(float(spread) + 1e-24))
    if not scores:
        return Finding("stationarity", None, "neutral", "trace too short to judge")
    score = max(scores, key=abs)
    if score < -4:
        text = f"the potential still falls after burn-in (z = {score:.1f}); lengthen the burn-in"
        return Finding("stationarity", score, "attention", text)
    if score > 4:
        text = f"the potential rises after burn-in (z = {score:.1f}); lower the learning rate"
        return Finding("stationarity", score, "attention", text)
    return Finding("stationarity", score, "good", f"the potential is stationary (z = {score:.1f})")


def _jumps(jumps: Sequence[Jump]) -> Finding:
    worst = max(jumps, key=lambda jump: jump.mean - jump.iterate)
    text = (
        f"{len(jumps)} means of the chain's weights were useless (loss {worst.mean:.3g} against "
        f"{worst.iterate:.3g} of the last iterate, which was taken instead): it jumped, or was "
        "still on its way; lower the learning rate or lengthen the burn-in"
    )
    return Finding("jumps", float(len(jumps)), "attention", text)


def _diversity(diversity: float, text: str, *, seen: bool) -> Finding:
    if diversity >= _ALIKE:
        return Finding("diversity", diversity, "good", text)
    if seen:
        text += ", which they learned from: only validation data could tell how different they are"
        return Finding("diversity", diversity, "neutral", text)
    text += ": they are nearly alike; raise the interval, the learning rate or the temperature"
    return Finding("diversity", diversity, "attention", text)
