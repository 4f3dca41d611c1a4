"""The service run by uvicorn: an address that is free, connections that are not slow, an end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparsemble.errors import InputError
from sparsemble.serving.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

_LAST = 5
"""Seconds that requests have left when the service ends."""


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address, or what is wrong with that."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host {host}: there is no such address ({error})") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        raise InputError(
            f"--host {host} --port {port} cannot be used ({error.strerror}): give another port, "
            "or 0 for any that is free"
        ) from None
    return listening


def address_of(listening: socket.socket) -> str:
    """Where a browser finds a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_private(listening: socket.socket) -> bool:
    """Can only this machine reach a socket?"""
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def server_of(app: FastAPI, limits: Limits | None = None) -> uvicorn.Server:
    """A server whose `run(sockets=…)` ends by an interrupt, or by `should_exit`."""
    own = limits or Limits()

    class Connection(_Impatient):
        seconds = own.seconds

    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        limit_concurrency=own.connections,
        timeout_graceful_shutdown=_LAST,
    )
    return uvicorn.Server(config)


class _Impatient(H11Protocol):
    """A connection that is closed if the beginning of a request does not come in time."""

    seconds = Limits.seconds

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = self._wait()

    def _wait(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self.seconds, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait no longer for a request whose headers are there; for that of the next one anew."""
        super().data_received(data)
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not is_answering and self._timer is None:
            self._timer = self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
