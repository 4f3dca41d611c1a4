"""Chain diagnostics in plain words: what a user can act on.

Three questions. Does the injected noise dominate the gradient, or vanish beside it? Is the trace of
the potential stationary after burn-in? Do the members predict differently?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sparsemble.stages.history import EpochRecord

Verdict = Literal["attention", "neutral", "good"]


@dataclass(frozen=True)
class Finding:
    """One answer: what was asked, the measured figure, and advice if something should change."""

    question: str
    figure: float
    verdict: Verdict
    text: str


def diagnose(
    epochs: Sequence[EpochRecord],
    *,
    burn_in: int,
    labels: Tensor | None = None,
    labels_of: str = "examples",
    seen: bool = False,
) -> list[Finding]:
    """Findings for the chains that `epochs` tell of.

    `labels` are the members' predictions, `(members, examples)`, for what `labels_of` says;
    `seen` if they were trained on that.
    """
    settled = [record for record in epochs if record.stage == "chain" and record.epoch > burn_in]
    findings = []
    if settled:
        findings.append(_noise(settled))
        findings.append(_stationarity(settled))
    if labels is not None and len(labels) > 1:
        findings.append(_diversity(labels, labels_of, seen=seen))
    return findings


def _noise(settled: Sequence[EpochRecord]) -> Finding:
    ratios = sorted(r.noise_to_drift for r in settled if math.isfinite(r.noise_to_drift))
    ratio = ratios[len(ratios) // 2] if ratios else math.inf
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
        return Finding("stationarity", math.nan, "neutral", "trace too short to judge")
    score = max(scores, key=abs)
    if score < -4:
        text = f"the potential still falls after burn-in (z = {score:.1f}); lengthen the burn-in"
        return Finding("stationarity", score, "attention", text)
    if score > 4:
        text = f"the potential rises after burn-in (z = {score:.1f}); lower the learning rate"
        return Finding("stationarity", score, "attention", text)
    return Finding("stationarity", score, "good", f"the potential is stationary (z = {score:.1f})")


def _diversity(labels: Tensor, of: str, *, seen: bool) -> Finding:
    majority = labels.mode(0).values
    error = float((labels != majority).float().mean())
    text = f"a member differs from the majority on {100 * error:.2f} % of the {of}"
    if error < 1e-3 and seen:
        text += ", which they fit: only validation data could tell how different they are"
        return Finding("diversity", error, "neutral", text)
    if error < 1e-3:
        return Finding(
            "diversity",
            error,
            "attention",
            text + ": they are nearly alike; raise the interval, rate or temperature",
        )
    return Finding("diversity", error, "good", text)
