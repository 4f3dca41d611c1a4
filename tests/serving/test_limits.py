"""Bodies are read no further than they are taken; slow and surplus ones are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

import pytest

from sparsemble.serving.limits import Bounded, Limits, RefusedError

KB = b"x" * 1000


class Client:
    """Sends the parts of one body, and keeps what it is answered."""

    def __init__(self, parts: Iterable[bytes], told: int | None = None, *, ends: bool = True):
        self.parts, self.ends = iter(parts), ends
        self.headers = [] if told is None else [(b"content-length", str(told).encode())]
        self.sent = self.sent_before = 0
        self.status, self.answer, self.answer_headers = None, b"", {}

    async def receive(self):
        part = next(self.parts, None)
        if part is None:
            if not self.ends:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": b"", "more_body": False}
        self.sent += len(part)
        return {"type": "http.request", "body": part, "more_body": True}

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.status, self.answer_headers = message["status"], dict(message["headers"])
            self.sent_before = self.sent
        else:
            self.answer += message["body"]

    async def ask(self, app):
        await app({"type": "http", "headers": self.headers}, self.receive, self.send)
        return self


async def counted(scope, receive, send):
    """An application that answers with the length of a body."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(body)).encode()})


def asked(client: Client, app=counted, **limits) -> Client:
    return asyncio.run(client.ask(Bounded(app, Limits(**limits))))


def test_a_body_in_parts_comes_whole():
    client = asked(Client([KB] * 5), body=5000)
    assert (client.status, client.answer) == (200, b"5000")


def test_a_body_that_is_too_large_is_refused_at_the_first_part_too_many():
    client = asked(Client(KB for _ in range(1_000_000)), body=5000, seconds=0.05)
    assert client.status == 413
    assert client.sent_before == 6000
    assert "larger than 0.005 MB" in json.loads(client.answer)["detail"]
    assert client.answer_headers[b"connection"] == b"close"


def test_one_whose_length_is_told_is_refused_before_it_is_read():
    client = asked(Client([KB] * 10, told=10_000), body=5000)
    assert (client.status, client.sent_before) == (413, 0)
    assert client.sent == 10_000  # thrown away, so that the client comes to read the answer


def test_a_client_that_does_not_go_on_sending_is_refused():
    client = asked(Client([KB], ends=False), seconds=0.05)
    assert client.status == 408
    assert "took more than 0.05 seconds" in json.loads(client.answer)["detail"]


def test_all_bodies_together_have_a_limit_which_is_free_again_afterwards():
    async def script():
        app = Bounded(counted, Limits(bodies=3500))
        slow = asyncio.create_task(Client([KB] * 3, ends=False).ask(app))
        await asyncio.sleep(0)
        surplus = await Client([KB]).ask(app)
        assert surplus.status == 503
        assert surplus.answer_headers[b"retry-after"] == b"1"
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert (await Client([KB] * 3).ask(app)).status == 200

    asyncio.run(script())


def test_what_the_application_refuses_is_answered_so():
    async def full(scope, receive, send):
        raise RefusedError(503, "come again")

    client = asked(Client([KB]), full)
    assert client.status == 503
    assert json.loads(client.answer) == {"detail": "come again"}
    assert client.answer_headers[b"retry-after"] == b"1"


def test_an_error_of_the_application_leaves_nothing_held():
    async def broken(scope, receive, send):
        raise ZeroDivisionError

    async def script():
        app = Bounded(broken, Limits(bodies=1500))
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await Client([KB]).ask(app)

    asyncio.run(script())
