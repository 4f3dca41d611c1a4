"""Limits on requests, kept while their bodies come in: none is held that will not be answered.

A body that is too large is answered 413 at the first byte too many, or at once if its length is
said; one that takes too long 408; if the bodies at hand are too large together, or too many
requests wait, another is answered 503, with when to come again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

RETRY_AFTER = 1
"""Seconds."""


@dataclass(frozen=True)
class Limits:
    """What one service takes."""

    body: int = 8_000_000
    """Bytes of one body,"""
    bodies: int = 64_000_000
    """and of all that are at hand."""
    seconds: float = 10.0
    """That a client may take to send a request."""
    waiting: int = 256
    """Requests that wait to be predicted."""
    connections: int = 512
    """At the same time."""


class RefusedError(Exception):
    """A request that is not taken."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Bounded:
    """An application that sees bodies only when they are there, whole and within the limits.

    Args:
        app: The application.
        limits: What it takes.
    """

    def __init__(self, app: App, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        try:
            await self._fill(body, scope, receive)
        except RefusedError as refused:
            await self._refuse_unread(refused, receive, send)
        else:
            await self._answer(bytes(body), scope, receive, send)
        finally:
            self._held -= len(body)

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, _once(body, receive), send)
        except RefusedError as refused:
            await send(_start(refused))
            await send({"type": "http.response.body", "body": _content(refused)})

    async def _refuse_unread(self, refused: RefusedError, receive: Receive, send: Send) -> None:
        """Answer at once; what still comes is thrown away for a while, because a client may read
        the answer only when it has sent everything."""
        await send(_start(refused, (b"connection", b"close")))
        await send({"type": "http.response.body", "body": _content(refused), "more_body": True})
        if refused.status != 408:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.seconds):
                    while (await receive()).get("more_body", False):
                        pass
        await send({"type": "http.response.body", "body": b""})

    async def _fill(self, body: bytearray, scope: Scope, receive: Receive) -> None:
        """Read a body, no more of it than is taken."""
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told) > self._limits.body:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._limits.seconds):
                while self._add(body, await receive()):
                    pass
        except TimeoutError:
            raise RefusedError(
                408, f"the request took more than {self._limits.seconds:g} seconds to come"
            ) from None

    def _add(self, body: bytearray, message: MutableMapping[str, Any]) -> bool:
        """Add a part of the body; is there more?"""
        if message["type"] == "http.disconnect":
            raise RefusedError(400, "the request ended before its body did")
        part = message.get("body", b"")
        if len(body) + len(part) > self._limits.body:
            raise self._too_large()
        if self._held + len(part) > self._limits.bodies:
            raise RefusedError(503, "too many large requests at the same time: come again soon")
        body += part
        self._held += len(part)
        return bool(message.get("more_body", False))

    def _too_large(self) -> RefusedError:
        most = self._limits.body / 1e6
        return RefusedError(413, f"the body is larger than {most:g} MB: send fewer rows at a time")


def _once(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body, then what comes after it."""
    parts = [body]

    async def received() -> MutableMapping[str, Any]:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        return await receive()

    return received


def _content(refused: RefusedError) -> bytes:
    return json.dumps({"detail": str(refused)}).encode()


def _start(refused: RefusedError, *headers: tuple[bytes, bytes]) -> MutableMapping[str, Any]:
    known = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(_content(refused))).encode()),
    ]
    again = [(b"retry-after", str(RETRY_AFTER).encode())] if refused.status == 503 else []
    listed = [*known, *again, *headers]
    return {"type": "http.response.start", "status": refused.status, "headers": listed}
