"""Score random tokens with a saved ensemble and print this process's peak memory, in KiB.

`python scoring.py ENSEMBLE TOKENS`: a process of its own, so that nothing else has its peak in it.
"""

from __future__ import annotations

import resource
import sys

import torch

from sparsemble.data import Text
from sparsemble.ensemble import Ensemble


def main(folder: str, count: int) -> None:
    ensemble = Ensemble.load(folder)
    tokens = torch.randint(0, ensemble.task.outputs, (count,))
    ensemble.evaluate(Text(tokens, streams=20))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
