"""Files are read in parts: predictions and figures are those of all rows at once, to the bit."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from small_ensembles import (
    FEATURES,
    WORDS,
    classifiers,
    language_models,
    regressors,
    table,
    table_classifiers,
)
from sparsemble.data import Text
from sparsemble.data.arrays import AT_ONCE
from sparsemble.errors import InputError
from sparsemble.tasks import next_words

ROWS = AT_ONCE + 700
"""A part and something: the last stretch that members compute has less than it may have."""


def numbers(rows=ROWS):
    return np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)


def write_csv(path, columns):
    pd.DataFrame(columns).to_csv(path, index=False)


def write_rows(folder, kind, inputs, targets):
    """Inputs, and their targets where files of the kind have any."""
    path = folder / f"rows.{kind.removeprefix('fortran ')}"
    order = "F" if kind.startswith("fortran") else "C"
    if path.suffix == ".csv":
        write_csv(path, dict(zip(FEATURES, inputs.T, strict=True)) | targets)
    elif path.suffix == ".npy":
        np.save(path, np.asarray(inputs, order=order))
    else:
        np.savez_compressed(path, inputs=np.asarray(inputs, order=order), **targets)
    return path


def predicted(ensemble, path, **options):
    parts = ensemble.task.predict_file(ensemble, path, **options)
    return [row for part in parts for row in part.value]


def scored(ensemble, path, **options):
    return ensemble.evaluate(ensemble.task.evaluation_from(str(path), "test", None, **options))


KINDS = ("csv", "npy", "fortran npy", "npz", "fortran npz")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_classified_as_all_at_once(tmp_path, kind):
    ensemble, inputs = classifiers(), numbers()
    labels = np.random.default_rng(1).integers(0, 3, ROWS)
    name = "label" if kind == "csv" else "labels"
    path = write_rows(tmp_path, kind, inputs, {name: np.array(["a", "b", "c"])[labels]})
    assert predicted(ensemble, path) == ensemble.task.rows(ensemble.evidence(inputs))
    if "npy" in kind:
        with pytest.raises(InputError, match="has no labels"):
            scored(ensemble, path)
    else:
        assert scored(ensemble, path) == ensemble.evaluate((inputs, labels))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_predicted_as_all_at_once(tmp_path, kind):
    ensemble, inputs = regressors(), numbers()
    up, down = np.random.default_rng(1).normal(size=(2, ROWS))
    path = write_rows(tmp_path, kind, inputs, {"down": down, "up": up})
    assert predicted(ensemble, path) == ensemble.task.rows(ensemble.evidence(inputs))
    if "npy" not in kind:
        assert scored(ensemble, path) == ensemble.evaluate((inputs, np.stack([up, down], 1)))


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "npz"])
def test_tables_are_read_as_all_at_once(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("sparsemble.tables.streams._BLOCK", 1 << 16)
    ensemble, columns = table_classifiers(), table(ROWS)
    frame = pd.DataFrame(columns)
    path = tmp_path / f"table.{kind}"
    if kind == "parquet":
        pq.write_table(pq.read_table(_parquet(frame, tmp_path)), path, row_group_size=3000)
    elif kind == "npz":
        np.savez(path, **columns | {"since": columns["since"].astype(str)})
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    assert predicted(ensemble, path) == ensemble.task.rows(ensemble.evidence(frame))
    assert scored(ensemble, path) == ensemble.evaluate(frame)


def _parquet(frame, folder):
    frame.to_parquet(folder / "whole.parquet")
    return folder / "whole.parquet"


def test_rows_without_a_target_are_left_out_and_counted_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("sparsemble.tables.streams._BLOCK", 1 << 16)
    ensemble, frame = table_classifiers(), pd.DataFrame(table(ROWS))
    frame.loc[frame.index % 3 == 0, "income"] = None
    frame.to_csv(tmp_path / "table.csv", index=False)
    score = scored(ensemble, tmp_path / "table.csv")
    assert score == ensemble.evaluate(frame)
    assert score.notes == ["1,599 of 4,796 rows are left out: income is missing there"]
    frame.assign(income=None).to_csv(tmp_path / "none.csv", index=False)
    with pytest.raises(InputError, match="income is missing in every row"):
        scored(ensemble, tmp_path / "none.csv")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_row_far_behind_is_counted_from_the_first(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("sparsemble.tables.streams._BLOCK", 1 << 16)
    frame = pd.DataFrame(table(ROWS))
    frame.loc[4500, "region"] = "mars"
    path = tmp_path / f"table.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    with pytest.raises(InputError, match="column 'region': row 4501 holds 'mars'"):
        predicted(table_classifiers(), path)


def test_a_table_is_not_read_further_than_a_row_that_is_too_long_or_too_short(tmp_path):
    ensemble = table_classifiers()
    path = tmp_path / "table.csv"
    pd.DataFrame(table(50)).to_csv(path, index=False)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:30], lines[30] + ",1", *lines[31:]]))
    with pytest.raises(InputError, match=r"table.csv cannot be read as CSV: row 30 has 6 columns"):
        predicted(ensemble, path)


def test_old_ends_of_lines_and_names_in_two_lines_are_read_too(tmp_path):
    ensemble, frame = table_classifiers(), pd.DataFrame(table(40))
    text = frame.to_csv(index=False)
    expected = ensemble.task.rows(ensemble.evidence(frame))
    (tmp_path / "old.csv").write_text(text.replace("\n", "\r"), newline="")
    assert predicted(ensemble, tmp_path / "old.csv") == expected
    (tmp_path / "two.csv").write_text(text.replace("age", '"age\n"', 1))
    assert predicted(ensemble, tmp_path / "two.csv") == expected


def text_of(tokens):
    return " ".join(WORDS[k] for k in tokens).replace(" <eos>", "\n")


@pytest.mark.parametrize("streams", [1, 3, 40])
def test_texts_are_scored_as_all_at_once(tmp_path, streams, monkeypatch):
    monkeypatch.setattr("sparsemble.tasks.text_files._WORDS", 700)
    monkeypatch.setattr("sparsemble.tasks.text_files._POSITIONS", 500)
    ensemble, chance = language_models(), np.random.default_rng(0)
    lines = [[*chance.integers(1, len(WORDS), chance.integers(1, 9)), 0] for _ in range(500)]
    tokens = torch.tensor([int(token) for line in lines for token in line])
    (tmp_path / "text.txt").write_text(text_of(tokens).replace("cat", "zebra"))
    tokens[tokens == WORDS.index("cat")] = WORDS.index("<unk>")
    found = scored(ensemble, tmp_path / "text.txt", streams=streams)
    expected = ensemble.evaluate(Text(tokens, streams=streams))
    assert (found.curve, found.members) == (expected.curve, expected.members)
    assert (found.count, found.diversity) == (len(tokens), expected.diversity)
    assert found.notes[0].endswith("text.txt are not in the vocabulary: read as <unk>")
    [answer] = ensemble.task.predict_file(ensemble, tmp_path / "text.txt", words=3)
    assert answer.value["perplexity"] == ensemble.evaluate(tokens)["perplexity"]
    words = [WORDS[token] for token in tokens[:-1]]
    assert answer.value["next_words"] == next_words(ensemble, words, 3)


def test_labels_that_are_numbers_are_names_or_indices_as_the_whole_file_says(tmp_path):
    ensemble, inputs = classifiers("1", "2", "3"), numbers()
    truth = ensemble.predict(inputs)
    truth[: AT_ONCE + 5] = 1  # so that the beginning could be both
    columns = dict(zip(FEATURES, inputs.T, strict=True))
    expected = ensemble.evaluate((inputs, truth))
    for name, labels in (("names", truth + 1), ("indices", truth)):
        write_csv(tmp_path / f"{name}.csv", columns | {"label": labels})
        assert scored(ensemble, tmp_path / f"{name}.csv").curve == expected.curve


def test_a_file_can_be_scored_again(tmp_path):
    ensemble, inputs = classifiers(), numbers()
    path = write_rows(tmp_path, "npz", inputs, {"labels": np.arange(ROWS) % 3})
    held = ensemble.task.evaluation_from(str(path), "test", None)
    assert ensemble.evaluate(held) == ensemble.evaluate(held)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "npy", "npz", "table.csv", "parquet", "txt"])
def test_memory_does_not_grow_with_a_file(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("sparsemble.data.arrays.AT_ONCE", 512)
    monkeypatch.setattr("sparsemble.tables.streams.AT_ONCE", 512)
    monkeypatch.setattr("sparsemble.tables.streams._MOST_ROWS", 512)
    monkeypatch.setattr("sparsemble.tables.streams._BLOCK", 1 << 14)
    monkeypatch.setattr("sparsemble.tasks.text_files._WORDS", 512)
    peaks = []
    for parts in (3, 12):
        path, ensemble = _long(tmp_path, kind, parts * 512)
        tracemalloc.start()
        for _ in ensemble.task.predict_file(ensemble, path):
            pass
        if kind not in ("npy", "txt"):
            scored(ensemble, path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def _long(folder, kind, rows):
    if kind == "txt":
        path = folder / f"{rows}.txt"
        path.write_text("the dog sees the cat\n" * (rows // 6))
        return path, language_models()
    if kind in ("table.csv", "parquet"):
        path = folder / f"{rows}.{kind}"
        frame = pd.DataFrame(table(rows))
        frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=False)
        return path, table_classifiers()
    name = "label" if kind == "csv" else "labels"
    return write_rows(folder, kind, numbers(rows), {name: np.arange(rows) % 3}), classifiers()
