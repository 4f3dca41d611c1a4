"""Tasks on examples: each has inputs of its own and a target of its own.

Here is what classification, regression and a user's own task of that kind share: arrays, tables, a
`Dataset`, a torch `Dataset` and a `DataLoader` are taken, features are matched by name, files are
predicted and scored (`example_files`). Data made of a table bring the encoding of its columns,
which stays with the task: tables are asked about in the same way ever after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic.json_schema import SkipJsonSchema
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from sparsemble.data import (
    Arguments,
    Batches,
    Dataset,
    Inputs,
    Scaling,
    as_dataset,
)
from sparsemble.data.alike import alike
from sparsemble.data.arrays import AT_ONCE
from sparsemble.data.batches import in_fixed_order
from sparsemble.data.dataset import About, in_order
from sparsemble.data.inputs import any_inputs, as_inputs, column_names, matrix_of
from sparsemble.data.named import EXAMPLES, TEXTS, open_examples
from sparsemble.data.rows import Rows
from sparsemble.data.targets import as_numbers
from sparsemble.errors import InputError
from sparsemble.modes import is_captured
from sparsemble.seeds import derive
from sparsemble.settings import Count, Names
from sparsemble.tables import TableDataset, TableEncoding, is_table
from sparsemble.tables.records import as_records, encoded_records
from sparsemble.tasks.example_files import predicted, scored_rows, scored_table
from sparsemble.tasks.example_training import FEW, ExampleTraining
from sparsemble.tasks.forms import Form, form_of_numbers, form_of_table
from sparsemble.tasks.input_parts import InputPart, arranged, as_called, parts_in, parts_of
from sparsemble.tasks.table_parts import (
    about_unseen,
    is_of_table,
    opened_table,
    table_inputs,
    with_columns,
)
from sparsemble.tasks.task import Answer, Evaluation, Predictor, Task, Training
from sparsemble.tasks.trying import notices_fractions, outputs_of, refusal


class ExampleTask(Task):
    """A task whose examples are independent."""

    feature_names: Names | None = None
    """What the inputs are called; tables are matched by them."""
    input_shape: SkipJsonSchema[tuple[Count, ...] | None] = None
    """Of one example; found in the data."""
    input_parts: SkipJsonSchema[tuple[InputPart, ...] | None] = None
    """What a network is called with, if that is not one array of numbers; found in the data."""
    columns: SkipJsonSchema[TableEncoding | None] = None
    """How the columns of a table become inputs, if a table was learned from; found in the data."""
    scaling: SkipJsonSchema[Scaling] = Field(default_factory=Scaling.none, exclude=True, repr=False)
    """What the network sees of the inputs."""

    scaling_fields: ClassVar[Mapping[str, str]] = {"inputs": "scaling"}

    network_outputs: ClassVar[int] = 1
    """How many numbers a network returns for one example, where the data do not decide it."""

    unless_default: ClassVar[tuple[str, ...]] = ("input_parts", "columns")
    """Fields that are written down only if they say something."""

    @model_validator(mode="after")
    def _columns_are_the_features(self) -> Self:
        if self.columns is not None and self.columns.names != self.feature_names:
            raise ValueError("columns and feature_names say different things about the inputs")
        return self

    @model_serializer(mode="wrap")
    def _written(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = written(self)
        for name in self.unless_default:
            if getattr(self, name) == type(self).model_fields[name].default:
                fields.pop(name, None)
        return fields

    # What a subclass may say about its targets: by default they are numbers

    @property
    def targets_in_files(self) -> tuple[str, ...]:
        """What columns of targets are called in a file that has no column `label`."""
        return ()

    def dataset(self, inputs: Any, targets: Any, about: About, source: str) -> Dataset:
        """Arrays as a checked `Dataset`."""
        return as_dataset(
            inputs,
            targets,
            numeric=True,
            target_names=about.target_names,
            feature_names=about.feature_names,
            scaling=about.scaling,
            source=source,
        )

    def checked_targets(self, targets: Any, source: str) -> Tensor:
        """The targets of a data loader's batch."""
        return as_numbers(targets, source)

    def completed(self, data: Dataset, outputs: int | None) -> Self:
        """The task with what the training data say about their targets."""
        return self

    def known_targets(self, data: Dataset, source: str) -> Tensor:
        """The targets of data to be scored, in terms of the data that were learned from."""
        return data.targets

    @property
    def sizes(self) -> tuple[int, int]:
        """Features, and the outputs of a network."""
        return torch.Size(self.input_shape or (0,)).numel(), self.network_outputs

    # Data

    def training(
        self,
        data: Any,
        *,
        seed: int = 0,
        outputs: int | None = None,
        num_data: int | None = None,
        validation: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> ExampleTraining:
        """A `Dataset`, a pair of arrays, a torch `Dataset` or a `DataLoader`, checked."""
        if num_data is not None and num_data < 1:
            raise InputError(f"num_data = {num_data}: must be at least 1")
        given = self._opened(data, "the data")
        if isinstance(given, Dataset):
            if num_data is not None:
                raise InputError("num_data is only for data loaders: arrays know their length")
            task = self.completed(given, outputs)._for_examples(given)
        else:
            task = self.for_outputs(outputs)
        training = ExampleTraining(task, given, derive(seed, "batches"), num_data, dtype)
        if validation is not None:
            training.validation = training.task.evaluation(validation, "validation examples")
        return training

    def outputs_for(self, network: nn.Module, data: Any) -> int | None:
        """Of a loader, whose targets are not all at hand, by its first examples."""
        given = self._opened(data, "the data")
        if isinstance(given, Dataset) or self.sizes[1]:
            return None
        loader = given if isinstance(given, DataLoader) else DataLoader(given, FEW)
        batch = next(in_fixed_order(loader, 0), None)
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            return None  # which is refused where batches are checked
        weight = next(network.parameters())
        inputs = self.batch_inputs(batch[0], batch[1], "the data loader")[:FEW].to(weight.device)
        numbers = inputs.to(weight.dtype)
        is_index = isinstance(inputs, Tensor) and refusal(network, numbers) is not None
        outputs = outputs_of(network, inputs if is_index else numbers)
        return outputs.shape[1] if outputs.ndim == 2 else None

    def _for_examples(self, data: Dataset) -> Self:
        """With the shape, names and scaling of the data's inputs, or with their parts."""
        if isinstance(data.inputs, Arguments):
            return self._for_parts(data.inputs)
        shape = tuple(data.inputs.shape[1:])
        names = data.feature_names or self.feature_names
        for what, known, found in (
            ("input_shape", self.input_shape, shape),
            ("feature_names", self.feature_names, names),
        ):
            if known is not None and known != found:
                raise InputError(f"the task has {what} = {known}, the data {found}")
        if names is not None and len(names) != torch.Size(shape).numel():
            raise InputError(f"{len(names)} feature names for inputs of shape {shape}")
        update = {"feature_names": names, "input_shape": shape, "scaling": data.scaling}
        columns = data.columns if isinstance(data, TableDataset) else self.columns
        return self.model_copy(update={**update, "columns": columns})

    def _for_parts(self, inputs: Arguments) -> Self:
        if self.feature_names is not None or self.input_shape is not None:
            raise InputError(
                "the task has feature_names or an input_shape, which are for a single array of "
                f"inputs, and the data {len(inputs.tensors)} inputs: leave them out"
            )
        return self.model_copy(update={"input_parts": parts_of(inputs)})

    def for_network(self, network: nn.Module, training: Training) -> Self:
        """With integers as they are, if the network does not read them as numbers.

        So it is with indices of words: a network cannot take numbers in their place, or takes no
        notice of fractions. All others get numbers, as tables and pictures of integers need it.
        """
        if self.input_parts is not None or not isinstance(training, ExampleTraining):
            return self
        integers, _ = training.as_given()
        if isinstance(integers, Arguments) or integers.is_floating_point():
            return self
        weight = next(network.parameters())
        numbers = integers.to(weight)
        refused, kept = refusal(network, numbers), refusal(network, integers.to(weight.device))
        if refused is None and (kept is not None or notices_fractions(network, numbers)):
            return self
        if kept is not None:
            raise InputError(
                f"the network takes inputs of {integers.dtype} and shape {tuple(integers.shape)} "
                f"neither as numbers ({refused}) nor as the integers they are ({kept})"
            )
        return self.model_copy(update={"input_parts": parts_of(Arguments((integers,)))})

    @property
    def scaled_shapes(self) -> dict[str, tuple[int, ...] | None]:
        """Inputs have a shape."""
        return {**super().scaled_shapes, "inputs": self.input_shape}

    def for_inputs(self, inputs: int) -> Self:
        """The width of the inputs, unless the data said more of them."""
        known = self.input_shape is not None or self.input_parts is not None
        return self if known else self.model_copy(update={"input_shape": (inputs,)})

    def for_batches(self, batches: Batches) -> Self:
        """The task for a data loader's batches."""
        inputs, _ = next(batches.epoch(0))
        if isinstance(inputs, Arguments):
            return self._for_parts(inputs)
        return self.model_copy(update={"input_shape": tuple(inputs.shape[1:])})

    def _opened(self, data: Any, source: str) -> Dataset | DataLoader[Any] | TorchDataset[Any]:
        if isinstance(data, TensorDataset):
            data = data.tensors
        if isinstance(data, Dataset):
            inputs, about = data.inputs, About.of(data)
            if self.input_parts is not None:
                inputs = arranged(data.inputs, self.input_parts, source)
                about = replace(about, feature_names=None, scaling=None)
            found = self.dataset(inputs, data.targets, about, source)
            if data.weights is not None:
                found = found.weighed(data.weights, source)
            return with_columns(found, data, self.columns, source)
        if is_table(data) or (self.columns is not None and is_of_table(data)):
            return opened_table(data, self.columns, source)
        if isinstance(data, IterableDataset):
            raise InputError(f"{source}: give an IterableDataset as a DataLoader, with num_data")
        if isinstance(data, DataLoader | TorchDataset):
            if _is_empty(data):
                raise InputError(f"{source}: no examples")
            return data
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise InputError(
                f"{source} of type {type(data).__name__}: give a pair (inputs, targets), a Dataset "
                "or a DataLoader"
            )
        if self.input_parts is not None:
            inputs, about = arranged(data[0], self.input_parts, source), About.tables(None, data[1])
            return self.dataset(inputs, data[1], about, source)
        return self.dataset(data[0], data[1], About.tables(*data), source)

    def hold_out(self, data: Any, share: float, most: int, seed: int) -> tuple[Any, Any]:
        """Examples drawn at random, copies of one together; a loader's cannot be told apart."""
        given = self._opened(data, "the data")
        if isinstance(given, DataLoader):
            raise InputError(
                "the examples of a data loader cannot be set aside: give validation data as well"
            )
        count = len(given)  # type: ignore[arg-type]
        held = max(min(round(share * count), most), 1)
        if held >= count:
            raise InputError(f"of {count} examples none is left for validation: give more")
        which = alike(given) if isinstance(given, Dataset) else torch.arange(count)
        order = torch.randperm(int(which.max()) + 1, generator=torch.Generator().manual_seed(seed))
        places = order.argsort()[which]
        last = places.sort().values[held - 1]
        rest, own = ((places > last).nonzero()[:, 0], (places <= last).nonzero()[:, 0])
        if not len(rest):
            raise InputError(
                f"all {count} examples are copies of few: give validation data as well"
            )
        if isinstance(given, Dataset):
            return given.pick(rest), given.pick(own)
        return Subset(given, rest.tolist()), Subset(given, own.tolist())

    def scaled(self, data: Any) -> Any:
        """Arrays without a scaling get one that fits them; a loader's are the caller's to scale."""
        given = self._opened(data, "the data")
        if not isinstance(given, Dataset) or not given.scaling.is_identity:
            return given
        if isinstance(given.inputs, Arguments):
            return given
        return replace(given, scaling=Scaling.fitting(given.inputs))

    def evaluation(self, data: Any, name: str = "the data") -> Evaluation:
        """Examples in the order they come; features and targets are matched by name."""
        given = self._opened(data, name)
        if isinstance(given, Dataset):
            names = given.feature_names if self.feature_names is not None else None
            inputs = self.inputs(given.inputs, names, name)
            targets = self.known_targets(given, name)
            notes = given.found if isinstance(given, TableDataset) and is_table(data) else ()
            parts = partial(_in_parts, inputs, targets)  # which other processes can be sent
            return Evaluation(name, len(given), parts, given, notes=notes, weights=given.weights)
        loader = given if isinstance(given, DataLoader) else DataLoader(given, AT_ONCE)
        try:
            count = len(loader.dataset)  # type: ignore[arg-type]
        except TypeError:
            raise InputError(
                f"{name}: the data loader's dataset has no length; give arrays, or one that has"
            ) from None
        return Evaluation(name, count, partial(_of_loader, self, loader, name), given)

    def evaluation_from(
        self, source: str, part: str, folder: Path | None, **options: Any
    ) -> Evaluation:
        """A named data set, or a CSV, NPY or NPZ file with a column or array of targets."""
        columns = self._columns_by(options)
        if source in EXAMPLES:
            return self.evaluation(open_examples(source, part, folder), f"{source}, {part} part")
        if source in TEXTS:
            raise InputError(f"{source!r} is a text, and the ensemble holds {self.noun}")
        if columns is not None:
            return scored_table(self, columns, source)
        return scored_rows(self, source)

    def for_labels_in(self, path: Path) -> Self:
        """The task as it reads the labels of a file, where only all of them together say how."""
        return self

    def labelled(self, inputs: Inputs, rows: Rows, source: str) -> Dataset:
        """Rows of a file with their targets."""
        about = About(feature_names=self.feature_names, scaling=self.scaling)
        return self.dataset(inputs, rows.labels, about, source)

    def inputs(
        self, values: Any, feature_names: Sequence[str] | None = None, source: str = "the inputs"
    ) -> Inputs:
        """Inputs of the width learned, named columns in the order learned."""
        if self.input_parts is not None:
            if feature_names is not None:
                raise InputError(f"{source}: the ensemble was learned without feature names")
            return arranged(values, self.input_parts, source)
        if self.columns is not None:
            found = table_inputs(values, self.columns, source)
            if found is not None:
                return found
            if feature_names is None:
                raise InputError(
                    f"{source}: the ensemble was learned from a table, whose columns are matched "
                    "by name: give a table, or a dict of columns"
                )
        names = column_names(values) if feature_names is None else tuple(feature_names)
        tensor = as_inputs(values, source)
        if names is not None and self.feature_names is not None:
            tensor = in_order(tensor, names, self.feature_names, source)
        elif feature_names is not None:
            raise InputError(f"{source}: the ensemble was learned without feature names")
        if self.input_shape is not None:
            width = torch.Size(self.input_shape).numel()
            if tensor.shape[1:].numel() != width:
                reads = f"{width} features per row"
                if len(self.input_shape) > 1:
                    reads += f", in the shape {tuple(self.input_shape)} that was learned from"
                raise InputError(
                    f"{source}: inputs of shape {tuple(tensor.shape)}, the ensemble reads {reads}"
                )
            if tensor.shape[1:] != self.input_shape:  # as the scaling is shaped, which broadcasts
                given, own = ([n for n in s if n > 1] for s in (tensor.shape[1:], self.input_shape))
                if given != own and len(given) > 1 and len(own) > 1:
                    raise InputError(
                        f"{source}: inputs of shape {tuple(tensor.shape[1:])}, the ensemble was "
                        f"learned with {tuple(self.input_shape)}: give them in that order, or flat"
                    )
                tensor = tensor.reshape(len(tensor), *self.input_shape)
        return tensor

    def arranged(self, values: Any, source: str = "the inputs") -> Inputs:
        """Several inputs as `Arguments`; one as it is."""
        if self.input_parts is None or isinstance(values, Arguments):
            return super().arranged(values, source)
        if is_captured():
            return as_called(values)
        return arranged(values, self.input_parts, source)

    def made_up(self, count: int, length: int) -> Inputs | None:
        """Numbers of the size that the scaling expects, if examples are one array of numbers."""
        if self.input_parts is not None or self.input_shape is None:
            return None
        chance = torch.Generator().manual_seed(0)
        values = torch.randn(count, *self.input_shape, generator=chance)
        return self.scaling.undo(values.to(self.scaling.factor))

    def batch_inputs(self, values: Any, targets: Any, source: str) -> Inputs:
        """The inputs of a data loader's batch."""
        if self.input_parts is not None:
            return arranged(values, self.input_parts, source)
        return any_inputs(values, targets, source)

    def check(self, network: nn.Module, example: Any) -> None:
        """Pass one example through the network."""
        outputs = self.outputs
        try:
            found: Any = self.forward(network)(example)
        except (RuntimeError, ValueError, TypeError) as error:
            layers = (own for own in network.modules() if list(own.parameters(recurse=False)))
            first = next(layers, None)
            if isinstance(first, nn.Linear) and example.ndim == 2:
                reads, width = first.in_features, example.shape[1]
                if reads != width:
                    raise InputError(
                        f"the data has {width} features, the network's first layer {reads}"
                    ) from None
            raise InputError(
                f"the network cannot take inputs of shape {tuple(example.shape)}: {error}"
            ) from None
        if not isinstance(found, Tensor) or found.shape != (len(example), outputs):
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"for one example the network must return {outputs} numbers, of shape "
                f"(1, {outputs}), not {shape}"
            )

    # Questions and answers, row by row

    def form(self) -> Form:
        """A table's columns; pictures to be drawn; numbers to be filled in; or JSON."""
        if self.columns is not None:
            return form_of_table(self.columns)
        if self.input_parts is not None or self.input_shape is None:
            return super().form()
        return form_of_numbers(self.input_shape, self.feature_names, self.scaling)

    def asked(self, rows: Sequence[Any], source: str = "the rows") -> list[Inputs]:
        """Lists of numbers, or objects by the names of columns, features or inputs."""
        if self.columns is not None:
            return [encoded_records(as_records(rows, source), self.columns, source)]
        if self.input_parts is not None:
            parts = self.input_parts
            return [arranged(parts_in(row, parts, source), parts, source) for row in rows]
        by_name = self.feature_names is not None and all(isinstance(row, Mapping) for row in rows)
        values, names = matrix_of(rows, source) if by_name else (list(rows), None)
        found = self.inputs(values, names, source)
        assert isinstance(found, Tensor)
        return [found.reshape(len(found), *(self.input_shape or found.shape[1:]))]

    def answered(self, ensemble: Predictor, inputs: Inputs) -> Tensor:
        """A table's inputs have names, which say that they are encoded already."""
        return ensemble.evidence(inputs, None if self.columns is None else self.columns.names)

    def about_unseen(self, unseen: str) -> Self:
        """Of categories and gaps that the table did not show."""
        return self.model_copy(update={"columns": about_unseen(self.columns, unseen)})

    # Predictions for files

    def predict_file(self, ensemble: Predictor, path: Path, **options: Any) -> Iterator[Answer]:
        """A record for every row of a CSV, NPY or NPZ file; of a table in Parquet, too."""
        return predicted(self, ensemble, path, self._columns_by(options))

    def _columns_by(self, options: Mapping[str, Any]) -> TableEncoding | None:
        """How a table is read by the options of a command, which must be for examples."""
        if others := options.keys() - {"unseen"}:
            raise InputError(f"{', '.join(sorted(others))}: not for examples")
        return about_unseen(self.columns, options.get("unseen"))


def _is_empty(data: Any) -> bool:
    """Is it known to hold nothing? What streams may not know its length."""
    try:
        return len(data) == 0
    except TypeError:
        return False


def _in_parts(inputs: Inputs, targets: Tensor) -> Iterator[tuple[Inputs, Tensor]]:
    return zip(inputs.split(AT_ONCE), targets.split(AT_ONCE), strict=True)


def _of_loader(
    task: ExampleTask, loader: DataLoader[Any], name: str
) -> Iterator[tuple[Inputs, Tensor]]:
    """A loader's batches, checked; members are measured one after the other, so never shuffled."""
    for number, batch in enumerate(in_fixed_order(loader, 0)):
        source = f"batch {number} of {name}"
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            raise InputError(f"{source} is not a pair of inputs and targets")
        yield task.inputs(batch[0], None, source), task.checked_targets(batch[1], source)
