"""`sparsemble serve`: a server of its own, many clients, slow ones, large bodies, an end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from deployed_kinds import classes
from served import post, running
from sparsemble.errors import InputError
from sparsemble.serving import Limits
from sparsemble.serving.running import address_of, bound_socket, is_private

ROWS = np.random.default_rng(0).normal(3, 2, size=(200, 6)).astype(np.float32)


def test_of_many_requests_at_once_none_is_lost_or_answered_for_another():
    ensemble = classes()
    wanted = ensemble.predict_proba(ROWS)
    with running(ensemble) as address, ThreadPoolExecutor(20) as clients:
        answers = clients.map(lambda row: post(address, {"rows": [row]}), ROWS.tolist())
        found = [[*own["predictions"][0]["probabilities"].values()] for own in answers]
    # Rows that are multiplied together are rounded otherwise than one alone.
    assert np.asarray(found) == pytest.approx(wanted, abs=1e-6)


def test_connections_that_do_not_ask_are_closed():
    with running(classes(), Limits(seconds=0.3)) as address:
        host, port = re.fullmatch(r"http://(.*):(\d+)", address).groups()
        for said in (b"", b"GET / HTTP/1.1\r\n", b"POST /predict HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection((host, int(port)), timeout=60) as slow:
                slow.sendall(said)
                assert slow.recv(1000) == b""
        assert post(address, {"rows": ROWS[:1].tolist()})


def test_a_body_that_does_not_come_is_answered_with_408():
    with running(classes(), Limits(seconds=0.3)) as address:
        host, port = re.fullmatch(r"http://(.*):(\d+)", address).groups()
        with socket.create_connection((host, int(port)), timeout=60) as slow:
            slow.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
            assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")


def highest_memory(process: subprocess.Popen) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


@contextmanager
def command_running(*arguments):
    """The command in a process of its own, and what it said first."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sparsemble", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_serves_throws_away_what_is_too_large_and_ends_by_ctrl_c(tmp_path):
    ensemble = classes()
    ensemble.save(tmp_path / "kept")
    with command_running(tmp_path / "kept", "--port", 0, "--host", "0.0.0.0") as (process, said):
        port = re.search(r"is served at http://0\.0\.0\.0:(\d+) until Ctrl-C", said)[1]
        address = f"http://127.0.0.1:{port}"
        found = post(address, {"rows": ROWS[:4].tolist()})["predictions"]
        probabilities = [[*own["probabilities"].values()] for own in found]
        assert probabilities == ensemble.predict_proba(ROWS[:4]).tolist()
        before = highest_memory(process)
        parts = (b" " * 1_000_000 for _ in range(120))
        large = urllib.request.Request(
            f"{address}/predict", parts, {"Content-Type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(large, timeout=60)
        assert refused.value.code == 413
        assert highest_memory(process) - before < 60_000  # of 120,000 that were sent
        process.send_signal(signal.SIGINT)
        _, beside = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "anyone who reaches this machine can use it" in beside
    assert "Traceback" not in beside


def test_what_cannot_be_served_is_said(command, tmp_path, monkeypatch):
    ensemble = classes()
    ensemble.save(tmp_path / "kept")
    code, _, said = command("serve", tmp_path)
    assert (code, "is not a folder with a saved ensemble" in said) == (2, True)
    with bound_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        code, _, said = command("serve", tmp_path / "kept", "--port", port)
    assert code == 2
    assert f"--port {port} cannot be used (Address already in use)" in said
    code, _, said = command("serve", tmp_path / "kept", "--unseen", "ignore")
    assert (code, "learned from a table" in said) == (2, True)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, said = command("serve", tmp_path / "kept")
    assert (code, "pip install 'sparsemble[serve]'" in said) == (2, True)


def test_addresses():
    with bound_socket("127.0.0.1", 0) as listening:
        assert is_private(listening)
        assert address_of(listening).startswith("http://127.0.0.1:")
    with bound_socket("0.0.0.0", 0) as listening:
        assert not is_private(listening)
    with pytest.raises(InputError, match="no such address"):
        bound_socket("no.such.host.invalid", 0)
