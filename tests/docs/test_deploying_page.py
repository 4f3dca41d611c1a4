"""What docs/deploying.md shows runs, and its reader predicts what the library does."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from deployed_kinds import text
from sparsemble.data import Scaling, digits
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import compact
from sparsemble.nets import feedforward
from sparsemble.stages import prune
from sparsemble.tasks import Classification

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
READER = next(block for block in BLOCKS if block.startswith("# reader.py"))


def reader() -> dict:
    names: dict = {}
    exec(compile(READER, "reader.py", "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_pages_examples_run_one_after_the_other(class_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    learned = Ensemble.load(class_run)
    learned.save("digits-ensemble")
    text().export("words.onnx")
    names: dict = {}
    for block in BLOCKS:
        if block is not READER:
            exec(compile(block, "deploying.md", "exec"), names)
    assert 0 <= names["difference"] < 1e-5
    assert names["probabilities"] == pytest.approx(
        learned.predict_proba(np.zeros((3, 64), np.float32)), abs=1e-5
    )
    first, *words = capsys.readouterr().out.splitlines()
    assert first.split()[0] in learned.task.class_names
    assert len(words) == 10


def test_the_pages_reader_predicts_what_the_library_does(class_run):
    _, test = digits()
    folder = class_run / "ensemble"
    found = reader()["predict_proba"](folder, test.inputs.numpy())
    assert found == pytest.approx(Ensemble.load(folder).predict_proba(test.inputs), abs=1e-5)


def test_the_reader_reads_columns_that_were_chosen_and_scaled(tmp_path):
    members = []
    for _ in range(2):
        network = feedforward(9, [7], 3, activation="tanh", dropout=0.1).eval()
        layout = layout_of(network)
        masks = prune(dict(network.named_parameters()), layout, sparsity=0.5)
        masks["0.weight"][:, 2:5] = False
        members.append(compact(network, layout, masks))
    rows = np.random.default_rng(0).normal(3, 2, size=(6, 9)).astype(np.float32)
    task = Classification(scaling=Scaling.standard(torch.tensor(rows)))
    ensemble = Ensemble(members, task)
    assert ensemble[0].inputs is not None
    ensemble.save(tmp_path)
    found = reader()["predict_proba"](tmp_path, rows)
    assert found == pytest.approx(ensemble.predict_proba(rows), abs=1e-5)


def test_the_reader_has_at_most_sixty_lines_and_only_needs_numpy():
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(READER))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert len(READER.splitlines()) <= 60
    assert imported == {"json", "pathlib", "numpy"}
