"""`make bench`: one line a measure, `name: ratio (ours, reference)`.

Every ratio is measured in one run, alternating, as a median of several, each side at its better
number of threads (1 or 2). Run it on a machine that does nothing else. With arguments only the
named parts are measured: `feedforward`, `language`, `checkpoints`.
"""

from __future__ import annotations

import sys
import warnings

import checkpoints
import feedforward
import language

PARTS = {
    "feedforward": feedforward.measure,
    "language": language.measure,
    "checkpoints": checkpoints.measure,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)  # of posteriors, about its own dependency
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
