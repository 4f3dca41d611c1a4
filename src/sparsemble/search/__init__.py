"""Searches: many recipes run beside each other, and the best of them found."""

from sparsemble.search.exploring import explore
from sparsemble.search.jobs import Workplace
from sparsemble.search.search import read_search, run_search
from sparsemble.search.study import study_of

__all__ = ["Workplace", "explore", "read_search", "run_search", "study_of"]
