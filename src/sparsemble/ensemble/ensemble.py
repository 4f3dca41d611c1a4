"""The ensemble: a module that averages its members' probabilities (Eq. 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparsemble.data import Dataset, Scaling
from sparsemble.ensemble.metrics import Metrics, score
from sparsemble.ensemble.uncertainty import Uncertainty, uncertainty
from sparsemble.errors import InputError
from sparsemble.members import Member, Stack
from sparsemble.structure import Layout


@dataclass(frozen=True)
class EnsembleCost:
    """Totals over the members, and what one dense network costs beside them.

    `bytes` counts the stored non-zeros and biases as 32-bit floats.
    """

    members: int
    parameters: int
    flops: int
    bytes: int
    dense_parameters: int
    dense_flops: int

    @property
    def parameters_ratio(self) -> float:
        """Parameters as a multiple of one dense network's."""
        return self.parameters / self.dense_parameters

    @property
    def flops_ratio(self) -> float:
        """FLOPs as a multiple of one dense network's."""
        return self.flops / self.dense_flops


class Ensemble(nn.Module):
    """Members that predict together, from inputs as they come: scaling is part of it.

    Calling it gives the mean of the members' probabilities, never of their logits.
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        scaling: Scaling | None = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        dense_cost: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        if not members:
            raise InputError("an ensemble needs at least one member")
        self.members = nn.ModuleList(members)
        self.scaling = scaling or Scaling.none()
        self.class_names = tuple(class_names) if class_names is not None else None
        self.feature_names = tuple(feature_names) if feature_names is not None else None
        own = max(self, key=lambda member: member.cost.flops).cost
        self.dense_cost = dense_cost or (own.parameters, own.flops)
        """Parameters and FLOPs of the network before pruning."""
        self._stack: Stack | None = None

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Member:
        member = self.members[index]
        assert isinstance(member, Member)
        return member

    def forward(self, inputs: Tensor) -> Tensor:
        """Mean probabilities, `(examples, classes)`, in one batched pass of all members."""
        return self.stack().predict(self.scaling(inputs), lambda z: _softmax(z).mean(0))

    def member_probabilities(self, inputs: Tensor) -> Tensor:
        """Every member's probabilities, `(members, examples, classes)`, in the same pass."""
        return self.stack().predict(self.scaling(inputs), _softmax)

    def stack(self) -> Stack:
        """The members stacked; made anew after `refresh`."""
        if self._stack is None:
            self._stack = Stack(list(self))
        return self._stack

    def refresh(self) -> None:
        """Forget the stack: call this after changing a member's weights by hand."""
        self._stack = None

    def predict_proba(self, inputs: Any, feature_names: Sequence[str] | None = None) -> np.ndarray:
        """Mean probabilities of an array's rows; named columns are put into the order learned."""
        probabilities: Tensor = self(self._checked(inputs, feature_names))
        array: np.ndarray = probabilities.numpy()
        return array

    def predict(self, inputs: Any, feature_names: Sequence[str] | None = None) -> np.ndarray:
        """The most probable class index of each row."""
        labels: np.ndarray = self.predict_proba(inputs, feature_names).argmax(1)
        return labels

    def uncertainty(self, inputs: Any, feature_names: Sequence[str] | None = None) -> Uncertainty:
        """Predictive entropy and mutual information of each row."""
        return uncertainty(self.member_probabilities(self._checked(inputs, feature_names)))

    def evaluate(self, data: Dataset) -> Metrics:
        """Metrics on a labelled data set, whose raw inputs are scaled as they were in training."""
        return score(self.member_probabilities(data.inputs), data.targets)

    @property
    def cost(self) -> EnsembleCost:
        """Parameters, FLOPs and bytes by the paper's rules."""
        costs = [member.cost for member in self]
        parameters = sum(cost.parameters for cost in costs)
        biases = sum(
            tensor.numel()
            for member in self
            for name, tensor in member.network.named_parameters()
            if name not in member.masks
        )
        return EnsembleCost(
            members=len(self),
            parameters=parameters,
            flops=sum(cost.flops for cost in costs),
            bytes=4 * (parameters + biases),
            dense_parameters=self.dense_cost[0],
            dense_flops=self.dense_cost[1],
        )

    def save(self, folder: str | Path) -> None:
        """Write the ensemble into `folder`: non-zeros only, checksummed, no pickle."""
        from sparsemble.ensemble.saving import save_ensemble

        save_ensemble(self, Path(folder))

    @staticmethod
    def load(
        folder: str | Path,
        *,
        factory: Callable[[], nn.Module] | None = None,
        layout: Layout | None = None,
    ) -> Ensemble:
        """Read a saved ensemble; networks of your own need `factory` and `layout`."""
        from sparsemble.ensemble.saving import load_ensemble

        return load_ensemble(Path(folder), factory=factory, layout=layout)

    def _checked(self, inputs: Any, feature_names: Sequence[str] | None) -> Tensor:
        tensor = inputs if isinstance(inputs, Tensor) else torch.from_numpy(np.asarray(inputs))
        if tensor.dtype == torch.float64:
            tensor = tensor.float()
        if feature_names is not None:
            if self.feature_names is None:
                raise InputError("the ensemble was learned without feature names")
            missing = sorted(set(self.feature_names) - set(feature_names))
            if missing:
                raise InputError(f"feature {missing[0]!r} is missing ({len(missing)} in all)")
            order = [list(feature_names).index(name) for name in self.feature_names]
            tensor = tensor[:, order]
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InputError("the inputs hold NaN or infinity: remove or fill them in")
        self._check_width(tensor)
        return tensor

    def _check_width(self, tensor: Tensor) -> None:
        space = self[0].layout.inputs
        if space is None:
            return
        wanted = self[0].origin.sizes[space.name]
        if tensor.ndim < 2 or tensor[:1].numel() != wanted:
            raise InputError(
                f"inputs of shape {tuple(tensor.shape)}: the ensemble reads {wanted} features a row"
            )


def _softmax(logits: Tensor) -> Tensor:
    """Probabilities from `(members, examples, classes)`.

    A stack computes them with the examples innermost; along that order it is ten times as fast.
    """
    return logits.transpose(1, 2).softmax(1).transpose(1, 2)
