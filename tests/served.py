"""A service run by a real server in a thread, and how it is asked."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from sparsemble.ensemble import Ensemble
from sparsemble.serving import Limits, service_of
from sparsemble.serving.running import address_of, bound_socket, server_of


def post(address: str, body: object) -> dict:
    """The answer to rows."""
    request = urllib.request.Request(
        f"{address}/predict", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@contextmanager
def running(ensemble: Ensemble, limits: Limits | None = None) -> Iterator[str]:
    """Where it is, while it is there."""
    listening = bound_socket("127.0.0.1", 0)
    server = server_of(service_of(ensemble, "small", limits=limits), limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join()
