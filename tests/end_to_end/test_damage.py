"""Damaged, foreign and malicious files at every place of a run folder and a saved ensemble.

Whatever a file is replaced by, the answer is one clear line and exit code 2, or, where the file can
be done without, the very same ensemble; never a traceback, never code from a file, never a wrong
result.
"""

from __future__ import annotations

import math
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sparsemble.cli.main import main
from sparsemble.errors import InputError
from sparsemble.results.result import read_result
from sparsemble.store import read_json, read_tensors, write_json, write_tensors

pytestmark = pytest.mark.slow

QUICK = {
    "digits": [
        "chain.chains=2",
        "chain.epochs=1",
        "chain.burn_in=0",
        "chain.interval=1",
        "retrain.epochs=1",
        "network.hidden=[20, 10]",
    ],
    "grammar": [
        "data.name=text",
        "network.hidden=[6, 5]",
        "chain.epochs=2",
        "chain.burn_in=0",
        "chain.interval=1",
        "chain.batch_size=5",
        "retrain.epochs=1",
        "retrain.batch_size=5",
    ],
}
Damage = Callable[[bytes], bytes | None]


def flip(place: float) -> Damage:
    def change(content: bytes) -> bytes:
        index = min(int(place * len(content)), len(content) - 1)
        return content[:index] + bytes([content[index] ^ 0x10]) + content[index + 1 :]

    return change


class Payload:
    """A pickle that would write a file."""

    def __reduce__(self):
        return (Path.touch, (Path("executed"),))


DAMAGES: dict[str, Damage] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "halved": lambda content: content[: len(content) // 2],
    "two bytes short": lambda content: content[:-2],  # the last of JSON is a line break
    "one byte longer": lambda content: content + b"\x00",
    **{f"bit flipped at {place:.0%}": flip(place) for place in (0, 0.02, 0.3, 0.7, 1)},
    "a pickle": lambda _: pickle.dumps(Payload()),
    "an empty object": lambda _: b"{}",
    "a list": lambda _: b"[1, 2]",
    "a number too large": lambda _: b"9" * 5000,
    "deeply nested": lambda _: b"[" * 100_000,
    "an archive": lambda _: b"PK\x03\x04" + bytes(200),
    "zeros": lambda content: bytes(len(content)),
    "not text": lambda _: b"\xff\xfe\xfa" * 50,
}


OF_BOTH = {"missing", "halved"}
"""Damages tried with both runs; the others with one, as the same functions read either's files."""
OF_ONE = {
    *("bit flipped at 70%", "bit flipped at 2%", "empty", "two bytes short", "one byte longer"),
    *("a pickle", "an empty object", "a number too large", "deeply nested", "not text"),
}


def spoil(file: Path, damage: Damage) -> None:
    content = damage(file.read_bytes())
    file.unlink()
    if content is not None:
        file.write_bytes(content)


def command(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["sparsemble", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
    return stop.value.code


@pytest.fixture(scope="module", params=QUICK)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def learning(kind, short_text):
    """A quick run as a command that lacks only the folder."""
    changes = QUICK[kind]
    if kind == "grammar":
        changes = [*changes, f"data.path={short_text}"]
    sets = [f"--set={change}" for change in changes]
    return ["learn", kind, "--quiet", "--baseline=none", *sets]


@pytest.fixture(scope="module")
def whole(learning, tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert command(*learning, f"--out={folder}") == 0
    return folder


@pytest.fixture(scope="module")
def other(learning, tmp_path_factory):
    """The same run with another seed: every file of it is sound, and foreign."""
    folder = tmp_path_factory.mktemp("other") / "run"
    assert command(*learning, "--set=seed=7", f"--out={folder}") == 0
    return folder


def ensemble_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "ensemble").iterdir())}


def files_of(folder: Path) -> list[Path]:
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in found if path.name != ".lock"]


def assert_clear(code: int, capsys: pytest.CaptureFixture[str], case: str) -> None:
    said = capsys.readouterr()
    assert "Traceback" not in said.err, case
    assert code in (0, 2), f"{case}: exit code {code}, {said.err}"
    if code == 2:
        assert len(said.err.strip().splitlines()) == 1, f"{case}: {said.err}"


def unfinished(whole: Path, place: Path) -> Path:
    """A copy that lacks only its results: resuming reads every file of both stages."""
    shutil.copytree(whole, place)
    (place / "result.json").unlink()
    shutil.rmtree(place / "ensemble")
    return place


CASES = [
    pytest.param(
        *(kind, damage),
        marks=()
        if damage in OF_BOTH or (kind == "digits" and damage in OF_ONE)
        else pytest.mark.thorough,
    )
    for kind in QUICK
    for damage in DAMAGES
]


@pytest.mark.parametrize(("kind", "damage"), CASES, indirect=["kind"], scope="module")
def test_a_damaged_run_is_refused_or_resumed_to_the_same_ensemble(
    damage, whole, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    refused = 0
    for file in files_of(whole):
        if file.parts[0] in ("ensemble", "result.json"):
            continue
        if "0001" in file.parts and damage not in OF_BOTH:
            continue  # the second of two alike
        run = unfinished(whole, tmp_path / "run")
        spoil(run / file, DAMAGES[damage])
        code = command("resume", "run", "--quiet", "--read=/")
        assert_clear(code, capsys, f"{file} {damage}")
        if code == 0:
            assert ensemble_of(run) == ensemble_of(whole), f"{file} {damage}"
        refused += code == 2
        shutil.rmtree(run)
    assert refused > 0
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_ensemble_is_refused(damage, whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for file in files_of(whole / "ensemble"):
        copy = tmp_path / "ensemble"
        shutil.copytree(whole / "ensemble", copy)
        spoil(copy / file, DAMAGES[damage])
        code = command("inspect", "ensemble")
        assert_clear(code, capsys, f"{file} {damage}")
        assert code == 2, f"{file} {damage}"
        shutil.rmtree(copy)
    assert not (tmp_path / "executed").exists()


def test_a_sound_file_of_another_run_is_refused_or_makes_no_difference(
    whole, other, tmp_path, capsys
):
    for file in files_of(whole):
        if file.parts[0] in ("ensemble", "result.json") or not (other / file).exists():
            continue
        run = unfinished(whole, tmp_path / "run")
        shutil.copy(other / file, run / file)
        code = command("resume", str(run), "--quiet", "--read=/")
        assert_clear(code, capsys, f"foreign {file}")
        if code == 0:
            assert ensemble_of(run) == ensemble_of(whole), f"foreign {file}"
        shutil.rmtree(run)


def test_a_damaged_result_file_is_refused(whole, tmp_path, capsys):
    for damage, change in DAMAGES.items():
        run = tmp_path / "run"
        shutil.copytree(whole, run)
        spoil(run / "result.json", change)
        code = command("compare", str(run))
        assert_clear(code, capsys, f"result.json {damage}")
        assert code == 2
        shutil.rmtree(run)


def resumed(run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said when a run that cannot go on is asked to."""
    code = command("resume", str(run), "--quiet", "--read=/")
    said = capsys.readouterr().err
    assert code == 2, said
    assert len(said.strip().splitlines()) == 1
    return said


@pytest.mark.parametrize("threads", [100_000, 0, -1, 1.5, "2", True, None, [1]])
def test_a_number_of_threads_that_is_none_is_refused(threads, learning, whole, tmp_path, capsys):
    run = unfinished(whole, tmp_path / "run")
    file = run / "run.json"
    write_json(file, read_json(file) | {"threads": threads})
    assert f"{file}: threads = {threads!r}" in resumed(run, capsys)
    file.unlink()
    stage = run / "chain" / "stage.json"
    write_json(stage, read_json(stage) | {"threads": threads})
    assert command(*learning, f"--out={run}") == 2
    assert f"{stage}: threads = {threads!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("chain", value) for value in (-1, 0.5, "0", None)),
        *(("step", value) for value in (-1, "3", [])),
        *(("trace_lines", value) for value in (-1, "3", None)),
        *(("rollbacks", value) for value in (-1, "3", math.inf)),
        *(("lr_factor", value) for value in (math.nan, -1.0, 0.0, math.inf, "1")),
        *(("epoch_loss", value) for value in (math.nan, "1")),
        *(("watch", value) for value in (None, {}, {"smoothed": "1", "best": None})),
        *(("good", value) for value in (None, {})),
    ],
)
def test_a_number_of_a_checkpoint_that_makes_no_sense_is_refused(
    name, value, whole, tmp_path, capsys
):
    run = unfinished(whole, tmp_path / "run")
    file = run / "chain" / "0000" / "checkpoint.safetensors"
    tensors, note = read_tensors(file)
    write_tensors(file, tensors, note | {name: value})
    said = resumed(run, capsys)
    assert str(file) in said
    assert name in said


def test_a_checkpoint_without_what_it_should_hold_is_refused(whole, tmp_path, capsys):
    run = unfinished(whole, tmp_path / "run")
    for sample in (run / "chain" / "0000").glob("sample-*"):
        sample.unlink()
    file = run / "chain" / "0000" / "checkpoint.safetensors"
    tensors, note = read_tensors(file)
    numbers = {k: v for k, v in note.items() if k != "step"}
    write_tensors(file, tensors, numbers)
    assert f"{file}: missing setting 'step'" in resumed(run, capsys)
    del tensors["random"]
    write_tensors(file, tensors, note)
    assert "is not one of this network and sampler" in resumed(run, capsys)


def test_a_sample_that_says_no_place_is_refused(whole, tmp_path, capsys):
    run = unfinished(whole, tmp_path / "run")
    file = next((run / "chain" / "0000").glob("sample-*"))
    tensors, note = read_tensors(file)
    write_tensors(file, tensors, note | {"step": "2"})
    assert f"{file}: step = '2'" in resumed(run, capsys)


def test_a_retrained_sample_of_another_size_is_refused(whole, tmp_path, capsys):
    run = unfinished(whole, tmp_path / "run")
    file = next((run / "retrain").rglob("sample-*"))
    tensors, note = read_tensors(file)
    name = max(tensors, key=lambda own: tensors[own].numel())
    write_tensors(file, {**tensors, name: tensors[name][..., :1]}, note)
    said = resumed(run, capsys)
    assert "what was kept of retrain" in said
    assert f"has no {name!r}" in said


@pytest.mark.parametrize(
    "changed", [lambda own: own[..., :1], lambda own: own.double(), lambda own: own.long()]
)
def test_a_sample_of_another_network_is_refused(changed, whole, tmp_path, capsys):
    run = unfinished(whole, tmp_path / "run")
    file = next((run / "chain" / "0000").glob("sample-*"))
    tensors, note = read_tensors(file)
    name = max(tensors, key=lambda own: tensors[own].numel())
    write_tensors(file, {**tensors, name: changed(tensors[name]).contiguous()}, note)
    assert "is not one of this network" in resumed(run, capsys)


def test_a_folder_where_a_file_is_to_be_written_is_refused(whole, tmp_path, capsys):
    run = unfinished(whole, tmp_path / "run")
    file = run / "ensemble" / "manifest.json"
    file.mkdir(parents=True)
    assert f"{file} is a folder" in resumed(run, capsys)


def test_a_result_whose_recipe_is_none_is_refused(whole, tmp_path):
    fields = read_json(whole / "result.json")
    write_json(tmp_path / "result.json", {**fields, "recipe": 0.5})
    with pytest.raises(InputError, match="recipe"):
        read_result(tmp_path / "result.json")
