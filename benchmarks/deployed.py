"""Deployed ensembles: ONNX Runtime on an exported ensemble ÷ on one exported dense network."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
from feedforward_networks import DIGITS, MNIST_96, MNIST_HALF, Structure, sparse_ensemble
from timing import THREADS, report

from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.tasks import Classification

Key = tuple[str, int]
"""A side, and its number of threads."""
MOST = 1.2
"""How many times the ratio of FLOPs the ratio of times may be."""
BATCHES = ((1, 51, 50), (1000, 15, 1))
"""Examples at a time, rounds, and calls in each."""


def session(ensemble: Ensemble, threads: int) -> Callable[[np.ndarray], object]:
    """An ensemble in ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        ensemble.export(path)
        loaded = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: loaded.run(None, {"inputs": inputs})


def timed(
    contestants: Mapping[Key, Callable[[np.ndarray], object]],
    inputs: np.ndarray,
    rounds: int,
    repeats: int,
) -> dict[Key, float]:
    """Median seconds of each, in turn."""
    times: dict[Key, list[float]] = {key: [] for key in contestants}
    for _ in range(rounds):
        for key, call in contestants.items():
            call(inputs)
            began = time.perf_counter()
            for _ in range(repeats):
                call(inputs)
            times[key].append((time.perf_counter() - began) / repeats)
    return {key: statistics.median(own) for key, own in times.items()}


def predicting(name: str, count: int, structure: Structure) -> None:
    """Members ÷ one dense network, each at its better number of threads."""
    ensemble, dense = sparse_ensemble(count, structure), structure.dense().eval()
    alone = Ensemble([Member.dense(dense, layout_of(dense))], Classification())
    contestants = {
        (side, threads): session(own, threads)
        for side, own in (("ours", ensemble), ("dense", alone))
        for threads in THREADS
    }
    flops = ensemble.cost.flops_ratio
    for examples, rounds, repeats in BATCHES:
        inputs = np.random.default_rng(0).random((examples, structure.sizes[0]), np.float32)
        times = timed(contestants, inputs, rounds, repeats)
        ours, theirs = (
            min((times[side, threads], threads) for threads in THREADS)
            for side in ("ours", "dense")
        )
        label = f"ONNX Runtime, {examples}, {name} ÷ 1 dense (FLOPs ÷: {flops:.2f})"
        report(label, ours, theirs, MOST * flops)


def measure() -> None:
    """Print every measure."""
    predicting("18 of MNIST", 18, MNIST_96)
    predicting("6 of digits", 6, DIGITS)
    predicting("2 of MNIST", 2, MNIST_HALF)
