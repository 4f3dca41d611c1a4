"""A headless Chromium, driven by its DevTools protocol over two pipes: no package is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scenarios import wait_until

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MOST_SECONDS = 60.0
"""Until something that is waited for counts as missing: far more than it takes."""


class Browser:
    """One tab; what its console says is kept."""

    def __init__(self, profile: Path) -> None:
        ours, theirs = os.pipe(), os.pipe()
        for own in (ours[0], theirs[1]):
            os.set_inheritable(own, True)
        place = f'exec 3<&{ours[0]} 4>&{theirs[1]}; exec "$@"'
        command = [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", place, "bash", *command],
            pass_fds=(ours[0], theirs[1]),
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from = ours[1], os.fdopen(theirs[0], "rb", buffering=0)
        self._count, self._rest = 0, b""
        self.said: list[str] = []
        (tab,) = [
            own for own in self.call("Target.getTargets")["targetInfos"] if own["type"] == "page"
        ]
        attached = {"targetId": tab["targetId"], "flatten": True}
        self._session = self.call("Target.attachToTarget", **attached)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    _session = ""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._message()
            if found.get("id") == self._count:
                assert "error" not in found, found
                return found["result"]
            self._hear(found)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = self._from.read(1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.said.append(about["exceptionDetails"]["text"])
        if event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.said.append(about["entry"]["text"])

    def size(self, width: int, height: int) -> None:
        """Of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, address: str) -> None:
        """Show a page, whole."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, script: str) -> Any:
        """What a script comes to."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """What a script comes to as soon as that is something."""
        found: list[Any] = []

        def came() -> bool:
            found[:] = [self.value(script)]
            return bool(found[0])

        wait_until(came)
        return found[0]

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Press the mouse at the first point and move it along the others."""
        for kind, (x, y) in zip(
            ["mousePressed", *["mouseMoved"] * (len(points) - 1)], points, strict=True
        ):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                buttons=1,
                clickCount=1,
            )
        x, y = points[-1]
        self.call(
            "Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1
        )

    def type(self, text: str) -> None:
        """What is typed where the focus is."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """A screenshot of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            os.close(self._to)
        self._process.terminate()
        self._process.wait(MOST_SECONDS)
        self._from.close()


@contextlib.contextmanager
def browsing(profile: Path) -> Iterator[Browser]:
    """A browser that is ended whatever happens."""
    browser = Browser(profile)
    try:
        yield browser
    finally:
        browser.close()
