"""What the service needs beside the library."""

from __future__ import annotations

from importlib import import_module

from sparsemble.errors import InputError


def check_installed() -> None:
    """Raise `InputError` unless the extra `serve` is installed."""
    for package in ("fastapi", "uvicorn"):
        try:
            import_module(package)
        except ImportError:
            raise InputError(
                f"serve needs {package}, which is not installed: pip install 'sparsemble[serve]'"
            ) from None
