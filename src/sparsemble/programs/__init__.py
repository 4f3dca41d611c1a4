"""Programs: networks as graphs of plain operations, with sizes that follow their units."""

from sparsemble.programs.blueprint import Blueprint, InputRange
from sparsemble.programs.graph import Graph, Held, Own, Ref, Step
from sparsemble.programs.program import Program

__all__ = ["Blueprint", "Graph", "Held", "InputRange", "Own", "Program", "Ref", "Step"]
