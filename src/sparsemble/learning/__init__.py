"""Learning: the stages composed into one call, and settings found for a budget."""

from sparsemble.learning.learn import Learned, learn
from sparsemble.learning.planning import plan

__all__ = ["Learned", "learn", "plan"]
