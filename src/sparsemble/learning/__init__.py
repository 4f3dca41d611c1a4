"""Learning: the stages composed into one call, and settings found for a budget."""

from sparsemble.learning.learn import learn
from sparsemble.learning.learned import Learned
from sparsemble.learning.planning import plan

__all__ = ["Learned", "learn", "plan"]
