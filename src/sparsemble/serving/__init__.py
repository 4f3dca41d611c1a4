"""A small HTTP service around an ensemble, with a page to try it in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparsemble.serving.limits import Limits

if TYPE_CHECKING:
    from sparsemble.serving.service import service_of

__all__ = ["Limits", "service_of"]


def __getattr__(name: str) -> Any:
    """FastAPI is only needed by who serves."""
    if name != "service_of":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sparsemble.serving.needed import check_installed

    check_installed()
    from sparsemble.serving.service import service_of

    return service_of
