"""The demonstration: the method beside its baselines on scikit-learn's digits."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from safetensors.torch import save as to_safetensors

from sparsemble.data import digits
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.recipes.models import FeedForwardSettings
from sparsemble.runs.results import Result
from sparsemble.runs.sheets import Sheet
from sparsemble.runs.watching import Watch, watch_recipe


def demonstrate(console: Console, folder: Path | None = None) -> Sheet:
    """Train the baselines and the sparse ensemble; return one table."""
    with tempfile.TemporaryDirectory() as temporary:
        base, watch = folder or Path(temporary), Watch(console)
        dense = watch_recipe(load_recipe("digits-sgd-ensemble"), base / "sgd-ensemble", watch)
        ours = watch_recipe(load_recipe("digits"), base / "digits", watch)
    return comparison(dense, ours)


def comparison(dense: Result, ours: Result) -> Sheet:
    """One dense network (the mean over the SGD ensemble's), the SGD ensemble, and ours."""
    count = len(dense.structures)
    one_on_disk = _dense_bytes(dense.recipe)
    single = (
        f"SGD, 1 dense network (mean of {count})",
        f"{100 * dense.metrics['member_error']:.2f}",
        f"{dense.metrics['member_nll']:.4f}",
        f"{dense.metrics['member_ece']:.4f}",
        "1.00×",
        "1.00×",
        "1.00×",
    )
    rows = [single]
    for label, result in (
        (f"SGD ensemble of {count}", dense),
        (f"Sparse structured ensemble of {len(ours.structures)}", ours),
    ):
        rows.append(
            (
                label,
                f"{100 * result.metrics['error']:.2f}",
                f"{result.metrics['nll']:.4f}",
                f"{result.metrics['ece']:.4f}",
                f"{result.parameters_ratio:.2f}×",
                f"{result.flops_ratio:.2f}×",
                f"{result.disk_bytes / one_on_disk:.2f}×",
            )
        )
    header = ("", "Error %", "NLL", "ECE", "Parameters", "FLOPs", "Disk")
    return Sheet("Digits: 900 images to learn from, 897 to test on", header, tuple(rows))


def _dense_bytes(recipe: Recipe) -> int:
    """The size of one dense network's checkpoint."""
    assert isinstance(recipe.network, FeedForwardSettings)
    network = recipe.network.build(digits()[0])
    return len(to_safetensors({n: p.detach() for n, p in network.named_parameters()}))
