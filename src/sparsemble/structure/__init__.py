"""Units, spaces, slots and group families: the one description of a network.

The prior (`groups`), the accounting (`costs`) and the compaction (`survival`) all read it, so they
cannot disagree about what a unit owns.
"""

from sparsemble.structure.costs import Cost, measure, measure_whole
from sparsemble.structure.groupings import GROUPINGS, Grouping
from sparsemble.structure.groups import GroupTerms
from sparsemble.structure.layout import Layout
from sparsemble.structure.narrowing import cut, laid_out, narrowed
from sparsemble.structure.products import Link, Matrix, UnitProduct
from sparsemble.structure.sizes import Range, Size
from sparsemble.structure.survival import Survivors, survivors
from sparsemble.structure.units import Family, Folds, Part, Role, Slot, Space, SpaceKind

__all__ = [
    "GROUPINGS",
    "Cost",
    "Family",
    "Folds",
    "GroupTerms",
    "Grouping",
    "Layout",
    "Link",
    "Matrix",
    "Part",
    "Range",
    "Role",
    "Size",
    "Slot",
    "Space",
    "SpaceKind",
    "Survivors",
    "UnitProduct",
    "cut",
    "laid_out",
    "measure",
    "measure_whole",
    "narrowed",
    "survivors",
]
