"""What the commands share: options, where output goes, and how settings are written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsemble.errors import InputError

if TYPE_CHECKING:
    from sparsemble.engines import Engine
    from sparsemble.ensemble import Budget

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data sets; default: SPARSEMBLE_DATA or a cache."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads; default: PyTorch's choice.")
]
Device = Annotated[
    str, typer.Option("--device", metavar="NAME", help="Where to compute, as cuda or cuda:1.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Processes at a time, with one thread each; default: here."),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="CLUSTER",
        help="Run jobs on a cluster: the address of a Dask scheduler (tcp://host:8786), ray://…, "
        "or dask or ray for one of this machine.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, as chain.epochs=20."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Results as JSON, for programs.")]
Code = Annotated[
    list[str] | None,
    typer.Option("--code", metavar="MODULE:NAME", help="Code of your own that may be run."),
]
Read = Annotated[
    list[Path] | None,
    typer.Option(
        "--read", metavar="PATH", help="A file or folder that the run's recipe may read data from."
    ),
]
Unseen = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Of a table: refuse or ignore categories and gaps that training did not show.",
    ),
]
Saved = Annotated[Path, typer.Argument(help="A run folder, or a saved ensemble.")]

_FILE_WIDTH = 400


def threads_for(jobs: int | None, on: str | None, threads: int | None) -> int | None:
    """How many threads to compute with beside other options."""
    if jobs is None and on is None:
        return threads
    if threads is not None:
        raise InputError(f"--threads {threads}: jobs compute with one thread each; leave it")
    return 1


@contextmanager
def engine_from(jobs: int | None, on: str | None) -> Iterator[Engine | None]:
    """The engine that options ask for."""
    from sparsemble.engines.choosing import engine_on

    if jobs is not None and on is not None and "://" in on:
        raise InputError(f"--jobs {jobs}: a cluster has as many workers as it has; leave it")
    with engine_on(jobs if on is None else on, jobs) as engine:
        yield engine


def device_from(device: str, on: str | None = None) -> str:
    """Where jobs compute, if that can be; what a cluster's workers have is not known here."""
    from sparsemble.devices import named_device, usable_device

    return str(usable_device(device) if on is None else named_device(device))


def check_not_read(out: Path, source: Path) -> None:
    """Refuse to write over what is read."""
    if out.exists() and source.exists() and out.samefile(source):
        raise InputError(f"--out {out} is what is read: name another file")


def check_alone(command: str) -> None:
    """Refuse what processes of torchrun cannot do together."""
    from sparsemble.team import is_alone

    if not is_alone():
        raise InputError(f"torchrun is for learn and resume: call {command} by itself, with --jobs")


def use_threads(threads: int | None) -> None:
    """Compute with so many threads."""
    if threads is not None:
        import torch

        from sparsemble.devices import MOST_THREADS

        if threads > MOST_THREADS:
            raise InputError(f"--threads {threads}: write a number from 1 to {MOST_THREADS}")
        torch.set_num_threads(threads)


def train_with(threads: int | None) -> None:
    """Train with so many threads; all of them flush denormal floats, as the first one does."""
    import torch

    torch.set_flush_denormal(True)
    use_threads(threads)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Those that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def results_console() -> Any:
    """Where results go; in a file or a pipe, tables are as wide as they need to be."""
    from sparsemble.progress.console import PlainConsole

    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if narrow else _FILE_WIDTH
    return PlainConsole(width=width)


def progress_console(*, quiet: bool = False) -> Any:
    """Where progress goes: out of the way of results that are piped on."""
    from sparsemble.progress import console
    from sparsemble.team import is_first

    return console.progress_console(quiet=quiet or not is_first())


def print_pieces(pieces: Iterable[str]) -> None:
    """Results as they come; on a terminal nothing in them commands it."""
    from sparsemble.progress.console import visible

    shown = visible if sys.stdout.isatty() else str
    for piece in pieces:
        sys.stdout.write(shown(piece))
        sys.stdout.flush()


def as_text(value: Any, *, ascii_only: bool = False) -> str:
    """Results for a program, as JSON."""
    return json.dumps(value, ensure_ascii=ascii_only, indent=2) + "\n"


def print_json(value: Any) -> None:
    """Results for a program; a stream that cannot take all texts gets them as escapes of JSON."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print_pieces([as_text(value, ascii_only=not encoding.lower().startswith("utf"))])


def parsed_changes(
    changes: list[str] | None, option: str = "--set", example: str = "chain.epochs=20"
) -> dict[str, Any]:
    """`KEY=VALUE` pairs with TOML values; anything that is not TOML is taken as text."""
    import tomllib

    from sparsemble.store.toml import parsed_toml

    parsed = {}
    for change in changes or []:
        key, separator, text = change.partition("=")
        if not separator or not key:
            raise InputError(f"{option} {change!r}: write KEY=VALUE, as {example}")
        try:
            parsed[key] = parsed_toml(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[key] = text
        except InputError as error:
            raise InputError(f"{option} {key[:100]}: {error}") from None
    return parsed


def parsed_budget(text: str) -> Budget:
    """Limits as `--budget` takes them."""
    from sparsemble.ensemble import Budget

    given = parsed_changes(text.split(","), "--budget", "flops=1.0")
    if len(given) < text.count(",") + 1:
        raise InputError(f"--budget {text}: one of these limits stands there twice")
    limits: Budget = Budget.read(given, source="--budget")
    return limits
