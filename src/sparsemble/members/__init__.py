"""Members: compact networks with their masks, made by compaction, computed together as a stack."""

from sparsemble.members.compaction import compact, filled, load_tensors, masked
from sparsemble.members.listing import listed
from sparsemble.members.member import Member
from sparsemble.members.stack import Stack

__all__ = ["Member", "Stack", "compact", "filled", "listed", "load_tensors", "masked"]
