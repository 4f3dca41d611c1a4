"""What one stage keeps: whose it is, a folder for every part, and how its networks do.

chain/
  stage.json           all that its files depend on
  0000/, 0001/, …      its parts
  measured.jsonl       how good its networks are together, in order
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from sparsemble.errors import InputError
from sparsemble.runs.notes import StageNote
from sparsemble.runs.part_folder import PartFolder
from sparsemble.runs.traces import as_line, records_in
from sparsemble.stages.history import History, SampleRecord
from sparsemble.store import inside, read_json, write_atomically, write_json


class StageFolder:
    """A stage on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = inside(path, "stage.json")
        self._measured = inside(path, "measured.jsonl")
        self._older = inside(path, "trace.jsonl")
        """Where older versions kept what happened in all parts."""

    def claim(self, identity: Mapping[str, Any]) -> None:
        """Make the folder this stage's own, or check that it already is."""
        if not self._file.exists():
            write_json(self._file, {**identity, "threads": torch.get_num_threads()})
            return
        if self._older.exists():
            raise InputError(
                f"{self.path} was begun by an older version of sparsemble, which kept all chains "
                "in one place; go on with that version, or use another folder"
            )
        known = read_json(self._file)
        changed = [key for key in identity if known.get(key) != identity[key]]
        if changed:
            hint = "use another folder"
            if changed == ["initial weights"]:
                hint += ", or give learn() a function that makes the network, not a network"
            if "random streams" in changed:
                hint += ": this one was begun by another version of sparsemble"
            raise InputError(
                f"{self.path} belongs to another run: its {', '.join(changed)} "
                f"{'differ' if len(changed) > 1 else 'differs'}; {hint}"
            )

    def threads(self) -> int | None:
        """How many threads the stage was begun with, if it was."""
        if not self._file.exists():
            return None
        note: StageNote = StageNote.read_back(read_json(self._file), self._file)
        return note.threads

    def part(self, number: int) -> PartFolder:
        """One part, which may not have begun yet."""
        return PartFolder(inside(self.path, f"{number:04d}"), self._identity)

    def parts(self, count: int | None = None) -> list[PartFolder]:
        """Those that have begun, of the first `count`, in order."""
        found = sorted(int(folder.name) for folder in self.path.glob("[0-9]" * 4))
        return [self.part(number) for number in found if count is None or number < count]

    @cached_property
    def _identity(self) -> str:
        """A name for whose files these are."""
        if not self._file.exists():
            return ""
        text = json.dumps(read_json(self._file), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def history(self, count: int | None = None) -> History:
        """What happened in its parts, or in the first `count` of them."""
        together = (*records_in(self._older), *records_in(self._measured))
        known = History.of(r for r in together if count is None or r.chain < count)
        return sum((part.history() for part in self.parts(count)), known)

    def measured(self) -> list[SampleRecord]:
        """How its networks do, as far as that is known."""
        return History.of(records_in(self._measured)).samples

    def save_measured(self, records: Sequence[SampleRecord], part: int = -1) -> None:
        """Keep it, beside what is known of later parts: another run may have asked for more.

        Args:
            records: How networks do.
            part: The last one of which these are all, even if there are none.
        """
        last = max([part, *(record.chain for record in records)])
        later = (record for record in self.measured() if record.chain > last)
        write_atomically(self._measured, "".join(map(as_line, [*records, *later])).encode())
