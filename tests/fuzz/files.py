"""Files, spoiled: what they say with checksums made anew, their bytes, what they are at all."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from fuzz.values import spoiled
from sparsemble.errors import InputError
from sparsemble.store import read_json, read_tensors, write_json, write_tensors

Spoil = Callable[[Path, Path, Random], None]
"""Spoils a file, given a folder outside that must stay as it is."""


def spoil_content(file: Path, outside: Path, chance: Random) -> None:
    """Change what a file says, and its checksum with it."""
    if file.suffix == ".json":
        _spoil_json(file, chance)
    elif file.suffix == ".safetensors":
        _spoil_tensors(file, chance)
    elif file.suffix == ".jsonl":
        _spoil_lines(file, chance)
    else:
        spoil_bytes(file, outside, chance)


def _spoil_json(file: Path, chance: Random) -> None:
    fields = spoiled(read_json(file), chance)
    if not isinstance(fields, dict):
        file.write_text(json.dumps(fields))
        return
    fields.pop("sha256", None)
    try:
        write_json(file, fields)
    except (RecursionError, ValueError, TypeError, InputError):
        file.write_bytes(b'{"a":' * 2000 + b"1" + b"}" * 2000)


def _spoil_lines(file: Path, chance: Random) -> None:
    lines = file.read_text(errors="replace").splitlines()
    number = chance.randrange(len(lines)) if lines else 0
    if not lines or chance.random() < 0.3:
        lines[number : number + chance.randrange(2)] = lines[chance.randrange(len(lines) + 1) :]
    else:
        try:
            fields = json.loads(lines[number].partition(" ")[2])
        except (ValueError, RecursionError):  # spoiled by an earlier change
            return
        text = _as_json(spoiled(fields, chance))
        lines[number] = f"{zlib.crc32(text.encode()):08x} {text}"
    file.write_text("".join(f"{line}\n" for line in lines))


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "[" * 2000 + "]" * 2000


def _spoil_tensors(file: Path, chance: Random) -> None:
    """Tensors or their note; of an ensemble the manifest names the new file."""
    tensors, note = read_tensors(file)
    if note and chance.random() < 0.5:
        changed = spoiled(note, chance)
        note = changed if isinstance(changed, dict) else {}
    else:
        name = chance.choice(list(tensors)) if tensors else ""
        changes = _changed_tensors(tensors, name, chance) if name else {}
        tensors.pop(name, None)
        tensors |= changes
    try:
        digest = write_tensors(file, tensors, note)
    except (ValueError, RuntimeError, RecursionError, TypeError):
        file.write_bytes(file.read_bytes()[:-3])
        return
    manifest = file.parent / "manifest.json"
    if manifest.is_file():
        own = file.with_name(f"members-{digest[:16]}.safetensors")
        file.rename(own)
        write_json(manifest, read_json(manifest) | {"tensors": own.name, "tensors_sha256": digest})


_TYPES = (
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.uint16,
    torch.uint64,
)


def _changed_tensors(tensors: dict[str, Tensor], name: str, chance: Random) -> dict[str, Tensor]:
    tensor = tensors[name].clone()
    flat = tensor.view(-1)
    how = chance.randrange(9)
    if how == 0:
        return {}
    if how == 1:
        return {name: tensor.to(chance.choice(_TYPES))}
    if how == 2:
        return {name: flat[: chance.choice((0, 1, len(flat) // 2, max(len(flat) - 1, 0)))]}
    if how == 3:
        return {name: torch.cat([flat, flat])}
    if how == 4:
        return {name: tensor.unsqueeze(0) if chance.random() < 0.5 else flat}
    if how == 5:
        return {chance.choice((f"{name}x", "", "x" * 500, "values", "units/hidden 1")): tensor}
    if how == 6 and len(flat):
        value = chance.choice((0, 1, -1, 127, 255, 32767, float("nan"), float("inf"), 1e38, 1e-44))
        if tensor.is_floating_point() or (isinstance(value, int) and tensor.dtype != torch.bool):
            value = value if tensor.is_floating_point() else value % 100
            flat[chance.randrange(len(flat))] = value
    elif how == 7 and tensor.is_floating_point():
        return {name: tensor * chance.choice((1e30, 1e38, 0, -1, 1e-38))}
    elif len(flat):
        flat.fill_(chance.choice((0, 1)))
    return {name: tensor}


def spoil_bytes(file: Path, outside: Path, chance: Random) -> None:
    """Change bytes; no checksum fits any more."""
    content = bytearray(file.read_bytes())
    place = chance.randrange(len(content) + 1)
    how = chance.randrange(6)
    if how == 0:
        del content[place:]
    elif how == 1:
        content[place:place] = bytes(chance.choice((1, 8, 4096)))
    elif how == 2 and content:
        content[place - 1] ^= 1 << chance.randrange(8)
    elif how == 3:
        content[:8] = chance.choice((2**63, 2**31, 0, len(content))).to_bytes(8, "little")
    elif how == 4:
        foreign = (b"", b"[" * 100_000, b"9" * 5000, b"PK\x03\x04", b"\xff")
        content = bytearray(chance.choice(foreign))
    else:
        content = content * 2
    file.write_bytes(bytes(content))


def spoil_kind(file: Path, outside: Path, chance: Random, *, pipes: bool = True) -> None:
    """Put something else in its place: a link, a pipe, a folder, a file without an end."""
    content = file.read_bytes()
    file.unlink()
    how = chance.randrange(8)
    if how == 0:
        file.symlink_to(outside / "precious.txt")
    elif how == 1:
        file.symlink_to(outside)
    elif how == 2:
        file.symlink_to("/dev/zero")
    elif how == 3 and pipes:
        os.mkfifo(file)
    elif how == 4:
        file.mkdir()
    elif how == 5:
        with file.open("wb") as sparse:
            sparse.write(content)
            sparse.truncate(chance.choice((3 << 30, 40 << 30)))
    elif how == 6:
        file.symlink_to(file.name)
    # else it is not there


def spoil_folder(folder: Path, outside: Path, chance: Random) -> None:
    """Put a link in the place of a folder inside."""
    inner = [path for path in folder.rglob("*") if path.is_dir()]
    if inner:
        chosen = chance.choice(inner)
        shutil.rmtree(chosen)
        if chance.random() < 0.7:
            chosen.symlink_to(outside)


def spoil_files(folder: Path, outside: Path, chance: Random, *, files: list[Path]) -> None:
    """Spoil one or two of the files of a folder, or a folder in it."""
    if chance.random() < 0.03:
        spoil_folder(folder, outside, chance)
        return
    ways: list[tuple[Spoil, int]] = [(spoil_content, 12), (spoil_bytes, 1), (spoil_kind, 2)]
    for _ in range(chance.choice((1, 1, 1, 2))):
        file = chance.choice(files)
        if file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 28:
            spoil = chance.choices([way for way, _ in ways], [weight for _, weight in ways])[0]
            try:
                spoil(file, outside, chance)
            except InputError:  # spoiled by an earlier change
                break


def state_of(folder: Path) -> dict[str, Any]:
    """All that a folder holds, to tell whether it was touched."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
