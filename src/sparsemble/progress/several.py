"""Several runs in one display: a bar for each that is under way, or lines now and then."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console

from sparsemble.progress.terminal import TerminalProgress, bars_on
from sparsemble.stages import Callback

_LINES_EVERY = 60.0


class SeveralRuns:
    """Views of runs by their labels; without a console nothing is shown."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._bars = None if console is None else bars_on(console)
        self._views: dict[str, TerminalProgress] = {}

    def of(self, label: str) -> Callback:
        """What is told about a run."""
        if self._console is None:
            return Callback()
        if label not in self._views:
            self._views[label] = TerminalProgress(self._console, label, _LINES_EVERY, self._bars)
        return self._views[label]

    def end(self, label: str) -> None:
        """A run is done."""
        view = self._views.pop(label, None)
        if view is not None:
            view.close()

    def __enter__(self) -> SeveralRuns:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for label in list(self._views):
            self.end(label)
