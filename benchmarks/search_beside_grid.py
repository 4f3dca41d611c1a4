"""A search by Optuna beside a grid of as many points: NLL and FLOPs of small ensembles on digits.

`python benchmarks/search_beside_grid.py --seeds 5 --keep` runs both in the same ranges and writes
`results/search.json`, the table in docs/search.md and its picture. The grid's values are the
middles of equal parts of the ranges, by the logarithm. Fronts are compared by their hypervolume:
the share of the box between perfection and knowing nothing (ln 10) at the FLOPs of one dense
network that lies behind them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from markupsafe import Markup

from sparsemble.data import digits
from sparsemble.ensemble import Ensemble
from sparsemble.pages.document import chart_file
from sparsemble.pages.spots import Spot, spot_chart
from sparsemble.results.result import read_result
from sparsemble.results.tables import Table, mean_and_deviation, put_into
from sparsemble.runs import provenance
from sparsemble.search.exploring import explore
from sparsemble.search.jobs import Workplace
from sparsemble.search.objectives import on_front
from sparsemble.search.search import Search, run_search
from sparsemble.search.space import Range, SpaceSearch
from sparsemble.store import write_atomically, write_json

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "search-beside-grid.svg"
RANGES = {
    "prior.penalty": (1e-5, 1e-3, 2),
    "chain.schedule.lr": (0.05, 0.8, 2),
    "retrain.schedule.lr": (0.03, 0.5, 2),
    "prune.flops": (0.05, 1.0, 3),
}
"""For every setting its range, and how many values the grid has of it."""
FIXED = {
    "network.hidden": [64, 32],
    "chain.epochs": 20,
    "chain.burn_in": 4,
    "chain.interval": 4,
    "retrain.epochs": 10,
}
TRIALS = math.prod(parts for _, _, parts in RANGES.values())
NOTHING = math.log(10)
"""NLL of knowing nothing about ten classes."""
SHARES = (0.1, 0.2, 0.5)
"""Of the dense network's FLOPs, within which the best is looked for."""


@dataclass(frozen=True)
class Point:
    """An ensemble: NLL on validation and on test data, FLOPs of the dense network's."""

    nll: float
    flops: float
    test: float


@dataclass(frozen=True)
class Row:
    """All points of one way to search, with one seed."""

    way: str
    seed: int
    points: list[Point]

    def front(self) -> list[Point]:
        """Those that no other beats on validation data, the cheapest first."""
        front = on_front([(point.nll, point.flops) for point in self.points])
        kept = [point for point, first in zip(self.points, front, strict=True) if first]
        return sorted(kept, key=lambda point: point.flops)

    def volume(self, *, test: bool = False) -> float:
        """The hypervolume of the front, as it does on validation or on test data."""
        found = [(p.flops, (p.test if test else p.nll) / NOTHING) for p in self.front()]
        return hypervolume(found)

    def best(self, share: float) -> float:
        """The lowest NLL on validation data within a share of the FLOPs."""
        return min((p.nll for p in self.points if p.flops <= share), default=math.nan)


def hypervolume(points: Sequence[tuple[float, float]]) -> float:
    """The area of the unit square that lies above and to the right of points.

    >>> hypervolume([(0.5, 0.5), (0.25, 0.75), (2.0, 0.1)])
    0.3125
    """
    area, lowest = 0.0, 1.0
    for x, y in sorted(points):
        if x < 1 and y < lowest:
            area += (1 - x) * (lowest - y)
            lowest = y
    return area


def middles(low: float, high: float, parts: int) -> list[float]:
    step = math.log(high / low) / parts
    return [low * math.exp(step * (part + 0.5)) for part in range(parts)]


def grid(seed: int) -> Search:
    values = {key: middles(*how) for key, how in RANGES.items()}
    fixed = {key: [value] for key, value in {"seed": seed, **FIXED}.items()}
    return Search(recipe="digits-budget", validation=300, grid={**values, **fixed})


def space(seed: int) -> SpaceSearch:
    ranges = {key: Range(low=low, high=high, log=True) for key, (low, high, _) in RANGES.items()}
    fixed = {key: [value] for key, value in {"seed": seed, **FIXED}.items()}
    return SpaceSearch(
        recipe="digits-budget",
        validation=300,
        trials=TRIALS,
        objectives=("quality", "flops"),
        seed=seed,
        space={**ranges, **fixed},
    )


def points_in(folder: Path) -> Iterator[Point]:
    """What the runs of a search left."""
    _, test = digits()
    for file in sorted(folder.glob("*/result.json")):
        result = read_result(file)
        tested = Ensemble.load(file.parent).evaluate(test)["nll"]
        yield Point(result.score["nll"], result.flops_ratio, tested)


def measured(seed: int, work: Path) -> Iterator[Row]:
    for way in ("grid", "Optuna"):
        place = Workplace(work / f"{way}-{seed}")
        ended = run_search(grid(seed), place) if way == "grid" else explore(space(seed), place)
        count = sum(1 for _ in ended)
        assert count == TRIALS
        yield Row(way, seed, list(points_in(place.folder)))


def table(rows: Sequence[Row]) -> Table:
    header = (
        "Search",
        "Hypervolume, validation",
        "Hypervolume, test",
        *(f"Best NLL within {share}×" for share in SHARES),
        "On the front",
        "Trials",
        "Seeds",
    )
    return Table(
        "Fronts of NLL and FLOPs on digits",
        header,
        tuple(_row(way, [row for row in rows if row.way == way]) for way in ("grid", "Optuna")),
    )


def _row(way: str, rows: Sequence[Row]) -> tuple[str, ...]:
    return (
        way,
        mean_and_deviation([row.volume() for row in rows], 3),
        mean_and_deviation([row.volume(test=True) for row in rows], 3),
        *(mean_and_deviation([row.best(share) for row in rows], 3) for share in SHARES),
        mean_and_deviation([len(row.front()) for row in rows], 1),
        str(TRIALS),
        str(len(rows)),
    )


def picture(rows: Sequence[Row]) -> Markup:
    """Both fronts of the first seed, and what they beat; not what knows next to nothing."""
    spots = []
    for tone, way in ((1, "grid"), (0, "Optuna")):
        row = next(row for row in rows if row.way == way)
        front = row.front()
        known = [point for point in row.points if point.nll < NOTHING / 4]
        for point in sorted(known, key=lambda point: point.flops):
            name = way if point == front[-1] else ""
            spots.append(Spot(name, point.flops, point.nll, tone, faint=point not in front))
    return spot_chart(
        "Fronts of a search by Optuna and of a grid",
        f"NLL against FLOPs of {TRIALS} trials each",
        spots,
        x_label="FLOPs of one dense network = 1",
        y_label="NLL, validation",
        joined=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="A search by Optuna beside a grid.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path("runs/search-beside-grid"))
    parser.add_argument("--keep", action="store_true", help="write them into results and docs")
    chosen = parser.parse_args()
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    rows = [row for seed in range(chosen.seeds) for row in measured(seed, chosen.work)]
    for row in rows:
        print(f"{row.way}, seed {row.seed}: {row.volume():.4f}, test {row.volume(test=True):.4f}")
    print(table(rows).markdown())
    if chosen.keep:
        kept = {"provenance": provenance(), "rows": [asdict(row) for row in rows]}
        write_json(ROOT / "results" / "search.json", kept)
        put_into(ROOT / "docs" / "search.md", "search", [table(rows)])
        write_atomically(PICTURE, chart_file(picture(rows)).encode())


if __name__ == "__main__":
    main()
