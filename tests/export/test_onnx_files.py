"""An exported file predicts what the ensemble does, whatever it is made of, and says what it is."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from deployed_kinds import FEATURES, KINDS, WORDS, classes, members
from sparsemble.ensemble import Ensemble
from sparsemble.errors import ExportError, InputError
from sparsemble.export import checking, onnx
from sparsemble.nets import feedforward
from sparsemble.tasks import Classification, ExampleTask

pytestmark = pytest.mark.slow

CLOSE = 1e-5


def opened(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def said(session: onnxruntime.InferenceSession) -> dict[str, Any]:
    entries = session.get_modelmeta().custom_metadata_map
    return {key: json.loads(value) for key, value in entries.items()}


def predicted(
    session: onnxruntime.InferenceSession, given: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    names = [own.name for own in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def raw(kind: str, count: int) -> dict[str, np.ndarray]:
    """Inputs of other sizes than those that the export itself checks."""
    generator = torch.Generator().manual_seed(3)
    normal = lambda *shape: torch.randn(shape, generator=generator).numpy()  # noqa: E731
    words = lambda *shape: torch.randint(12, shape, generator=generator).numpy()  # noqa: E731
    if kind == "two inputs":
        return {"left": normal(count, 4), "right": normal(count, 4)}
    if kind == "named inputs":
        lengths = torch.randint(1, 10, (count, 1), generator=generator)
        return {"tokens": words(count, 9), "mask": (torch.arange(9) >= lengths).numpy()}
    if kind == "pictures":
        return {"inputs": 8 * normal(count, 1, 8, 8)}
    if kind in ("a Transformer", "a bidirectional GRU"):
        return {"inputs": words(count, 5)}
    return {"inputs": 4 * normal(count, 6)}


def as_given(kind: str, inputs: dict[str, np.ndarray]) -> Any:
    """The same as an ensemble takes it."""
    if kind == "named inputs":
        return inputs
    return tuple(inputs.values()) if len(inputs) > 1 else inputs["inputs"]


TEXTS = ("an LSTM language model", "a Transformer language model")
SIMILAR = ("a Transformer", "a bidirectional GRU", "numbers with learned noise", "two inputs")
"""To another that is exported as well."""
Exported = Callable[[str], tuple[Ensemble, Path]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Exported:
    """An ensemble of a kind, and its file: each is exported once."""

    @functools.cache
    def export(kind: str) -> tuple[Ensemble, Path]:
        ensemble, path = KINDS[kind](), tmp_path_factory.mktemp("files") / "model.onnx"
        assert ensemble.export(path, members=True) < CLOSE
        assert [own.name for own in path.parent.iterdir()] == ["model.onnx"]
        return ensemble, path

    return export


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.thorough if kind in SIMILAR else ())
        for kind in KINDS
        if kind not in TEXTS
    ],
)
def test_a_file_predicts_what_the_ensemble_does_with_its_uncertainty(exported, kind):
    ensemble, path = exported(kind)
    session, task = opened(path), ensemble.task
    for count in (1, 600):
        inputs = raw(kind, count)
        found = predicted(session, inputs)
        evidence = ensemble.evidence(as_given(kind, inputs))
        doubt = task.uncertainty(evidence)
        if "mean" in found:
            mean = ensemble.predict(as_given(kind, inputs))
            total = found["standard_deviation"] ** 2
            own = found["epistemic_standard_deviation"] ** 2
            means, deviations = found["member_means"], found["member_standard_deviations"]
            each = np.concatenate([means, deviations**2], axis=-1)
            assert found["mean"] == pytest.approx(mean, rel=CLOSE)
        else:
            probabilities = ensemble.predict_proba(as_given(kind, inputs))
            total, own = found["entropy"], found["mutual_information"]
            each = found["member_probabilities"]
            assert found["probabilities"] == pytest.approx(probabilities, abs=CLOSE)
        assert total == pytest.approx(doubt.total.numpy(), rel=CLOSE, abs=CLOSE)
        assert own == pytest.approx(doubt.epistemic.numpy(), rel=1e-3, abs=CLOSE)
        assert each == pytest.approx(evidence.numpy(), rel=1e-4, abs=CLOSE)


@pytest.mark.parametrize("kind", [TEXTS[0], pytest.param(TEXTS[1], marks=pytest.mark.thorough)])
def test_the_states_of_language_models_go_in_and_come_out(exported, kind):
    ensemble, path = exported(kind)
    session = opened(path)
    states = said(session)["states"]
    streams, tokens = 2, torch.randint(12, (11, 2))
    carried = {
        name: np.zeros([streams if d == "examples" else d for d in own["begins"]], own["dtype"])
        for name, own in states.items()
    }
    read = []
    for part in tokens.split([1, 1, 2, 7]):
        found = predicted(session, {"inputs": part.numpy(), **carried})
        carried = {name: found[own["next"]] for name, own in states.items()}
        read.append(torch.from_numpy(found["probabilities"]))
    runner, task = ensemble.runner(), ensemble.task
    wanted = [task.mix(runner(part, task.evidence)).exp() for part in tokens.split([3, 8])]
    torch.testing.assert_close(torch.cat(read), torch.cat(wanted), rtol=0, atol=CLOSE)


def test_a_file_says_what_its_inputs_are_and_what_its_outputs_mean(tmp_path):
    classes().export(tmp_path / "model.onnx")
    session = opened(tmp_path / "model.onnx")
    entries = said(session)
    assert tuple(entries["task"]["class_names"]) == ("low", "middle", "high")
    assert tuple(entries["task"]["feature_names"]) == FEATURES
    assert entries["cost"]["members"] == 2
    assert set(entries["versions"]) == {"sparsemble", "torch"}
    assert [(own.name, own.shape) for own in session.get_inputs()] == [("inputs", ["examples", 6])]
    shapes = {own.name: own.shape for own in session.get_outputs()}
    assert shapes == {
        "probabilities": ["examples", 3],
        "entropy": ["examples"],
        "mutual_information": ["examples"],
    }


def test_a_file_says_the_words_and_the_lengths_that_can_be_read(exported):
    _, path = exported("a Transformer")
    assert said(opened(path))["conditions"] == ["length <= 9"]
    _, path = exported("an LSTM language model")
    assert tuple(said(opened(path))["task"]["words"]) == WORDS


def test_what_differs_is_an_error_and_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_text("an older file")
    monkeypatch.setattr(checking, "_ROUNDINGS", -1)
    with pytest.raises(ExportError, match=r"probabilities differs from the ensemble's by .* of"):
        classes().export(path)
    assert [own.read_text() for own in tmp_path.iterdir()] == ["an older file"]


def test_a_graph_that_computes_something_else_is_found_out(tmp_path, monkeypatch):
    real = onnx._translated

    def wrong(*arguments):
        model = real(*arguments)
        (node,) = (node for node in model.graph.node if node.op_type == "Softmax")
        node.op_type = "LogSoftmax"
        return model

    monkeypatch.setattr(onnx, "_translated", wrong)
    with pytest.raises(ExportError, match="differs from the ensemble's"):
        classes().export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_what_is_not_installed_is_named_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"onnxscript, .*install 'sparsemble\[export\]'"):
        classes().export(tmp_path / "model.onnx")


def test_weights_that_onnx_runtime_does_not_compute_with_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"are torch.bfloat16 on cpu: .*ensemble\.float\(\)"):
        classes().bfloat16().export(tmp_path / "model.onnx")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"model\.onnx cannot be written"):
        classes().export(tmp_path / "file" / "model.onnx")


class Projected(nn.Module):
    """Its recurrent layer has no like in ONNX."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.LSTM(4, 6, proj_size=3, batch_first=True)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.read(x)[0].mean(1))


def test_what_onnx_cannot_express_is_named(tmp_path):
    own = members(Projected, torch.randn(3, 5, 4))
    ensemble = Ensemble(own, Classification(input_shape=(5, 4)))
    with pytest.raises(InputError, match=r"expressed in ONNX: an LSTM with projections"):
        ensemble.export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


class Scores(ExampleTask):
    """A task of a user's own, which says nothing about files."""

    network_outputs = 3

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean()

    def evidence(self, outputs: Tensor, targets: Tensor | None = None) -> Tensor:
        return outputs

    def mix(self, evidence: Tensor) -> Tensor:
        return evidence.mean(0)

    def statistics(self, prediction: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {}


def test_a_task_of_ones_own_gives_its_mixed_prediction(tmp_path):
    ensemble = Ensemble(members(lambda: feedforward(6, [10, 8], 3)), Scores(input_shape=(6,)))
    ensemble.export(tmp_path / "model.onnx", members=True)
    inputs = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    found = predicted(opened(tmp_path / "model.onnx"), {"inputs": inputs})
    assert found["prediction"] == pytest.approx(ensemble(torch.tensor(inputs)).numpy(), abs=CLOSE)
    assert found["members"].shape == (2, 5, 3)


def test_members_of_very_different_sizes_stay_apart_and_predict_the_same(tmp_path, monkeypatch):
    ensemble = classes().train()
    monkeypatch.setattr("sparsemble.export.together._MOST_PADDING", 0.0)
    ensemble.export(tmp_path / "model.onnx")
    assert all(layer.training for layer in ensemble.modules())
    inputs = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    found = predicted(opened(tmp_path / "model.onnx"), {"inputs": inputs})
    assert found["probabilities"] == pytest.approx(ensemble.predict_proba(inputs), abs=CLOSE)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["sparsemble"] = None  # importing them now fails
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
inputs = np.load(sys.argv[2])
np.save(sys.argv[3], session.run(["probabilities"], {"inputs": inputs})[0])
"""


def test_a_process_without_torch_predicts_the_same(exported, tmp_path):
    (ensemble, path), inputs = exported("classes"), raw("classes", 20)["inputs"]
    np.save(tmp_path / "inputs.npy", inputs)
    files = [path, tmp_path / "inputs.npy", tmp_path / "outputs.npy"]
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *files], check=True)
    assert np.load(files[2]) == pytest.approx(ensemble.predict_proba(inputs), abs=CLOSE)


def test_examples_of_the_users_own_are_checked_with(tmp_path, monkeypatch):
    seen = []
    real = checking._difference
    monkeypatch.setattr(checking, "_difference", lambda *a: seen.append(a[2]) or real(*a))
    classes().export(tmp_path / "model.onnx", example=np.ones((2, 6), np.float32))
    assert seen == ["inputs of shape (1, 6)", "inputs of shape (7, 6)"]


@pytest.mark.thorough  # `test_captures.py` captures the same network
def test_words_that_are_read_again_are_as_many_as_there_were(exported):
    session = opened(exported("a Transformer language model")[1])
    last = np.zeros((0, 1), np.int64)
    for word in range(6):
        found = predicted(session, {"inputs": np.full((1, 1), word), "state_0_last": last})
        last = found["next_state_0_last"]
        assert last.flatten().tolist() == list(range(word + 1))[-4:]
