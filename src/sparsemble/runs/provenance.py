"""Where a result came from: versions, commit, threads; recorded with everything that is written."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from sparsemble.devices import has_bfloat16


def provenance() -> dict[str, Any]:
    """Versions of what computed, the source's commit if there is one, formats and thread count."""
    return {
        "sparsemble": version("sparsemble"),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "bfloat16": has_bfloat16(),
        "threads": torch.get_num_threads(),
        "commit": _own_commit(),
    }


@cache
def _own_commit() -> str | None:
    """Asked once: later commits are not what this process runs."""
    return commit_of(Path(__file__).parent.parent)


def commit_of(folder: Path) -> str | None:
    """The commit of the checkout a package lies in, marked if its files were changed since."""
    try:
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")  # not merely within a checkout
        found = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{found}{' with changes' if changed else ''}"


def _git(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, encoding="utf-8", check=True
    )
    return answer.stdout.strip()
