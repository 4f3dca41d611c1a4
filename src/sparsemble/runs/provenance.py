"""Where a result came from: versions, commit, threads; recorded with everything that is written."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def provenance() -> dict[str, Any]:
    """Versions of what computed, the source's commit if there is one, and the thread count."""
    return {
        "sparsemble": version("sparsemble"),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "commit": _commit(),
    }


@cache
def _commit() -> str | None:
    """The commit of the checkout this package runs from, marked if files were changed since.

    Asked once: later commits are not what this process runs.
    """
    folder = Path(__file__).parent
    try:
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")  # not merely within a checkout
        found = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{found}{' with changes' if changed else ''}"


def _git(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()
