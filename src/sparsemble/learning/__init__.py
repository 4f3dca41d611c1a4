"""Learning: the stages composed into one call."""

from sparsemble.learning.learn import Learned, learn

__all__ = ["Learned", "learn"]
