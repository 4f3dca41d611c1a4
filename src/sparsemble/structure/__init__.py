"""Units, spaces, slots and group families: the one description of a network.

The prior (`groups`), the accounting (`costs`) and the compaction (`survival`) all read it, so they
cannot disagree about what a unit owns.
"""

from sparsemble.structure.costs import Cost, measure
from sparsemble.structure.groupings import GROUPINGS, Grouping
from sparsemble.structure.groups import GroupTerms
from sparsemble.structure.layout import Family, Layout, Matrix, Part, Role, Slot, Space, SpaceKind
from sparsemble.structure.narrowing import cut, laid_out, narrowed
from sparsemble.structure.survival import Survivors, survivors

__all__ = [
    "GROUPINGS",
    "Cost",
    "Family",
    "GroupTerms",
    "Grouping",
    "Layout",
    "Matrix",
    "Part",
    "Role",
    "Slot",
    "Space",
    "SpaceKind",
    "Survivors",
    "cut",
    "laid_out",
    "measure",
    "narrowed",
    "survivors",
]
