"""The demonstration: the method beside its baselines on scikit-learn's digits."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from safetensors.torch import save as to_safetensors

from sparsemble.recipes import Recipe, load_recipe
from sparsemble.results.result import Result
from sparsemble.results.running import ingredients_of, run_recipe, shown
from sparsemble.results.tables import Table


def demonstrate(console: Console, folder: Path | None = None) -> Table:
    """Train the baselines and the sparse ensemble; return one table."""
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("digits-sgd-ensemble", "digits"):
            with shown(console, name) as callback:
                place = (folder or Path(temporary)) / name
                results.append(run_recipe(load_recipe(name), place, callback=callback))
    return comparison(*results)


def comparison(dense: Result, ours: Result) -> Table:
    """One dense network (the mean over the SGD ensemble's), the SGD ensemble, and ours."""
    count = len(dense.structures)
    one_on_disk = _dense_bytes(dense.recipe)
    metrics = dense.shown
    rows = [
        (
            f"SGD, 1 dense network (mean of {count})",
            *(metric.text(dense.score.of_a_member(metric.key)) for metric in metrics),
            *["1.00×"] * 3,
        )
    ]
    for label, result in (
        (f"SGD ensemble of {count}", dense),
        (f"Sparse structured ensemble of {len(ours.structures)}", ours),
    ):
        rows.append(
            (
                label,
                *(metric.text(result.score[metric.key]) for metric in metrics),
                f"{result.parameters_ratio:.2f}×",
                f"{result.flops_ratio:.2f}×",
                f"{result.disk_bytes / one_on_disk:.2f}×",
            )
        )
    header = ("", *(metric.title for metric in metrics), "Parameters", "FLOPs", "Disk")
    return Table("Digits: 900 images to learn from, 897 to test on", header, tuple(rows))


def _dense_bytes(recipe: Recipe) -> int:
    """The size of one dense network's checkpoint."""
    network = ingredients_of(recipe).network()
    return len(to_safetensors({n: p.detach() for n, p in network.named_parameters()}))
