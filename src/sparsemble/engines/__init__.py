"""Engines: where independent jobs run, on this machine or on many."""

from sparsemble.engines.dask import Dask
from sparsemble.engines.engine import Engine, Hear, Line, Work
from sparsemble.engines.processes import Processes
from sparsemble.engines.ray import Ray

__all__ = ["Dask", "Engine", "Hear", "Line", "Processes", "Ray", "Work"]
