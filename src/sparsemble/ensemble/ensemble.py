"""An ensemble of classifiers: the mean of its members' probabilities (Eq. 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparsemble.data import Dataset, Scaling, as_dataset
from sparsemble.data.dataset import as_inputs, check_labels, column_names, in_order
from sparsemble.ensemble.base import BaseEnsemble
from sparsemble.ensemble.metrics import Metrics, score
from sparsemble.ensemble.uncertainty import Uncertainty, uncertainty
from sparsemble.errors import InputError
from sparsemble.members import Member, Stack
from sparsemble.structure import Layout


class Ensemble(BaseEnsemble):
    """Members that predict together, from inputs as they come: scaling is part of it.

    Calling it gives the mean of the members' probabilities, never of their logits, without
    gradients. `predict_proba` and its like also check what they are given.
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        scaling: Scaling | None = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(members)
        outputs = self[0].layout.outputs.size
        if class_names is not None and len(class_names) != outputs:
            raise InputError(f"{len(class_names)} class names for {outputs} outputs")
        self.scaling = scaling or Scaling.none()
        self.class_names = tuple(class_names) if class_names is not None else None
        self.feature_names = tuple(feature_names) if feature_names is not None else None
        self._stack: Stack | None = None

    def _apply(self, *how: Any, **also: Any) -> Ensemble:
        """Whatever moves or casts the members makes their stack out of date."""
        self.refresh()
        super()._apply(*how, **also)  # type: ignore[no-untyped-call]
        return self

    def load_state_dict(self, *how: Any, **also: Any) -> Any:
        """Other weights make the stack out of date, too."""
        self.refresh()
        return super().load_state_dict(*how, **also)

    def forward(self, inputs: Tensor) -> Tensor:
        """Mean probabilities, `(examples, classes)`, in one batched pass of all members."""
        return self.stack().predict(self._scaled(inputs), lambda z: _softmax(z).mean(0))

    def member_probabilities(self, inputs: Tensor) -> Tensor:
        """Every member's probabilities, `(members, examples, classes)`, in the same pass."""
        return self.stack().predict(self._scaled(inputs), _softmax)

    def _scaled(self, inputs: Tensor) -> Tensor:
        return self.scaling(inputs).to(next(self.parameters()).dtype)

    def stack(self) -> Stack:
        """The members stacked; made anew after `refresh`."""
        if self._stack is None:
            self._stack = Stack(list(self))
        return self._stack

    def refresh(self) -> None:
        """Forget the stack: call this after changing a member's weights by hand."""
        self._stack = None

    def predict_proba(self, inputs: Any, feature_names: Sequence[str] | None = None) -> np.ndarray:
        """Mean probabilities of the rows of an array or a table.

        Columns that have names, a table's own or `feature_names`, are put into the order learned.
        """
        probabilities: Tensor = self(self.checked(inputs, feature_names))
        # NumPy has no bfloat16.
        wide = torch.promote_types(probabilities.dtype, torch.float32)
        array: np.ndarray = probabilities.to(wide).numpy()
        return array

    def predict(self, inputs: Any, feature_names: Sequence[str] | None = None) -> np.ndarray:
        """The most probable class index of each row."""
        labels: np.ndarray = self.predict_proba(inputs, feature_names).argmax(1)
        return labels

    def uncertainty(self, inputs: Any, feature_names: Sequence[str] | None = None) -> Uncertainty:
        """Predictive entropy and mutual information of each row."""
        return uncertainty(self.member_probabilities(self.checked(inputs, feature_names)))

    def evaluate(self, data: Dataset | tuple[Any, Any]) -> Metrics:
        """Metrics on a `Dataset` or a pair of arrays, raw inputs being scaled as in training.

        Features and classes are matched by name where both sides have names.
        """
        if not isinstance(data, Dataset):
            outputs = self[0].layout.outputs.size
            data = as_dataset(*data, num_classes=outputs, class_names=self.class_names)
        names = data.feature_names if self.feature_names is not None else None
        probabilities = self.member_probabilities(self.checked(data.inputs, names))
        return score(probabilities, self._targets(data))

    @staticmethod
    def load(
        folder: str | Path,
        *,
        factory: Callable[[], nn.Module] | None = None,
        layout: Layout | None = None,
    ) -> Ensemble:
        """Read a saved ensemble; networks of your own need `factory` and `layout`."""
        from sparsemble.ensemble.saving import load_ensemble

        loaded = load_ensemble(Path(folder), factory=factory, layout=layout)
        if not isinstance(loaded, Ensemble):
            raise InputError(f"{folder} holds language models: use LanguageEnsemble.load")
        return loaded

    def checked(
        self,
        inputs: Any,
        feature_names: Sequence[str] | None = None,
        source: str = "the inputs",
    ) -> Tensor:
        """Inputs that fit, their named columns in the order learned; errors name the `source`."""
        tensor = as_inputs(inputs, source)
        names = column_names(inputs) if feature_names is None else feature_names
        if self.feature_names is not None and names is not None:
            tensor = in_order(tensor, names, self.feature_names, source)
        elif feature_names is not None:
            raise InputError("the ensemble was learned without feature names")
        space = self[0].layout.inputs
        width = tensor.shape[1:].numel()
        if space is not None and width != self[0].origin.sizes[space.name]:
            raise InputError(
                f"{source}: inputs of shape {tuple(tensor.shape)}, the ensemble reads "
                f"{self[0].origin.sizes[space.name]} features a row"
            )
        return tensor

    def _targets(self, data: Dataset) -> Tensor:
        """The data's labels as indices of this ensemble's classes."""
        known = self.class_names
        strange = [name for name in data.class_names if known is None or name not in known]
        if known is None or (strange and data.class_names == _unnamed(len(data.class_names))):
            check_labels(data.targets, self[0].layout.outputs.size, "the data")
            return data.targets
        if strange:
            raise InputError(
                f"the data has a class {strange[0]!r}, the ensemble {', '.join(known)}"
            )
        return torch.tensor([known.index(name) for name in data.class_names])[data.targets]


def _unnamed(count: int) -> tuple[str, ...]:
    """What classes are called that were given no names."""
    return tuple(map(str, range(count)))


def _softmax(logits: Tensor) -> Tensor:
    """Probabilities from `(members, examples, classes)`.

    A stack computes them with the examples innermost; along that order it is ten times as fast.
    """
    return logits.transpose(1, 2).softmax(1).transpose(1, 2)
