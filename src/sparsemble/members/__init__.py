"""Members: compact networks with their masks, made by compaction, computed together as a stack."""

from sparsemble.members.compaction import (
    compact,
    compact_further,
    filled,
    load_tensors,
    masked,
    seen_in,
    with_units,
)
from sparsemble.members.growing import grown
from sparsemble.members.member import Member
from sparsemble.members.program_stack import ProgramStack
from sparsemble.members.sparse_layers import with_sparse_layers
from sparsemble.members.stack import Stack
from sparsemble.members.versions import Versions
from sparsemble.programs.tensors import tensors_of

__all__ = [
    "Member",
    "ProgramStack",
    "Stack",
    "Versions",
    "compact",
    "compact_further",
    "filled",
    "grown",
    "load_tensors",
    "masked",
    "seen_in",
    "tensors_of",
    "with_sparse_layers",
    "with_units",
]
