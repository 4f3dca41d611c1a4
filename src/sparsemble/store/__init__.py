"""Files: written atomically, read with suspicion; never a pickle."""

from sparsemble.store.files import (
    full_disk_explained,
    read_json,
    read_tensors,
    remove_partial,
    tensor_digest,
    write_atomically,
    write_json,
    write_pieces,
    write_tensors,
    write_text,
)
from sparsemble.store.limits import RAISED_BY, tensor_bytes
from sparsemble.store.links import inside
from sparsemble.store.packing import StreamReader, StreamWriter, pack, unpack
from sparsemble.store.reading import opened, parsed_json, read_plain, read_text

__all__ = [
    "RAISED_BY",
    "StreamReader",
    "StreamWriter",
    "full_disk_explained",
    "inside",
    "opened",
    "pack",
    "parsed_json",
    "read_json",
    "read_plain",
    "read_tensors",
    "read_text",
    "remove_partial",
    "tensor_bytes",
    "tensor_digest",
    "unpack",
    "write_atomically",
    "write_json",
    "write_pieces",
    "write_tensors",
    "write_text",
]
