"""Deployed ensembles: ONNX Runtime on an exported ensemble ÷ on one exported dense network."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from feedforward_networks import DIGITS, MNIST_96, MNIST_HALF, Structure, sparse_ensemble
from timing import THREADS, report

from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.tasks import Classification

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
    contestants: Sequence[Callable[[np.ndarray], object]],
    inputs: np.ndarray,
    rounds: int,
    repeats: int,
) -> list[float]:
    """Median seconds of each, in turn."""
    times: list[list[float]] = [[] for _ in contestants]
    for _ in range(rounds):
        for call, own in zip(contestants, times, strict=True):
            call(inputs)
            began = time.perf_counter()
            for _ in range(repeats):
                call(inputs)
            own.append((time.perf_counter() - began) / repeats)
    return list(map(statistics.median, times))


def predicting(name: str, count: int, structure: Structure) -> None:
    """Members ÷ one dense network, each at its better number of threads."""
    ensemble, dense = sparse_ensemble(count, structure), structure.dense().eval()
    alone = Ensemble([Member.dense(dense, layout_of(dense))], Classification())
    pairs = {threads: [session(own, threads) for own in (ensemble, alone)] for threads in THREADS}
    flops = ensemble.cost.flops_ratio
    for examples, rounds, repeats in BATCHES:
        inputs = np.random.default_rng(0).random((examples, structure.sizes[0]), np.float32)
        times = {k: timed(pair, inputs, rounds, repeats) for k, pair in pairs.items()}
        ours, theirs = (min((own[side], k) for k, own in times.items()) for side in (0, 1))
        label = f"ONNX Runtime, {examples}, {name} ÷ 1 dense (FLOPs ÷: {flops:.2f})"
        report(label, ours, theirs, MOST * flops)


def measure() -> None:
    """Print every measure."""
    predicting("18 of MNIST", 18, MNIST_96)
    predicting("6 of digits", 6, DIGITS)
    predicting("2 of MNIST", 2, MNIST_HALF)
