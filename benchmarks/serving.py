"""A service under load: 1,000 requests from 50 clients ÷ calling the ensemble directly."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager

import numpy as np
import torch
from feedforward_networks import DIGITS, sparse_ensemble
from timing import report

from sparsemble.ensemble import Ensemble

CLIENTS = 50
REQUESTS = 1000
ROWS = (1, 100)
"""In a request."""
_DIRECT = 200


@contextmanager
def served(ensemble: Ensemble):
    """The port of the command that serves an ensemble, with one thread."""
    with tempfile.TemporaryDirectory() as folder:
        ensemble.save(folder)
        command = [sys.executable, "-m", "sparsemble", "serve", folder, "--port=0", "--threads=1"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield int(re.search(r":(\d+) ", process.stdout.readline())[1])
        finally:
            process.terminate()
            process.wait()


def loaded(port: int, body: bytes, clients: int, requests: int) -> tuple[list[float], float]:
    """The latency of every request, and how long all took."""

    async def whole() -> tuple[list[float], float]:
        began = time.perf_counter()
        each = requests // clients
        found = await asyncio.gather(*(_client(port, body, each) for _ in range(clients)))
        return [own for latencies in found for own in latencies], time.perf_counter() - began

    return asyncio.run(whole())


async def _client(port: int, body: bytes, requests: int) -> list[float]:
    """One after the other over one connection; the latency of each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    message = head.encode() + b"Content-Type: application/json\r\n\r\n" + body
    latencies = []
    for _ in range(requests):
        began = time.perf_counter()
        writer.write(message)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer)[1]))
        latencies.append(time.perf_counter() - began)
    writer.close()
    return latencies


def direct(ensemble: Ensemble, inputs: np.ndarray) -> float:
    """The median seconds of a call."""
    torch.set_num_threads(1)
    times = []
    for _ in range(_DIRECT):
        began = time.perf_counter()
        ensemble.predict_proba(inputs)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def under_load(ensemble: Ensemble, port: int, rows: int) -> None:
    """So many rows in a request: by one client, and by all of them."""
    inputs = np.random.default_rng(0).random((rows, 64), np.float32).round(3)
    body = json.dumps({"rows": inputs.tolist()}).encode()
    alone, _ = loaded(port, body, 1, max(REQUESTS // 5, 1))
    latencies, whole = loaded(port, body, CLIENTS, REQUESTS)
    call = direct(ensemble, inputs)
    name = f"{rows} row{'s' * (rows > 1)}"
    report(f"a request of {name}, one client ÷ a call", (statistics.median(alone), 1), (call, 1))
    report(f"a request of {name}, {CLIENTS} clients ÷ a call", (whole / REQUESTS, 1), (call, 1))
    print(_in_words(name, latencies, whole), flush=True)


def _in_words(name: str, latencies: Sequence[float], whole: float) -> str:
    half, most = 1000 * np.quantile(latencies, (0.5, 0.99))
    count = len(latencies)
    return (
        f"  {count} requests of {name} from {CLIENTS} clients: {count / whole:.0f} a second, "
        f"latency {half:.1f} ms (50 %), {most:.1f} ms (99 %)"
    )


def measure() -> None:
    """Print every measure."""
    ensemble = sparse_ensemble(6, DIGITS)
    with served(ensemble) as port:
        for rows in ROWS:
            under_load(ensemble, port, rows)
