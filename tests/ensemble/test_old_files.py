"""Files of the first format, from before there were tasks: they load and predict the same."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sparsemble.data import Text
from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError
from sparsemble.store import read_json, write_json
from sparsemble.tasks import Classification, LanguageModelling

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(scope="module")
def classes() -> Ensemble:
    return Ensemble.load(FIXTURES / "classes-v1")


@pytest.fixture(scope="module")
def text() -> Ensemble:
    return Ensemble.load(FIXTURES / "text-v1")


def test_classifiers_predict_what_they_predicted(classes):
    known = np.load(FIXTURES / "classes-v1.npz")
    assert len(classes) == 3
    assert classes.predict_proba(known["inputs"]) == pytest.approx(
        known["probabilities"], rel=1e-5, abs=1e-7
    )


def test_classifiers_keep_their_names_layout_and_scaling(classes):
    task = classes.task
    assert isinstance(task, Classification)
    assert task.class_names == ("no", "yes", "both")
    assert task.feature_names == tuple("abcde")
    assert task.input_shape == (5,)
    assert not task.scaling.is_identity
    assert (classes[0].layout.name, classes[0].layout.grouping) == ("feedforward", "outgoing")
    assert classes[0].origin.sizes == {"inputs": 5, "hidden1": 12, "hidden2": 8, "outputs": 3}


def test_columns_are_still_matched_by_name(classes):
    known = np.load(FIXTURES / "classes-v1.npz")
    turned = classes.predict_proba(known["inputs"][:, ::-1].copy(), feature_names=list("edcba"))
    assert turned == pytest.approx(known["probabilities"], rel=1e-5, abs=1e-7)


def test_language_models_score_a_text_as_they_did(text):
    known = np.load(FIXTURES / "text-v1.npz")
    assert isinstance(text.task, LanguageModelling)
    assert len(text.task.vocabulary) == 234
    found = text.evaluate(Text(torch.from_numpy(known["tokens"])))
    assert found.curve["perplexity"] == pytest.approx(known["curve"].tolist(), rel=1e-6)


@pytest.mark.parametrize("name", ["classes", "text"])
def test_saved_again_they_are_of_the_new_format_and_the_same(name, request, tmp_path):
    before: Ensemble = request.getfixturevalue(name)
    before.save(tmp_path)
    assert read_json(tmp_path / "manifest.json")["version"] == 2
    after = Ensemble.load(tmp_path)
    assert after.task.model_dump() == before.task.model_dump()
    inputs = torch.randn(6, 5) if name == "classes" else torch.randint(234, (9, 2))
    assert torch.equal(after(inputs), before(inputs))


@pytest.mark.parametrize("missing", ["layout", "sizes", "members", "tensors"])
def test_an_old_manifest_that_lacks_something_is_corrupt(missing, tmp_path):
    for file in (FIXTURES / "classes-v1").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    manifest = read_json(tmp_path / "manifest.json")
    manifest.pop(missing)
    write_json(tmp_path / "manifest.json", manifest)
    with pytest.raises(CorruptFileError, match=r"manifest\.json"):
        Ensemble.load(tmp_path)
