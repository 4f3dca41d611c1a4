"""Runs on disk: the folder of a run, its checkpoints, and where it came from."""

from sparsemble.runs.folder import RunFolder
from sparsemble.runs.part_folder import PartFolder
from sparsemble.runs.provenance import provenance
from sparsemble.runs.stage_folder import StageFolder

__all__ = ["PartFolder", "RunFolder", "StageFolder", "provenance"]
