"""Data files: found plain or packed, downloaded once, and never trusted without their checksum."""

import gzip
import hashlib
import http.client
import io

import pytest

from sparsemble.data.downloads import PublishedFiles, data_folder
from sparsemble.errors import CorruptFileError, InputError

CONTENT = b"what was published"
PACKED = gzip.compress(CONTENT, mtime=0)  # the time would be part of the tests' names
FILES = PublishedFiles(
    title="The example",
    subfolder="example",
    sha256={"a.txt": hashlib.sha256(CONTENT).hexdigest(), "b.txt": "0" * 64},
    mirrors=("https://first.invalid/{name}.gz", "https://second.invalid/{name}"),
)


@pytest.fixture
def mirrors(monkeypatch):
    """What each address answers, and the addresses asked for, in order."""
    answers, asked = {}, []

    def urlopen(address, **_):
        asked.append(address)
        answer = answers.get(address, OSError("not found"))
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return answers, asked


def test_the_folder_is_the_one_given_or_named_by_the_environment_or_the_cache(monkeypatch):
    monkeypatch.setenv("SPARSEMBLE_DATA", "/named")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert str(data_folder("/given")) == "/given"
    assert str(data_folder()) == "/named"
    monkeypatch.delenv("SPARSEMBLE_DATA")
    assert str(data_folder()) == "/cache/sparsemble"


@pytest.mark.parametrize(("name", "stored"), [("a.txt", CONTENT), ("a.txt.gz", PACKED)])
def test_a_file_in_the_folder_is_read_plain_or_packed_without_the_network(
    tmp_path, mirrors, name, stored
):
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / name).write_bytes(stored)
    assert FILES.read("a.txt", tmp_path) == CONTENT
    assert mirrors[1] == []


def test_a_plain_file_with_other_content_is_refused(tmp_path):
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "a.txt").write_bytes(CONTENT + b"!")
    with pytest.raises(CorruptFileError, match=r"a\.txt is not the a\.txt it should be"):
        FILES.read("a.txt", tmp_path)


@pytest.mark.parametrize(
    ("address", "sent", "kept"),
    [
        ("https://first.invalid/a.txt.gz", PACKED, "a.txt.gz"),
        ("https://second.invalid/a.txt", CONTENT, "a.txt"),
    ],
)
def test_a_missing_file_is_downloaded_once_and_kept_as_it_came(
    tmp_path, mirrors, address, sent, kept
):
    answers, asked = mirrors
    answers[address] = sent
    assert FILES.read("a.txt", tmp_path) == CONTENT
    assert asked[-1] == address
    assert [path.name for path in (tmp_path / "example").iterdir()] == [kept]
    asked.clear()
    assert FILES.read("a.txt", tmp_path) == CONTENT
    assert asked == []


@pytest.mark.parametrize("first", [b"an error page", PACKED[:-3], http.client.IncompleteRead(b"")])
def test_a_mirror_that_sends_something_else_is_passed_over(tmp_path, mirrors, first):
    answers, _ = mirrors
    answers["https://first.invalid/a.txt.gz"] = first
    answers["https://second.invalid/a.txt"] = CONTENT
    assert FILES.read("a.txt", tmp_path) == CONTENT
    assert [path.name for path in (tmp_path / "example").iterdir()] == ["a.txt"]


def test_when_no_mirror_answers_the_message_names_the_files_the_folder_and_the_reasons(
    tmp_path, mirrors
):
    mirrors[0]["https://second.invalid/a.txt"] = b"an error page"
    with pytest.raises(InputError) as caught:
        FILES.read("a.txt", tmp_path)
    message = str(caught.value)
    assert f"The example is not in {tmp_path / 'example'}" in message
    assert "put the files a.txt, b.txt there" in message
    assert "SPARSEMBLE_DATA" in message
    assert "first.invalid/a.txt.gz: not found" in message
    assert "wrong checksum" in message
    assert not (tmp_path / "example").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path, mirrors):
    (tmp_path / "example").write_bytes(b"a file where the folder should be")
    mirrors[0]["https://second.invalid/a.txt"] = CONTENT
    with pytest.raises(InputError, match=r"cannot be kept at .*a\.txt .* SPARSEMBLE_DATA"):
        FILES.read("a.txt", tmp_path)
