"""Units, spaces, slots and group families: the one description of a network.

The prior (`groups`), the accounting (`costs`) and the compaction (`survival`) all read it, so they
cannot disagree about what a unit owns.
"""

from sparsemble.structure.costs import Cost, measure
from sparsemble.structure.groups import GroupTerms
from sparsemble.structure.survival import Survivors, survivors
from sparsemble.structure.units import Family, Layout, Matrix, Part, Role, Slot, Space, SpaceKind

__all__ = [
    "Cost",
    "Family",
    "GroupTerms",
    "Layout",
    "Matrix",
    "Part",
    "Role",
    "Slot",
    "Space",
    "SpaceKind",
    "Survivors",
    "measure",
    "survivors",
]
