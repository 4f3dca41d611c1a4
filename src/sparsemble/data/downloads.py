"""Published data files: in a data directory, or downloaded once into it; checksums verified.

The directory is the `folder` argument, or `SPARSEMBLE_DATA`, or a cache folder of the user's. The
checksums are of the uncompressed files, so any mirror's compression is accepted.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparsemble.errors import CorruptFileError, InputError
from sparsemble.store import write_atomically


def data_folder(folder: str | Path | None = None) -> Path:
    """Where data files are looked for."""
    if folder is not None:
        return Path(folder)
    if named := os.environ.get("SPARSEMBLE_DATA"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sparsemble"


@dataclass(frozen=True)
class PublishedFiles:
    """The files of a published data set, known by their checksums."""

    title: str
    subfolder: str
    """Of the data directory."""
    sha256: Mapping[str, str]
    """Of each file's uncompressed bytes, by its name."""
    mirrors: tuple[str, ...]
    """Addresses with `{name}` in the place of a file's name."""

    def place(self, folder: str | Path | None = None) -> Path:
        """The folder that holds, or will hold, the files."""
        return data_folder(folder) / self.subfolder

    def read(self, name: str, folder: str | Path | None = None) -> bytes:
        """The uncompressed bytes of one file, from the folder or a mirror."""
        place = self.place(folder)
        for path in (place / f"{name}.gz", place / name):
            if path.exists():
                try:
                    stored = path.read_bytes()
                except OSError as error:
                    raise InputError(f"{path} cannot be read: {error.strerror}") from None
                return self._verified(stored, name, f"{path}", "delete it")
        return self._download(name, place)

    def _download(self, name: str, place: Path) -> bytes:
        """The bytes of one file, from the first mirror that has it, also kept in `place`."""
        reasons = []
        for mirror in self.mirrors:
            address = mirror.format(name=name)
            try:
                with urllib.request.urlopen(address, timeout=30) as response:
                    received = response.read()
                content = self._verified(received, name, address, "it was not kept")
            except (OSError, http.client.HTTPException, CorruptFileError) as error:
                reasons.append(f"{address}: {error}")
                continue
            path = place / (f"{name}.gz" if _is_packed(received) else name)
            try:
                write_atomically(path, received)
            except OSError as error:
                raise InputError(
                    f"{self.title} was downloaded but cannot be kept at {path} ({error.strerror}): "
                    "name a folder that can be written with SPARSEMBLE_DATA"
                ) from None
            return content
        raise InputError(
            f"{self.title} is not in {place} and could not be downloaded: put the files "
            f"{', '.join(self.sha256)} there, plain or as .gz, or name the folder above it with "
            f"SPARSEMBLE_DATA ({'; '.join(reasons)})"
        )

    def _verified(self, content: bytes, name: str, source: str, remedy: str) -> bytes:
        if _is_packed(content):
            try:
                content = gzip.decompress(content)
            except (OSError, EOFError, zlib.error) as error:
                raise CorruptFileError(f"{source} is damaged ({error}): {remedy}") from None
        if hashlib.sha256(content).hexdigest() != self.sha256[name]:
            raise CorruptFileError(
                f"{source} is not the {name} it should be: wrong checksum; {remedy}"
            )
        return content


def _is_packed(content: bytes) -> bool:
    return content[:2] == b"\x1f\x8b"
