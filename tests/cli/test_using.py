"""Using what a run left: evaluate, predict, inspect, compare, resume, from the command line."""

import csv
import io
import json
import re
import shutil

import numpy as np
import onnxruntime
import pytest
from torch import nn

from sparsemble.cli.main import main
from sparsemble.data import as_dataset, digits, grammar
from sparsemble.data.named import EXAMPLES
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.tasks import Classification

QUICK = [
    "--baseline=none",
    "--set=chain.chains=1",
    "--set=chain.epochs=8",
    "--set=chain.burn_in=4",
    "--set=chain.interval=2",
    "--set=retrain.epochs=1",
]
QUICK_TEXT = [
    "--baseline=none",
    "--set=data.portion=0.05",
    "--set=network.hidden=[10, 8]",
    "--set=chain.epochs=2",
    "--set=chain.burn_in=0",
    "--set=chain.interval=1",
    "--set=retrain.epochs=1",
]


def learned_in(folder, recipe, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "sys.argv", ["sparsemble", "learn", recipe, "--quiet", f"--out={folder}", *arguments]
        )
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return learned_in(tmp_path_factory.mktemp("digits") / "run", "digits", *QUICK)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return learned_in(tmp_path_factory.mktemp("grammar") / "run", "grammar", *QUICK_TEXT)


def test_evaluate_measures_on_named_data(command, images):
    code, out, _ = command("evaluate", images, "--on", "digits", "--json")
    figures = json.loads(out)
    expected = Ensemble.load(images / "ensemble").evaluate(digits()[1])
    assert code == 0
    assert figures["count"] == 897
    assert figures == expected.model_dump(mode="json")


def write_csv(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def digits_csv(folder, count, *, shuffled=False, labelled=False):
    """The first test images as CSV, with the columns in another order if asked."""
    test = digits()[1]
    names, rows = list(test.feature_names), test.inputs[:count].tolist()
    if shuffled:
        names, rows = names[::-1], [row[::-1] for row in rows]
    if labelled:
        names = [*names, "label"]
        rows = [[*row, int(y)] for row, y in zip(rows, test.targets[:count], strict=True)]
    return write_csv(folder / "rows.csv", names, rows)


def test_predict_gives_probabilities_and_uncertainty_of_rows(command, images, tmp_path):
    path = digits_csv(tmp_path, 5, shuffled=True)
    code, out, _ = command("predict", images, path)
    lines = list(csv.DictReader(io.StringIO(out)))
    ensemble = Ensemble.load(images / "ensemble")
    inputs = digits()[1].inputs[:5]
    wanted = ensemble.predict_proba(inputs)
    assert code == 0
    got = np.array([[float(line[str(k)]) for k in range(10)] for line in lines])
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    assert [line["prediction"] for line in lines] == [str(k) for k in wanted.argmax(1)]
    entropies = ensemble.uncertainty(inputs).total.numpy()
    np.testing.assert_allclose([float(x["entropy"]) for x in lines], entropies, atol=1e-4)


def test_predictions_go_into_a_file(command, images, tmp_path):
    np.save(tmp_path / "rows.npy", digits()[1].inputs[:3].numpy())
    out = tmp_path / "found.csv"
    code, said, _ = command("predict", images, tmp_path / "rows.npy", "--out", out)
    assert (code, said) == (0, "")
    assert len(list(csv.DictReader(out.open()))) == 3


def test_what_is_read_is_not_written_over(command, images, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2\n")
    code, _, said = command("predict", images, rows, "--out", rows)
    assert code == 2
    assert f"--out {rows} is what is read: name another file" in said
    assert rows.read_text() == "1,2\n"


def test_a_labelled_file_can_be_evaluated(command, images, tmp_path):
    path = digits_csv(tmp_path, 60, labelled=True)
    code, out, _ = command("evaluate", images, "--on", path, "--json")
    test = digits()[1]
    predicted = Ensemble.load(images / "ensemble").predict(test.inputs[:60])
    assert code == 0
    assert json.loads(out)["curve"]["error"][-1] == (predicted != test.targets[:60].numpy()).mean()
    np.savez(tmp_path / "rows.npz", inputs=test.inputs[:60], labels=test.targets[:60])
    _, again, _ = command("evaluate", images, "--on", tmp_path / "rows.npz", "--json")
    assert json.loads(again) == json.loads(out)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", b"a,b\n1,2\n", "feature 'pixel_0_0' is missing"),
        ("rows.csv", b"1,2\n1\n", "line 2 has 1 columns, not 2"),
        ("rows.csv", b"a,b\n1,x\n", "'x' in line 2 is not a number"),
        ("rows.csv", b"a,b\n", "holds no rows"),
        ("rows.csv", b"\xff\xfe1,2\n", "cannot be read as CSV"),
        ("rows.npy", b"\x80\x04N.", "cannot be read as NPY"),
        ("rows.npz", b"nonsense", "cannot be read as NPZ"),
        ("rows.txt", b"1 2", "rows are read from .csv, .npy, .npz files"),
    ],
)
def test_bad_rows_are_one_clear_message(command, images, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    code, out, err = command("predict", images, tmp_path / name)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_pickled_arrays_are_refused(command, images, tmp_path):
    np.save(tmp_path / "rows.npy", np.array([{"a": 1}]), allow_pickle=True)
    code, _, err = command("predict", images, tmp_path / "rows.npy")
    assert code == 2
    assert "cannot be read as NPY" in err


@pytest.mark.slow
def test_a_text_gets_its_perplexity_and_next_words(command, text, tmp_path):
    ensemble = Ensemble.load(text / "ensemble")
    words = grammar().vocabulary.decode(grammar().test[:200])
    lines = " ".join(words).replace("<eos>", "\n")
    (tmp_path / "mine.txt").write_text(lines)
    code, out, _ = command("predict", text, tmp_path / "mine.txt", "--json", "--words", 3)
    found = json.loads(out)
    assert code == 0
    assert found["unknown"] == 0
    assert [p for _, p in found["next_words"]] == sorted(
        (p for _, p in found["next_words"]), reverse=True
    )
    _, said, _ = command("evaluate", text, "--on", tmp_path / "mine.txt", "--json")
    assert json.loads(said)["curve"]["perplexity"][-1] == found["perplexity"]
    _, whole, _ = command("evaluate", text, "--on", "grammar", "--part", "validation", "--json")
    expected = ensemble.evaluate(grammar().validation).curve
    assert json.loads(whole)["curve"] == expected


def test_inspect_shows_members_and_what_the_folder_holds(command, images):
    code, out, _ = command("inspect", images, "--json")
    seen = json.loads(out)
    assert code == 0
    assert (seen["run"]["recipe"], seen["run"]["finished"]) == ("digits", True)
    assert seen["run"]["epochs"] == {"chain": 8, "retrain": 1}
    ensemble = Ensemble.load(images / "ensemble")
    assert [m["parameters"] for m in seen["ensemble"]["members"]] == [
        member.cost.parameters for member in ensemble
    ]
    _, said, _ = command("inspect", images / "ensemble")
    assert "2 classifiers, feedforward/outgoing" in said


def test_compare_puts_runs_side_by_side(command, images, text, monkeypatch):
    monkeypatch.chdir(images.parent)
    # Runs of one recipe are told apart by their folders.
    code, out, _ = command("compare", "run", "run/result.json")
    assert code == 0
    assert re.search(r"┃ +run +┃ +run/result.json +┃", out)
    code, _, err = command("compare", images, text)
    assert code == 2
    assert "cannot be compared" in err


def test_resuming_a_finished_run_does_nothing_and_says_so(command, images):
    before = {p: p.stat().st_mtime_ns for p in images.rglob("*") if p.is_file()}
    code, _, err = command("resume", images)
    assert code == 0
    assert "is complete: nothing is left to do" in err
    assert {p: p.stat().st_mtime_ns for p in images.rglob("*") if p.is_file()} == before


def test_a_run_resumes_from_its_folder_alone(command, tmp_path):
    folder = learned_in(tmp_path / "run", "digits", *QUICK)
    whole = (folder / "ensemble" / "manifest.json").read_bytes()
    for path in [folder / "result.json", *(folder / "ensemble").iterdir()]:
        path.unlink()
    shutil.rmtree(folder / "retrain")
    code, _, err = command("evaluate", folder, "--on", "digits")
    assert code == 2
    assert "is not finished: sparsemble resume" in err
    assert command("resume", folder, "--quiet")[0] == 0
    assert (folder / "ensemble" / "manifest.json").read_bytes() == whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resume", "nowhere"], "nowhere is not a run folder: it has no run.json"),
        (["evaluate", "nowhere", "--on", "digits"], "not a folder with a saved ensemble"),
        (["inspect", "nowhere"], "nowhere holds neither a run nor an ensemble"),
        (["compare", "nowhere"], "nowhere"),
    ],
)
def test_what_is_not_there_is_said(command, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = command(*arguments)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("array", "message"),
    [(np.zeros((0, 64)), "holds no rows"), (np.zeros(()), "holds no rows")],
)
def test_arrays_without_rows_are_refused(command, images, tmp_path, array, message):
    np.save(tmp_path / "rows.npy", array)
    code, _, err = command("predict", images, tmp_path / "rows.npy")
    assert code == 2
    assert message in err


def test_an_unknown_label_is_named(command, images, tmp_path):
    rows = [[*row, "bird"] for row in digits()[1].inputs[:2].tolist()]
    path = write_csv(tmp_path / "rows.csv", [*digits()[1].feature_names, "label"], rows)
    code, _, err = command("evaluate", images, "--on", path)
    assert code == 2
    assert "the label 'bird' is not a class of the ensemble" in err


def test_lines_are_counted_as_an_editor_counts_them(command, images, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n\n1,2\n\n3,x\n")
    assert "'x' in line 5 is not a number" in command("predict", images, tmp_path / "rows.csv")[2]


def test_what_is_said_of_a_text_can_go_into_a_file(command, text, tmp_path):
    (tmp_path / "text.txt").write_text("the dog\n")
    out = tmp_path / "said.txt"
    assert command("predict", text, tmp_path / "text.txt", "--out", out)[1] == ""
    assert out.read_text().startswith("perplexity ")


def test_data_of_another_kind_is_refused(command, images, monkeypatch):
    wide = as_dataset(np.zeros((3, 784)), np.zeros(3, int))
    monkeypatch.setitem(EXAMPLES, "digits", lambda folder: (wide, wide))
    code, _, err = command("evaluate", images, "--on", "digits")
    assert code == 2
    assert "the ensemble reads 64 features" in err


def test_words_and_folders_in_brackets_are_printed_as_they_are(command, tmp_path):
    texts = tmp_path / "[red]texts"
    texts.mkdir()
    for part in ("train", "validation", "test"):
        (texts / f"{part}.txt").write_text("[/b] a\n[/b] b\n" * (400 if part == "train" else 3))
    out = tmp_path / "[bold]run"
    files = ", ".join(f'{part} = "{texts}/{part}.txt"' for part in ("train", "validation", "test"))
    code, said, _ = command(
        "learn",
        "grammar",
        f"--out={out}",
        "--set=data.name=text",
        f"--set=data.files={{{files}}}",
        *[option for option in QUICK_TEXT if "portion" not in option],
    )
    assert code == 0  # the validation text is shorter than it has streams
    assert str(out) in said
    (tmp_path / "a.txt").write_text("a\n")
    assert "[/b]" in command("predict", out, tmp_path / "a.txt")[1]


def test_the_header_of_a_table_without_names_is_no_row(command, images, tmp_path):
    rows = digits()[1].inputs[:3].tolist()
    path = write_csv(tmp_path / "rows.csv", range(64), rows)
    assert len(command("predict", images, path)[1].splitlines()) == 1 + 3


def test_semicolons_and_capital_endings_are_read_too(command, images, tmp_path):
    path = digits_csv(tmp_path, 3)
    wanted = command("predict", images, path)[1]
    other = tmp_path / "ROWS.CSV"
    other.write_text(path.read_text().replace(",", ";"))
    assert command("predict", images, other)[1] == wanted


def test_errors_in_rows_name_the_file(command, images, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(",".join(["nan"] * 64) + "\n")
    assert f"{path}: 1 of 1 examples hold NaN" in command("predict", images, path)[2]


@pytest.mark.parametrize(
    ("on", "part", "message"),
    [
        ("grammar", "test", "'grammar' is a text, and the ensemble holds classifiers"),
        ("digits", "validation", "'digits' has no part 'validation'"),
        ("digits", "all", "'digits' has no part 'all', only train and test"),
    ],
)
def test_data_that_does_not_fit_the_ensemble_is_told(command, images, on, part, message):
    code, _, err = command("evaluate", images, "--on", on, "--part", part)
    assert code == 2
    assert message in err


def test_the_training_part_can_be_evaluated_as_well(command, images):
    out = command("evaluate", images, "--on", "digits", "--part", "train", "--json")[1]
    assert json.loads(out)["count"] == 900


def test_a_text_is_found_in_the_folder_it_was_learned_from(command, text, tmp_path):
    (tmp_path / "valid.txt").write_text("the dog\n")
    code, out, _ = command("evaluate", text, "--on", tmp_path, "--part", "validation", "--json")
    assert code == 0
    assert json.loads(out)["count"] == 3
    assert (
        "'digits' holds examples, and the ensemble language models"
        in command("evaluate", text, "--on", "digits")[2]
    )


def test_an_ensemble_loads_from_its_run_and_takes_pairs_of_arrays(images):
    ensemble = Ensemble.load(images)
    test = digits()[1]
    assert ensemble.evaluate((test.inputs, test.targets)) == ensemble.evaluate(test)


def test_a_file_that_cannot_be_written_is_named_itself(command, images, tmp_path):
    path = digits_csv(tmp_path, 2)
    code, _, err = command("predict", images, path, "--out", tmp_path)
    assert code == 2
    assert err.startswith(f"sparsemble: {tmp_path} is a folder where a file is to be written")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": np.zeros((0, 64))}, "holds no rows"),
        ({"inputs": np.zeros((2, 64)), "labels": np.array([["0"], ["1"]])}, "'labels' of shape"),
    ],
)
def test_arrays_that_hold_nothing_to_use_are_told(arrays, message, command, images, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    code, _, err = command("predict", images, tmp_path / "a.npz")
    assert code == 2
    assert message in err


def test_a_hole_in_the_first_row_is_told_like_any_other(command, images, tmp_path):
    rows = [["1"] * 64 for _ in range(3)]
    rows[0][5] = ""
    (tmp_path / "a.csv").write_text("\n".join(map(",".join, rows)))
    code, _, err = command("predict", images, tmp_path / "a.csv")
    assert code == 2
    assert "'' in line 1 is not a number" in err


def test_labels_mean_the_same_in_every_kind_of_file(tmp_path):
    network = nn.Sequential(nn.Linear(2, 3))
    member = Member.dense(network, layout_of(network))
    named = Ensemble([member], Classification(class_names=("1", "2", "3")))
    inputs = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    labels = named.predict(inputs) + 1
    np.savez(tmp_path / "a.npz", inputs=inputs, labels=labels)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(inputs, labels, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["x,y,label", *lines]))
    for name in ("a.npz", "a.csv"):
        held = named.task.evaluation_from(str(tmp_path / name), "test", None)
        assert named.evaluate(held)["error"] == 0


@pytest.mark.slow
def test_export_writes_a_file_that_predicts_the_same(class_run, tmp_path, command):
    path = tmp_path / "digits.onnx"
    code, out, _ = command("export", class_run, "--out", path, "--members")
    assert code == 0
    assert re.search(r"digits\.onnx: \d\.\d\d MB; .* differ by at most \de-\d+", out)
    session = onnxruntime.InferenceSession(path)
    rows = np.random.default_rng(0).uniform(0, 16, size=(3, 64)).astype(np.float32)
    (found,) = session.run(["probabilities"], {"inputs": rows})
    assert found == pytest.approx(Ensemble.load(class_run).predict_proba(rows), abs=1e-5)


def test_export_without_what_it_takes_says_what_to_install(
    class_run, tmp_path, command, monkeypatch
):
    monkeypatch.setattr("sparsemble.export.onnx._NEEDED", ("onnx_of_nobody",))
    code, _, err = command("export", class_run, "--out", tmp_path / "model.onnx")
    assert code == 2
    assert "pip install 'sparsemble[export]'" in err
    assert not list(tmp_path.iterdir())


def test_next_words_are_not_asked_of_a_classifier(command, images, tmp_path):
    code, _, err = command("predict", images, digits_csv(tmp_path, 3), "--words", 3)
    assert code == 2
    assert "words: not for examples" in err
