"""Arrays and tensors of every kind: the numbers they hold, or a refusal that says what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from small_runs import examples, network, recipe
from sparsemble.data import as_dataset
from sparsemble.data.dataset import About
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.learning import learn
from sparsemble.members import Member
from sparsemble.tasks import Classification, Regression

X, Y = examples()
TENSOR, LABELS = torch.from_numpy(X), torch.from_numpy(Y)


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    made = network()
    task = Classification().training((X, Y)).task
    return Ensemble([Member.dense(made, layout_of(made))], task)


WHOLE = (TENSOR > 0).to(torch.uint8)
SAME = {
    "requires grad": (TENSOR.clone().requires_grad_(), TENSOR),
    "a parameter": (torch.nn.Parameter(TENSOR), TENSOR),
    "float64": (TENSOR.double(), TENSOR),
    "float16": (TENSOR.half(), TENSOR.half().float()),
    "bfloat16": (TENSOR.bfloat16(), TENSOR.bfloat16().float()),
    "bool": (WHOLE.bool(), WHOLE.float()),
    "uint8": (WHOLE, WHOLE.float()),
    "uint16": (WHOLE.to(torch.uint16), WHOLE.float()),
    "uint64": (WHOLE.to(torch.uint64), WHOLE.float()),
    "NumPy's uint64": (WHOLE.numpy().astype(np.uint64), WHOLE.float()),
    "masked, but nothing is": (np.ma.array(X), TENSOR),
    "read-only": (np.broadcast_to(X[:1], X.shape), TENSOR[:1].expand(X.shape)),
    "backwards": (X[::-1], TENSOR.flip(0)),
}


@pytest.mark.parametrize(("given", "numbers"), SAME.values(), ids=SAME)
def test_numbers_are_taken_for_what_they_are(given, numbers, ensemble: Ensemble) -> None:
    assert np.array_equal(ensemble.predict_proba(given), ensemble.predict_proba(numbers))
    assert ensemble.evaluate((given, Y)) == ensemble.evaluate((numbers, Y))
    inputs, _ = next(Classification().training((given, Y)).batches(300).epoch(0))
    expected, _ = next(Classification().training((numbers, Y)).batches(300).epoch(0))
    assert torch.equal(inputs.float(), expected)


REFUSED = {
    "sparse": (TENSOR.to_sparse(), "to_dense"),
    "meta": (TENSOR.to("meta"), "holds no numbers"),
    "complex": (TENSOR.to(torch.complex64), "complex"),
    "8 bits": (TENSOR.to(torch.float8_e4m3fn), r"tensor.float\(\)"),
    "oneDNN": (TENSOR.to_mkldnn(), "to_dense"),
    "objects": (X.astype(object), "not numbers"),
    "masked": (np.ma.masked_greater(X, 1.0), "are masked"),
    "beyond 64 bits": (np.full(X.shape, 2**63, np.uint64), "too large for a 64-bit integer"),
    "no dimension": (np.float32(3), "one row per example"),
    "one dimension": (X[0], "one row per example"),
    "no columns": (X[:, :0], "8 features|first layer"),
}


@pytest.mark.parametrize(("given", "why"), REFUSED.values(), ids=REFUSED)
def test_what_holds_no_plain_numbers_is_refused(given, why, ensemble: Ensemble) -> None:
    with pytest.raises(InputError, match=why):
        ensemble.predict_proba(given)
    with pytest.raises(InputError, match=why):
        ensemble.evaluate((given, Y))
    with pytest.raises(InputError, match=why):
        learn(network, (given, Y), recipe())


@pytest.mark.filterwarnings("ignore")
def test_quantised_and_nested_tensors_are_refused(ensemble: Ensemble) -> None:
    quantised = torch.quantize_per_tensor(TENSOR, 0.01, 0, torch.qint8)
    with pytest.raises(InputError, match="dequantize"):
        ensemble.predict_proba(quantised)
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([TENSOR[:2], TENSOR[:3]], layout=layout)
        with pytest.raises(InputError, match="nested"):
            ensemble.predict_proba(nested)


def test_no_rows_give_no_predictions(ensemble: Ensemble) -> None:
    assert ensemble.predict_proba(X[:0]).shape == (0, 3)


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (LABELS.to(torch.complex64), "complex"),
        (LABELS.to_sparse(), "to_dense"),
        (LABELS.to("meta"), "holds no numbers"),
        (np.ma.masked_equal(Y, 2), "are masked"),
        (np.ma.masked_equal(Y.astype(str), "2"), "are masked"),
        (np.full(len(Y), 2**62), "number them from 0"),
    ],
)
def test_odd_labels_are_refused(labels, why: str, ensemble: Ensemble) -> None:
    with pytest.raises(InputError, match=why):
        ensemble.evaluate((X, labels))
    with pytest.raises(InputError, match=why):
        as_dataset(X, labels)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint16, torch.bool])
def test_numbers_to_be_predicted_may_have_any_type(dtype: torch.dtype) -> None:
    task = Regression()
    given = task.dataset(X, LABELS.to(dtype), About(), "the data").targets
    assert torch.equal(given[:, 0], LABELS.to(dtype).double())
