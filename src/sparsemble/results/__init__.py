"""Results: recipes run and measured, result files, and the tables made of them."""

from sparsemble.results.result import Result, read_result, write_result
from sparsemble.results.running import run_recipe

__all__ = ["Result", "read_result", "run_recipe", "write_result"]
