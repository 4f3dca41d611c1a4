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
)
from sparsemble.store.links import inside
from sparsemble.store.packing import StreamReader, StreamWriter, pack, unpack

__all__ = [
    "StreamReader",
    "StreamWriter",
    "full_disk_explained",
    "inside",
    "pack",
    "read_json",
    "read_tensors",
    "remove_partial",
    "tensor_digest",
    "unpack",
    "write_atomically",
    "write_json",
    "write_pieces",
    "write_tensors",
]
