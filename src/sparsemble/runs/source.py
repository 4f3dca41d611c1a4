"""The training data of a run, however it was given: checked against the network, in batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from sparsemble.data import ArrayBatches, Batches, Dataset, LoaderBatches, Scaling, as_dataset
from sparsemble.errors import InputError
from sparsemble.seeds import derive
from sparsemble.structure import Layout

Data = Dataset | tuple[Any, Any] | DataLoader[Any]


class Source:
    """A `Dataset`, a pair of arrays, or a `DataLoader`."""

    def __init__(
        self, data: Data, network: nn.Module, layout: Layout, seed: int, num_data: int | None
    ) -> None:
        self.scaling = Scaling.none()
        self.class_names: Sequence[str] | None = None
        self.feature_names: Sequence[str] | None = None
        self._classes = layout.outputs.size
        self._seed = derive(seed, "batches")
        self._num_data = num_data
        self._dtype = next(network.parameters()).dtype
        self._data: Dataset | DataLoader[Any]
        if num_data is not None and num_data < 1:
            raise InputError(f"num_data = {num_data}: must be at least 1")
        if isinstance(data, DataLoader):
            self._data = data
        else:
            if num_data is not None:
                raise InputError("num_data is only for data loaders: arrays know their length")
            self._data = self._dataset(data)
            self.scaling = self._data.scaling
            self.class_names = self._data.class_names
            self.feature_names = self._data.feature_names
        self._try(network, layout)

    def _dataset(self, data: Any) -> Dataset:
        if not isinstance(data, Dataset):
            if not isinstance(data, tuple | list) or len(data) != 2:
                raise InputError(
                    f"data of type {type(data).__name__}: give a pair (inputs, targets), a Dataset "
                    "or a DataLoader"
                )
            data = as_dataset(*data, num_classes=self._classes)
        dataset: Dataset = data
        if len(dataset.class_names) != self._classes:
            raise InputError(
                f"the data has {len(dataset.class_names)} classes, the network's last layer "
                f"{self._classes}"
            )
        return dataset

    def _try(self, network: nn.Module, layout: Layout) -> None:
        """Pass one example through the network, so that a misfit is told before anything runs."""
        inputs, _ = next(self.batches(1).epoch(0))
        width, space = inputs[0].numel(), layout.inputs
        if space is not None and space.size != width:
            raise InputError(
                f"the data has {width} features, the network's first layer {space.size}"
            )
        was_training = network.training
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                logits = network.eval()(inputs[:1])
        except (RuntimeError, ValueError, TypeError) as error:
            raise InputError(
                f"the network cannot take inputs of shape {tuple(inputs[:1].shape)}: {error}"
            ) from None
        finally:
            network.train(was_training)
        if not isinstance(logits, Tensor) or logits.shape != (1, self._classes):
            raise InputError(
                f"for one example the network must return logits of shape (1, {self._classes})"
            )

    def batches(self, batch_size: int) -> Batches:
        """Mini-batches of the training data; a loader brings its own size."""
        if isinstance(self._data, DataLoader):
            return LoaderBatches(
                self._data,
                self._seed,
                num_classes=self._classes,
                num_data=self._num_data,
                dtype=self._dtype,
            )
        return ArrayBatches(self._data, batch_size, self._seed, self._dtype)

    def fingerprint(self) -> str:
        """What identifies the training data; of a loader its first batch and its length."""
        digest = hashlib.sha256()
        if isinstance(self._data, DataLoader):
            batches = self.batches(1)
            digest.update(f"{batches.num_data} {batches.steps}".encode())
            tensors = list(next(batches.epoch(0)))
        else:
            scaling = self._data.scaling
            tensors = [self._data.inputs, self._data.targets, scaling.shift, scaling.factor]
        for tensor in tensors:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def examples(self, count: int) -> Tensor | None:
        """Some raw training inputs, if they are at hand."""
        return None if isinstance(self._data, DataLoader) else self._data.inputs[:count]
