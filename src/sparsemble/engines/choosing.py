"""Engines by what people write for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sparsemble.engines.engine import Engine
from sparsemble.errors import InputError


@contextmanager
def engine_on(on: Engine | int | str | None, jobs: int | None = None) -> Iterator[Engine | None]:
    """An engine for a while; one that is given stays open, and none means here.

    Args:
        on: A number of processes, the address of a Dask scheduler, `dask` for a cluster of this
            machine, `ray` for the Ray cluster that this machine belongs to or else one of its own,
            the address of a Ray cluster (`ray://…`), or an engine.
        jobs: How many processes a cluster of this machine has.
    """
    if on is None or isinstance(on, Engine):
        yield on
        return
    with _made(on, jobs) as engine:
        yield engine


def _made(on: int | str, jobs: int | None) -> Engine:
    if isinstance(on, int):
        from sparsemble.engines.processes import Processes

        return Processes(on)
    if on == "ray" or on.startswith("ray://"):
        from sparsemble.engines.ray import Ray

        return Ray(None if on == "ray" else on, jobs)
    if on == "dask" or "://" in on:
        from sparsemble.engines.dask import Dask

        return Dask(None if on == "dask" else on, jobs)
    raise InputError(
        f"on = {on!r}: write dask, ray, or the address of a scheduler, as tcp://host:8786"
    )
