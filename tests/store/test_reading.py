"""Whatever stands in the place of a file: it is answered at once, and takes no memory."""

import json
import os

import pytest
import torch

from sparsemble.errors import CorruptFileError, InputError
from sparsemble.store import (
    opened,
    parsed_json,
    read_json,
    read_plain,
    read_tensors,
    read_text,
    tensor_bytes,
    write_json,
    write_tensors,
)

MUCH = 40 << 30


def test_a_plain_file_is_read_to_its_end(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"content")
    assert read_plain(file, 7) == b"content"
    assert read_text(file, 7) == "content"


def test_a_file_larger_than_it_can_be_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "file"
    with file.open("wb") as sparse:
        sparse.truncate(MUCH)
    with pytest.raises(CorruptFileError, match="42,949,672,960 bytes, which is too large"):
        read_plain(file, 1 << 20)
    with pytest.raises(CorruptFileError, match="too large"):
        read_json(file)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorruptFileError, match="a device or a pipe, not a file"):
        read_json(tmp_path / "pipe")


def test_a_device_without_an_end_is_not_read(tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(CorruptFileError, match="a device or a pipe"):
        read_tensors(tmp_path / "link")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="it is a folder"), opened(tmp_path, 1):
        pass


def test_what_is_not_there_or_has_an_impossible_name_is_said_to_be(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_plain(tmp_path / "missing", 1)
    with pytest.raises(InputError, match="cannot be read"):
        read_plain(tmp_path / "a\0b", 1)


def test_text_that_is_none_is_told_by_its_place(tmp_path):
    (tmp_path / "file").write_bytes(b"ab\xff")
    with pytest.raises(InputError, match="byte 3 is not of UTF-8"):
        read_text(tmp_path / "file", 10)


@pytest.mark.parametrize("levels", [70, 992, 100_000])
@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")])
def test_json_that_is_nested_deeply_is_refused_however_deep(levels, brackets):
    first, last = brackets
    with pytest.raises(CorruptFileError, match=r"nested more than 64|is not JSON"):
        parsed_json(first * levels + "1" + last * levels, "it")


def test_json_of_a_usual_depth_is_read():
    value = {"a": [{"b": [[1]]}]}
    assert parsed_json(json.dumps(value), "it") == value


def test_numbers_too_long_to_be_any_are_refused():
    with pytest.raises(CorruptFileError, match="is not JSON"):
        parsed_json("9" * 5000, "it")


@pytest.mark.parametrize(("written", "told"), [("I64", "C64"), ("I16", "U16"), ("BOOL", "F8_X")])
def test_tensors_of_types_that_are_never_written_are_refused(written, told, tmp_path):
    dtype = {"I64": torch.int64, "I16": torch.int16, "BOOL": torch.bool}[written]
    file = tmp_path / "file"
    write_tensors(file, {"a": torch.zeros(3, dtype=dtype)})
    file.write_bytes(file.read_bytes().replace(f'"{written}"'.encode(), f'"{told}"'.encode()))
    with pytest.raises(CorruptFileError, match=r"not a tensor file of sparsemble \(ValueError\)"):
        read_tensors(file)


def test_a_tensor_file_with_more_behind_its_tensors_is_not_read(tmp_path):
    file = tmp_path / "file"
    write_tensors(file, {"a": torch.zeros(3)})
    with file.open("r+b") as longer:
        longer.truncate(file.stat().st_size + (1 << 30))
    with pytest.raises(CorruptFileError, match="not a tensor file"):
        read_tensors(file)


def test_the_limit_of_tensors_can_be_set(tmp_path, monkeypatch):
    write_tensors(tmp_path / "file", {"a": torch.zeros(300)})
    monkeypatch.setenv("SPARSEMBLE_MAX_BYTES", "1000")
    with pytest.raises(CorruptFileError, match=r"1,000 at most; SPARSEMBLE_MAX_BYTES raises"):
        read_tensors(tmp_path / "file")
    monkeypatch.setenv("SPARSEMBLE_MAX_BYTES", "10000")
    assert len(read_tensors(tmp_path / "file")[0]["a"]) == 300
    monkeypatch.setenv("SPARSEMBLE_MAX_BYTES", "much")
    with pytest.raises(InputError, match="SPARSEMBLE_MAX_BYTES='much': write a number of bytes"):
        tensor_bytes()


def test_what_was_written_is_read_back(tmp_path):
    write_json(tmp_path / "a.json", {"a": [1, {"b": None}]})
    assert read_json(tmp_path / "a.json") == {"a": [1, {"b": None}]}
