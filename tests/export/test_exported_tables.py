"""Exported ensembles that were learned from a table take its columns by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import sparsemble
from sparsemble.errors import ExportError
from sparsemble.export.table_inputs import in_a_column
from sparsemble.tables.cells import Cells

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = sys.modules["sparsemble"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def people():
    """An ensemble of people's incomes, and the table."""
    data = sparsemble.read_table(ROOT / "examples" / "people.csv", target="income")
    quick = {"chain.epochs": 6, "chain.burn_in": 2, "chain.interval": 2, "retrain.epochs": 1}
    recipe = sparsemble.load_recipe("digits", quick | {"chain.chains": 1})
    network = sparsemble.feedforward(len(data.feature_names), [12, 8], 2)
    return sparsemble.learn(network, data, recipe).ensemble, data


def test_a_csv_file_is_predicted_for_without_torch(people, tmp_path):
    ensemble, data = people
    difference = ensemble.export(tmp_path / "people.onnx")
    assert difference < 1e-4
    script = ROOT / "examples" / "predict_onnx.py"
    table = ROOT / "examples" / "people.csv"
    command = [sys.executable, "-c", WITHOUT_TORCH, str(script), "people.onnx", str(table)]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = [line.split(",") for line in printed.stdout.splitlines()]
    wanted = ensemble.predict_proba(data.inputs.numpy(), data.feature_names)
    names = np.array(ensemble.task.class_names)[wanted.argmax(1)]
    assert [line[0] for line in found] == names.tolist()
    doubt = ensemble.uncertainty(data.inputs.numpy(), data.feature_names).total
    assert [float(line[1]) for line in found] == pytest.approx(doubt.tolist(), abs=2e-4)


def test_columns_may_be_called_anything_and_what_is_unknown_is_none(tmp_path):
    rng = np.random.default_rng(0)
    table = {
        "inputs": rng.normal(size=80).tolist(),
        "linear": [["a", "b", None][k % 3] for k in range(80)],
        "entropy": [k % 2 == 0 for k in range(80)],
        "wanted": ["yes" if k % 3 else "no" for k in range(80)],
    }
    data = sparsemble.table(table, target="wanted", categories=["linear"])
    quick = {"chain.epochs": 2, "chain.burn_in": 0, "chain.interval": 2, "retrain.epochs": 1}
    recipe = sparsemble.load_recipe("digits", quick | {"chain.chains": 1})
    network = sparsemble.feedforward(len(data.feature_names), [6], 2)
    ensemble = sparsemble.learn(network, data, recipe).ensemble
    ensemble.export(tmp_path / "odd.onnx", members=True)
    session = onnxruntime.InferenceSession(tmp_path / "odd.onnx")
    assert [own.name for own in session.get_inputs()] == ["inputs", "linear", "column entropy"]
    row = {
        "inputs": Cells("number", np.array([0.5])),
        "linear": Cells.of_texts(["z"]),
        "entropy": Cells("truth", np.array([1.0])),
    }
    called = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    given = {called[name]: in_a_column(cells) for name, cells in row.items()}
    (unknown,) = session.run(["probabilities"], given)
    encoded = data.columns.encode_cells(row, "row", unseen="ignore")
    wanted = ensemble.predict_proba(encoded.numpy(), data.feature_names)
    assert unknown == pytest.approx(wanted, abs=1e-5)


def test_a_file_that_reads_columns_otherwise_is_not_written(people, tmp_path, monkeypatch):
    ensemble, _ = people
    other = ensemble.task.columns.model_copy(
        update={"columns": tuple(reversed(ensemble.task.columns.columns))}
    )
    from sparsemble.export import onnx

    real = onnx.taking_columns
    monkeypatch.setattr(onnx, "taking_columns", lambda model, columns: real(model, other))
    with pytest.raises(ExportError, match="differs from the ensemble"):
        ensemble.export(tmp_path / "people.onnx")
    assert not list(tmp_path.iterdir())
