"""TensorBoard: the trace as scalars, for those who watch runs there (extra `tensorboard`).

The run's own trace is the source of truth; this is a copy to look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparsemble.errors import InputError
from sparsemble.paths import named_in_utf8
from sparsemble.stages import Callback, ChainState, EpochRecord, Rollback, SampleRecord

_SCALARS = ("loss", "potential", "lr", "noise_to_drift", "near_zero_groups")


class TensorBoard(Callback):
    """Writes every epoch of every chain as scalars."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError(
                "TensorBoard is not installed: pip install 'sparsemble[tensorboard]'"
            ) from None
        self._writer: Any = SummaryWriter(named_in_utf8(folder, "TensorBoard"))

    def epoch_ended(self, record: EpochRecord) -> None:
        """One point per scalar."""
        values = {name: getattr(record, name) for name in _SCALARS}
        for name, value in {**values, record.metric: record.figure}.items():
            if math.isfinite(value):
                tag = f"{record.stage}-{record.chain}/{name}"
                self._writer.add_scalar(tag, value, record.epoch)
        self._writer.flush()

    def measured(self, record: SampleRecord) -> None:
        """The latest network alone, and the ensemble so far."""
        for name in ("alone", "together"):
            tag = f"{record.stage}-ensemble/{record.metric}-{name}"
            self._writer.add_scalar(tag, getattr(record, name), record.members)
        self._writer.flush()

    def rolled_back(self, rollback: Rollback, save: Callable[[], ChainState]) -> None:
        """A note where the chain went back."""
        tag = f"{rollback.stage}-{rollback.chain}/rollback"
        self._writer.add_text(tag, rollback.reason, rollback.back_to_epoch)

    def close(self) -> None:
        """Finish the files."""
        self._writer.close()
