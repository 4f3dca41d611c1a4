"""Runs on disk: the folder of a run, its checkpoints, and where it came from."""

from sparsemble.runs.folder import RunFolder, StageFolder
from sparsemble.runs.provenance import provenance

__all__ = ["RunFolder", "StageFolder", "provenance"]
