"""The training data of a run, however it was given: checked against the network, in batches.

A `Source` also knows what kind of ensemble its members make.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from sparsemble.data import (
    ArrayBatches,
    Batches,
    Corpus,
    Dataset,
    LoaderBatches,
    Scaling,
    TextBatches,
    as_dataset,
)
from sparsemble.data.dataset import checked_dataset, in_order
from sparsemble.ensemble import BaseEnsemble, Ensemble, LanguageEnsemble
from sparsemble.errors import InputError
from sparsemble.layouts import LanguageModel
from sparsemble.members import Member
from sparsemble.recipes import Recipe
from sparsemble.runs.looks import ExampleLook, Look, TextLook
from sparsemble.seeds import derive
from sparsemble.structure import Layout

Examples = Dataset | tuple[Any, Any] | DataLoader[Any]


class Source(Protocol):
    """What a run needs of its data."""

    def batches(self, batch_size: int) -> Batches:
        """The training data in mini-batches."""
        ...

    def fingerprint(self) -> str:
        """What identifies the training data."""
        ...

    def ensemble(self, members: Sequence[Member]) -> BaseEnsemble:
        """The members as an ensemble that can read data of this kind."""
        ...

    def look(self) -> Look | None:
        """Examples to watch the ensemble on, if any are at hand."""
        ...


def open_source(
    data: Examples | Corpus,
    network: nn.Module,
    layout: Layout,
    recipe: Recipe,
    num_data: int | None,
    validation: Examples | None = None,
) -> Source:
    """The data of a run, checked against its network."""
    if isinstance(network, LanguageModel) != isinstance(data, Corpus):
        raise InputError(
            "a LanguageModel learns from a Corpus and nothing else does: "
            f"got {type(network).__name__} and {type(data).__name__}"
        )
    if isinstance(data, Corpus):
        if num_data is not None:
            raise InputError("num_data is only for data loaders: a text knows its windows")
        if validation is not None:
            raise InputError("validation is only for examples: a text has a validation part")
        return TextSource(data, layout, recipe.window)
    return ExampleSource(data, network, layout, recipe.seed, num_data, validation)


class TextSource:
    """A `Corpus`: its training text."""

    def __init__(self, corpus: Corpus, layout: Layout, window: int) -> None:
        if len(corpus.vocabulary) != layout.outputs.size:
            raise InputError(
                f"the text has {len(corpus.vocabulary)} words, the network {layout.outputs.size}"
            )
        self._corpus = corpus
        self._window = window

    def batches(self, batch_size: int) -> Batches:
        """Windows of the training text."""
        return TextBatches(self._corpus.train, batch_size, self._window)

    def fingerprint(self) -> str:
        """A digest of words and text."""
        words = "\n".join(self._corpus.vocabulary.words)
        digest = hashlib.sha256(f"{self._window}\n{words}".encode())
        digest.update(self._corpus.train.contiguous().numpy().data)
        return digest.hexdigest()

    def ensemble(self, members: Sequence[Member]) -> BaseEnsemble:
        """Language models with their vocabulary."""
        return LanguageEnsemble(members, vocabulary=self._corpus.vocabulary)

    def look(self) -> Look:
        """The validation text."""
        return TextLook(self._corpus)


class ExampleSource:
    """A `Dataset`, a pair of arrays, or a `DataLoader`."""

    def __init__(
        self,
        data: Examples,
        network: nn.Module,
        layout: Layout,
        seed: int,
        num_data: int | None,
        validation: Examples | None,
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
        self._validation = self._checked_validation(validation, layout)
        self._try(network, layout)

    def _dataset(self, data: Any) -> Dataset:
        if not isinstance(data, Dataset):
            if not isinstance(data, tuple | list) or len(data) != 2:
                raise InputError(
                    f"data of type {type(data).__name__}: give a pair (inputs, targets), a Dataset "
                    "or a DataLoader"
                )
            return as_dataset(*data, num_classes=self._classes)
        dataset = checked_dataset(data)
        if len(dataset.class_names) != self._classes:
            raise InputError(
                f"the data has {len(dataset.class_names)} classes, the network's last layer "
                f"{self._classes}"
            )
        return dataset

    def _checked_validation(self, data: Examples | None, layout: Layout) -> Dataset | None:
        if data is None:
            return None
        if isinstance(data, DataLoader):
            raise InputError("validation data are arrays or a Dataset, not a DataLoader")
        dataset = self._dataset(data)
        width, space = dataset.inputs[0].numel(), layout.inputs
        if space is not None and space.size != width:
            raise InputError(
                f"the validation data have {width} features, the network's first layer {space.size}"
            )
        if self.feature_names is not None and dataset.feature_names is not None:
            names, wanted = dataset.feature_names, self.feature_names
            inputs = in_order(dataset.inputs, names, wanted, "the validation data")
            dataset = replace(dataset, inputs=inputs, feature_names=tuple(wanted))
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
        return ArrayBatches(self._scaled, batch_size, self._seed, self._dtype)

    @cached_property
    def _scaled(self) -> Dataset:
        """The examples as the network sees them, computed once."""
        assert isinstance(self._data, Dataset)
        inputs = self._data.scaled().to(self._dtype)
        return replace(self._data, inputs=inputs, scaling=Scaling.none())

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

    def ensemble(self, members: Sequence[Member]) -> Ensemble:
        """Classifiers with what they need to read such data again."""
        return Ensemble(
            members,
            scaling=self.scaling,
            class_names=self.class_names,
            feature_names=self.feature_names,
        )

    def look(self) -> Look | None:
        """Validation examples, or else training ones; a loader's are not at hand."""
        if self._validation is not None:
            return ExampleLook(self._validation, self.ensemble, seen=False)
        if isinstance(self._data, DataLoader):
            return None
        return ExampleLook(self._data, self.ensemble, seen=True)
