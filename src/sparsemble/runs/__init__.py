"""Runs: the stages composed into one call, kept in a folder that can be resumed."""

from sparsemble.runs.folder import RunFolder, StageFolder
from sparsemble.runs.learning import Learned, learn
from sparsemble.runs.provenance import provenance

__all__ = ["Learned", "RunFolder", "StageFolder", "learn", "provenance"]
