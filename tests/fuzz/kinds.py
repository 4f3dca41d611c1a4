"""The kinds of cases: what is spoiled, and what is then done with it."""

from __future__ import annotations

import gc
import io
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import tomli_w
import torch

from fuzz.files import spoil_bytes, spoil_files, spoil_kind, state_of
from fuzz.seeds import Seeds
from fuzz.values import spoiled
from sparsemble.cli.main import main
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.processes.interrupts import asked_by

_ANSWERS = (0, 2, 3, 130)
"""Exit codes that say something: done, bad input, diverged, asked to stop."""


@dataclass(frozen=True)
class Place:
    """Where a case is done: its own folder, and one that nothing may touch."""

    work: Path
    outside: Path


class Finding(AssertionError):
    """What must not happen."""


@dataclass
class _Soon:
    """Asks a run to stop after some steps."""

    left: int

    @property
    def stop_requested(self) -> bool:
        self.left -= 1
        return self.left < 0


def command(*arguments: object) -> int:
    """Run `sparsemble` in this process; anything but an answer is a finding."""
    said, beside = io.StringIO(), io.StringIO()
    sys.argv = ["sparsemble", *map(str, arguments)]
    code: object = None
    with redirect_stdout(said), redirect_stderr(beside), asked_by(_Soon(20)):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    if code not in _ANSWERS:
        raise Finding(f"{arguments[0]} exits with {code}: {beside.getvalue()[-500:]}")
    if code == 2 and len(beside.getvalue()) > 5000:
        raise Finding(f"{arguments[0]} says {len(beside.getvalue())} characters")
    if "Traceback" in beside.getvalue():
        raise Finding(beside.getvalue())
    return code or 0


def ensemble_case(seeds: Seeds, place: Place, chance: Random) -> Iterator[Callable[[], object]]:
    """A saved ensemble that somebody has tampered with."""
    name = chance.choice(list(seeds.ensembles))
    folder = place.work / "ensemble"
    shutil.copytree(seeds.ensembles[name], folder)
    files = sorted(folder.iterdir())
    spoil_files(folder, place.outside, chance, files=files)
    yield lambda: _predict(folder)
    if chance.random() < 0.3:
        yield lambda: command("inspect", folder)
    if name in seeds.inputs:
        file = chance.choice(seeds.inputs[name])
        yield lambda: _predict_file(folder, file, place.work / "out.csv")


def _predict(folder: Path) -> None:
    """Load and predict; numbers that are none are a finding."""
    try:
        ensemble = Ensemble.load(folder)
        inputs = ensemble.task.made_up(2, 4)
        if inputs is None:
            return
        found = ensemble.predictive(inputs)
    except InputError as error:
        _check_message(error)
        return
    if not bool(torch.isfinite(found).all()):
        raise Finding(f"predictions that are not finite: {found}")


def _check_message(error: Exception) -> None:
    if len(str(error)) > 5000:
        raise Finding(f"a message of {len(str(error))} characters")


def _predict_file(folder: Path, file: Path, out: Path) -> None:
    if command("predict", folder, file, "--out", out) == 0:
        text = out.read_text()
        if any(word in text for word in ("nan", "inf\n", "inf,")):
            raise Finding(f"predictions that are not finite:\n{text[:400]}")


def run_case(seeds: Seeds, place: Place, chance: Random) -> Iterator[Callable[[], object]]:
    """A run folder that somebody has tampered with."""
    name = chance.choice(list(seeds.runs))
    folder = place.work / "run"
    shutil.copytree(seeds.runs[name], folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix)
    spoil_files(folder, place.outside, chance, files=files)
    ways: dict[str, Callable[[], object]] = {
        "inspect": lambda: command("inspect", folder),
        "resume": lambda: command("resume", folder, "--quiet"),
        "compare": lambda: command("compare", folder),
        "curves": lambda: command("curves", folder, "--out", place.work / "curves.svg"),
        "predict": lambda: _predict(folder),
    }
    if chance.random() < 0.1:
        ways["report"] = lambda: command("report", folder)
    for chosen in chance.sample(list(ways), 2):
        yield ways[chosen]


def recipe_case(seeds: Seeds, place: Place, chance: Random) -> Iterator[Callable[[], object]]:
    """A recipe with absurd settings: it is read, and a few steps of it are run."""
    name = chance.choice(list(seeds.recipes))
    fields = {**seeds.recipes[name], "baseline": "none"}
    fields = spoiled(fields, chance)
    file = place.work / "recipe.toml"
    file.write_bytes(_as_toml(fields, chance))
    if chance.random() < 0.2:
        spoil = chance.choice((spoil_bytes, spoil_kind))
        spoil(file, place.outside, chance)
    yield lambda: _recipe(file)
    quick = name.startswith(("digits", "diabetes")) and "cnn" not in name
    if quick and chance.random() < 0.3:
        yield lambda: command("learn", file, "--quiet", "--out", place.work / "run")
    key = chance.choice(("chain.epochs", "network.hidden", "prior.penalty", "a." * 20_000 + "b"))
    value = chance.choice(("9" * 5000, "[" * 3000, "1e308", "nan", '"\\u0000"', "10000000000"))
    yield lambda: command("recipes", file)
    if chance.random() < 0.1:
        alone = ("--quiet", "--baseline", "none", "--out", place.work / "set")
        yield lambda: command("learn", "digits", *alone, "--set", f"{key}={value}")


def _as_toml(fields: object, chance: Random) -> bytes:
    try:
        return tomli_w.dumps(_without_none(fields)).encode(errors="surrogatepass")  # type: ignore[arg-type]
    except (TypeError, ValueError, RecursionError, AttributeError):
        return b"a = " + b"[" * 5000 + b"]" * 5000


def _without_none(value: object) -> object:
    """TOML has no null."""
    if isinstance(value, dict):
        return {key: _without_none(own) for key, own in value.items() if own is not None}
    if isinstance(value, list):
        return [_without_none(own) for own in value if own is not None]
    return value


def _recipe(file: Path) -> None:
    from sparsemble.recipes import load_recipe

    try:
        load_recipe(file)
    except InputError as error:
        _check_message(error)


def input_case(seeds: Seeds, place: Place, chance: Random) -> Iterator[Callable[[], object]]:
    """Files to predict, evaluate or learn from."""
    name = chance.choice(list(seeds.inputs))
    whole = chance.choice(seeds.inputs[name])
    file = place.work / whole.name
    shutil.copy(whole, file)
    _spoil_input(file, place, chance)
    folder = seeds.ensembles[name]
    ways: list[Callable[[], object]] = [
        lambda: _predict_file(folder, file, place.work / "out.csv"),
        lambda: command("evaluate", folder, "--on", file),
    ]
    if file.suffix == ".csv":
        ways.append(lambda: _read_table(file))
    yield chance.choice(ways)


def _read_table(file: Path) -> None:
    """What `learn --csv` begins with."""
    from sparsemble import read_table

    try:
        read_table(file, target="age")
    except InputError as error:
        _check_message(error)


def _spoil_input(file: Path, place: Place, chance: Random) -> None:
    if chance.random() < 0.08:
        spoil_kind(file, place.outside, chance, pipes=False)  # who names a pipe waits for it
    elif file.suffix in (".csv", ".txt") and chance.random() < 0.8:
        _spoil_text(file, chance)
    elif file.suffix in (".npy", ".npz") and chance.random() < 0.7:
        _spoil_arrays(file, chance)
    else:
        spoil_bytes(file, place.outside, chance)


_CELLS = (
    "", "nan", "inf", "1e400", "-0", "=1+1", "a", '"', '"a\n"', "\x00", "ä", "1" * 5000, "9" * 400,
    "1e38", "True", "2020-01-01", "\ufeff", "'", ";", "\t", "0x10", "1_000", " 3 ", "x" * 200_000,
)  # fmt: skip


def _spoil_text(file: Path, chance: Random) -> None:
    lines = file.read_text().split("\n")
    for _ in range(chance.choice((1, 1, 2, 5))):
        number = chance.randrange(len(lines))
        cells = lines[number].split("," if file.suffix == ".csv" else " ")
        cells[chance.randrange(len(cells))] = chance.choice(_CELLS)
        how = chance.randrange(8)
        if how == 0:
            cells = cells[:-1]
        elif how == 1:
            cells = cells * chance.choice((2, 300))
        elif how == 2:
            lines.insert(number, lines[chance.randrange(len(lines))])
        elif how == 3:
            lines = (lines * chance.choice((0, 2, 50)))[:300] or [""]
            number = 0
        line = chance.choice((",", ",", ",", ";", " ")).join(cells)
        lines[number] = line[: 1 << 19]  # there may be 300 of it
    encoding = chance.choice(("utf-8", "utf-8", "utf-8", "utf-16", "latin-1"))
    file.write_bytes("\n".join(lines).encode(encoding, "replace"))


def _spoil_arrays(file: Path, chance: Random) -> None:
    rows = np.random.default_rng(chance.randrange(100)).normal(size=(5, 6)).astype(np.float32)
    kinds = ("float64", "float16", "int8", "uint64", "bool", "complex64", "U4", "O", "M8[s]", "V4")
    how = chance.randrange(6)
    if how == 0:
        rows = rows.astype("float64").clip(0, 3).astype(chance.choice(kinds))
    elif how == 1:
        shape = chance.choice(((30,), (6, 5), (0, 6), (5, 6, 1), (1, 5, 6), (), (5, 0)))
        rows = np.resize(rows, shape)
    elif how == 2:
        rows.flat[chance.randrange(30)] = chance.choice((math.nan, math.inf, -math.inf, 1e38))
    elif how == 3:
        rows = rows * np.float32(chance.choice((1e30, 1e38, 0, -1)))
    elif how == 4:
        rows = rows[::-1].T.copy(order="F").T
    labels = chance.choice(
        (np.arange(5) % 3, np.full(5, 2**63 + 5, np.uint64), np.arange(4), np.array("a"), rows)
    )
    if file.suffix == ".npy":
        np.save(file, rows, allow_pickle=True)
    else:
        names = chance.choice((("inputs", "targets"), ("inputs", "more"), ("x", "y"), ("a", "b")))
        np.savez(file, allow_pickle=True, **dict(zip(names, (rows, labels), strict=True)))
    if how == 5:
        content = bytearray(file.read_bytes())
        claim = content.find(b"(5, 6)")
        if claim > 0:
            content[claim : claim + 6] = chance.choice((b"(9**9)", b"(99,9)", b"(-1,6)", b"(5,6e9"))
        file.write_bytes(bytes(content))


KINDS = {
    "ensemble": ensemble_case,
    "run": run_case,
    "recipe": recipe_case,
    "input": input_case,
}


def imported(seeds: Seeds, folder: Path) -> None:
    """Do what cases do with what is whole: what that imports is then there in every child."""
    for name, files in seeds.inputs.items():
        _predict_file(seeds.ensembles[name], files[0], folder / "out.csv")
    for name in ("inspect", "compare", "curves", "report"):
        shutil.copytree(seeds.runs["compared"], folder / name)
        command(name, folder / name, *(("--out", folder / "out.svg") if name == "curves" else ()))

    _read_table(seeds.inputs["classes"][0])
    command("recipes", "digits")
    gc.freeze()  # children would otherwise copy it all as soon as they collect


def do(kind: str, number: int, seed: int, seeds: Seeds, place: Place) -> None:
    """Make a case and do it; what must not happen is raised."""
    chance = Random(f"{seed}/{kind}/{number}")
    for step in KINDS[kind](seeds, place, chance):
        step()
    if state_of(place.outside) != _UNTOUCHED:
        raise Finding("a file outside was touched")


_UNTOUCHED = {"precious.txt": b"precious\n", "inner": None, "inner/also.json": b"{}\n"}


def outside_in(folder: Path) -> Path:
    """A folder that nothing may touch."""
    outside = folder / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "precious.txt").write_bytes(b"precious\n")
    (outside / "inner" / "also.json").write_bytes(b"{}\n")
    return outside
