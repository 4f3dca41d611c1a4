"""Atomic, checksummed files of two kinds: tensors with a JSON note, and JSON alone.

Every file carries a SHA-256 of its own content. A reader sees the old file or the new one, never
half of one; anything damaged, truncated or foreign is a `CorruptFileError`. Tensors are stored as
safetensors, which cannot hold code.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor

from sparsemble.errors import CorruptFileError, DiskFullError, InputError
from sparsemble.store.limits import JSON_BYTES, RAISED_BY, tensor_bytes
from sparsemble.store.reading import opened, parsed_json, read_plain

_CHECKSUM = "sha256"
_ENTRY = "sparsemble"
_PARTIAL = ".partial"


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` so that a crash leaves either the old file or the new one.

    A link stays one, to the new content; a device or a pipe is written to.
    """
    write_pieces(path, (content,))


def write_text(path: Path, text: str) -> None:
    """The same of a text for people; the name of a file that is no UTF-8 is shown by numbers."""
    write_atomically(path, text.encode(errors="backslashreplace"))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """The same of content that comes in pieces, and is in its place when the last one came.

    A device or a pipe gets each as it comes.
    """
    if path.is_dir():
        raise InputError(
            f"{path} is a folder where a file is to be written: name a file, or move it"
        )
    if path.exists() and not path.is_file():
        with _named(path):
            device = path.open("wb", buffering=0)
        with device:
            _write_all(device, pieces, path)
        return
    place = Path(os.path.realpath(path))
    partial = place.with_name(f".{place.name}.{secrets.token_hex(4)}{_PARTIAL}")
    with _named(path):
        place.parent.mkdir(parents=True, exist_ok=True)
        file = partial.open("xb", buffering=0)
    try:
        with file:
            size = _write_all(file, pieces, path)
            with full_disk_explained(path, size), _named(path):
                os.fsync(file.fileno())
        with full_disk_explained(path, size), _named(path):
            partial.replace(place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


def _write_all(file: FileIO, pieces: Iterable[bytes], path: Path) -> int:
    """Write pieces; how long they are together. Errors in making them are not the file's."""
    size = 0
    for piece in pieces:
        size += len(piece)
        left = memoryview(piece)
        with full_disk_explained(path, size), _named(path):
            while left:
                left = left[file.write(left) :]
    return size


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let errors name the file that was meant, not the partial one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def remove_partial(folder: Path) -> None:
    """Remove what kills left half-written in `folder`."""
    for path in folder.glob(f".*{_PARTIAL}"):
        path.unlink(missing_ok=True)


@contextmanager
def full_disk_explained(path: Path, size: int) -> Iterator[None]:
    """Turn a full disk into a `DiskFullError` that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFullError(
            f"no space left to write {path} ({size / 1e6:.1f} MB): nothing that was written is "
            "lost; free some space and go on"
        ) from None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with its own checksum."""
    content = dict(value)
    content[_CHECKSUM] = _json_digest(value)
    text = json.dumps(content, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="surrogatepass"))


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote; the checksum is verified and removed."""
    value = parsed_json(read_plain(path, JSON_BYTES), str(path))
    if not isinstance(value, dict) or value.pop(_CHECKSUM, None) != _json_digest(value):
        raise CorruptFileError(f"{path} does not match its checksum: damaged or edited")
    return value


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any] | None = None
) -> str:
    """Write tensors and a JSON-able note as one safetensors file; return the content's checksum."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(note or {}, sort_keys=True)
    digest = tensor_digest(plain, text)
    # One entry, because safetensors writes several in any order: equal content, equal bytes.
    entry = json.dumps({"note": text, _CHECKSUM: digest})
    write_atomically(path, to_safetensors(plain, metadata={_ENTRY: entry}))
    return digest


def read_tensors(
    path: Path, expected: str | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote: the tensors and the note.

    `expected` is the checksum that `write_tensors` returned, if it was kept elsewhere.
    """
    with opened(path, tensor_bytes(), remedy=RAISED_BY) as (file, size):
        try:
            header = _header(file, size)
            metadata = parsed_json(header["__metadata__"][_ENTRY], str(path))
            note = parsed_json(metadata["note"], str(path))
            stated = metadata[_CHECKSUM]
            file.seek(0)
            tensors = parse_safetensors(file.read(size))
        except (SafetensorError, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise CorruptFileError(
                f"{path} is not a tensor file of sparsemble ({type(error).__name__}): damaged, "
                "truncated or foreign"
            ) from None
    digest = tensor_digest(tensors, metadata["note"])
    if digest != stated or digest != (expected or digest) or not isinstance(note, dict):
        raise CorruptFileError(f"{path} does not match its checksum: damaged or edited")
    return tensors, note


_TYPES = frozenset(["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"])
"""What tensors are written in; others hardly any operation takes."""


def _header(file: BinaryIO, size: int) -> dict[str, Any]:
    """The head of a safetensors file: a length of 8 bytes, then JSON.

    Only what would be read in vain is looked for: the rest is checked by the library.
    """
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - 8, JSON_BYTES):
        raise ValueError("the head is longer than the file")
    header = parsed_json(file.read(length), "the head")
    tensors = [entry for name, entry in header.items() if name != "__metadata__"]
    if not all(entry["dtype"] in _TYPES for entry in tensors):
        raise ValueError("a tensor has another type")
    if sum(end - start for start, end in (e["data_offsets"] for e in tensors)) != size - 8 - length:
        raise ValueError("the tensors are not what the file holds")
    return dict(header)


def _json_digest(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def tensor_digest(tensors: Mapping[str, Tensor], note: str = "{}") -> str:
    """The checksum that `write_tensors` gives a file with this content."""
    digest = hashlib.sha256(note.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system lets a folder be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
