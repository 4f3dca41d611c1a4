"""`make bench`: one line per measure, `name: ratio (ours, reference)`.

Every ratio is measured in one run, alternating, as a median of several, each side at its better
number of threads (1 or 2). Run it on a machine that does nothing else. With arguments only the
named parts are measured: `feedforward`, `language`, `lstm`, `traced`, `deployed`, `serving`,
`jobs`, `checkpoints`, `starting`.
`--keep` also writes the ratios to `results/benchmarks.json` and from there into docs/results.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import checkpoints
import deployed
import feedforward
import jobs
import kept
import language
import lstm
import starting
import timing
import traced

import serving

PARTS = {
    "feedforward": feedforward.measure,
    "language": language.measure,
    "lstm": lstm.measure,
    "traced": traced.measure,
    "deployed": deployed.measure,
    "serving": serving.measure,
    "jobs": jobs.measure,
    "checkpoints": checkpoints.measure,
    "starting": starting.measure,
}
ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure ratios of times.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--keep", action="store_true", help="write them into results and docs")
    chosen = parser.parse_args()
    for name in chosen.parts:
        if name not in PARTS:
            parser.error(f"no part {name!r}: there are {', '.join(PARTS)}")
    warnings.simplefilter("ignore", FutureWarning)  # of posteriors, about its own dependency
    for name in chosen.parts or PARTS:
        timing.measures.clear()
        PARTS[name]()
        if chosen.keep and timing.measures:
            kept.keep(ROOT, name, timing.measures)


if __name__ == "__main__":
    main()
