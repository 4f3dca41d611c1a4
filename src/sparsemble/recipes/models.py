"""What a recipe holds. Each section is the settings of one part, so limits are written there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from torch import nn

from sparsemble.data import Corpus, Dataset, as_dataset, digits, grammar, mnist, ptb, read_corpus
from sparsemble.data.dataset import checked_dataset
from sparsemble.errors import InputError
from sparsemble.layouts import AnyGrouping, LanguageModel, feedforward
from sparsemble.layouts.layers import ELEMENTWISE
from sparsemble.priors import AnyPrior, NoPrior
from sparsemble.recipes.code import PATTERN, imported, made_by
from sparsemble.settings import Positive, Settings
from sparsemble.stages import ChainSettings, PruneSettings, RetrainSettings

Size = Annotated[int, Field(ge=1)]
Place = Annotated[Path, AfterValidator(Path.absolute)]
"""A file or folder, kept so that a run can be resumed from anywhere."""


class ImageData(Settings):
    """Which data set; `held_out` training examples at the end become the test set instead."""

    name: Literal["digits", "mnist"]
    """Which data set."""
    held_out: Annotated[int, Field(ge=0)] = 0
    """Training examples that become the test set, as in a search."""

    def load(self, folder: Path | None = None) -> tuple[Dataset, Dataset]:
        """The training set, and the set that results are measured on."""
        train, test = digits() if self.name == "digits" else mnist(folder)
        return train.split(self.held_out) if self.held_out else (train, test)


class TextFiles(Settings):
    """The parts of a text, each a file."""

    train: Place
    """Text to learn from."""
    valid: Place
    """Text to choose settings by."""
    test: Place
    """Text for final figures."""


class TextData(Settings):
    """Which text: the built-in grammar, Penn Treebank, or one's own, the files in the folder `path`
    or those that `files` names for train, valid and test.

    `size` and `threshold` limit the vocabulary of one's own text. `portion` is the share of the
    training text to learn from. `measure` says whether results come from the test text as well as
    from the validation text, or, as in a search, from the latter alone.
    """

    name: Literal["grammar", "ptb", "text"]
    """The built-in grammar, Penn Treebank, or a text of your own."""
    path: Place | None = None
    """Folder with train.txt, valid.txt and test.txt; only for `text`."""
    files: TextFiles | None = None
    size: Annotated[int, Field(ge=3)] | None = None
    """Words of the vocabulary at most; only for `text`."""
    threshold: Size = 1
    """Words seen less often count as `<unk>`; only for `text`."""
    portion: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the training text to learn from."""
    measure: Literal["test", "valid"] = "test"
    """Measure on the test text as well, or on the validation text alone, as in a search."""

    @model_validator(mode="after")
    def _path_of_a_text(self) -> Self:
        given = [place for place in (self.path, self.files) if place is not None]
        if len(given) != (self.name == "text"):
            raise ValueError('name = "text" goes together with a path, or with files')
        if self.name != "text" and (self.size is not None or self.threshold != 1):
            raise ValueError(
                f"the vocabulary of {self.name} is fixed: size and threshold are for text"
            )
        return self

    def load(self, folder: Path | None = None) -> Corpus:
        """The text."""
        place = self.path if self.files is None else dict(self.files)
        if place is not None:
            corpus = read_corpus(place, size=self.size, threshold=self.threshold)
        else:
            corpus = grammar() if self.name == "grammar" else ptb(folder)
        return corpus.beginning(self.portion)


class FeedForwardSettings(Settings):
    """A feed-forward network by its hidden sizes."""

    kind: Literal["feedforward"] = "feedforward"
    hidden: tuple[Size, ...]
    """Units of the hidden layers."""
    activation: str = "relu"
    """What follows every hidden layer."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of hidden units left out while training."""

    @model_validator(mode="after")
    def _known_activation(self) -> Self:
        if self.activation not in ELEMENTWISE:
            raise ValueError(
                f"activation {self.activation!r} is not one of {', '.join(ELEMENTWISE)}"
            )
        return self

    def build(self, data: Dataset) -> nn.Sequential:
        """A freshly initialised network for `data`."""
        return feedforward(
            data.inputs[0].numel(),
            self.hidden,
            len(data.class_names),
            activation=self.activation,
            dropout=self.dropout,
        )


class LanguageModelSettings(Settings):
    """An LSTM language model; the embedding is as wide as the last layer unless given."""

    kind: Literal["lstm"]
    hidden: Annotated[tuple[Size, ...], Field(min_length=1)]
    """Units of the LSTM layers."""
    embedding: Size | None = None
    """Width of the embedding; by default that of the last layer."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share left out of every layer's input and before the softmax."""
    shared: bool = False
    """Are the embedding's weights also the decoder's?"""
    spread: Positive = 0.1
    """Weights start uniformly within ± this."""

    def build(self, corpus: Corpus) -> LanguageModel:
        """A freshly initialised network for the words of `corpus`."""
        return LanguageModel(
            len(corpus.vocabulary),
            self.embedding or self.hidden[-1],
            self.hidden,
            dropout=self.dropout,
            shared=self.shared,
            spread=self.spread,
        )


class CustomData(Settings):
    """Data of the user's own: `loader` names a function without arguments, by import path.

    It returns a training and a test set (each a `Dataset` or a pair of arrays), or a `Corpus`.
    """

    name: Literal["custom"]
    """Data of your own."""
    loader: Annotated[str, Field(pattern=PATTERN)]
    """Your function: `package.module:function`, without arguments."""
    held_out: Annotated[int, Field(ge=0)] = 0
    """Training examples that become the test set, as in a search."""
    measure: Literal["test", "valid"] = "test"
    """Measure on the test text as well, or on the validation text alone, as in a search."""

    def load(self, folder: Path | None = None) -> tuple[Dataset, Dataset] | Corpus:
        """What the function returns, checked."""
        found = imported(self.loader)()
        if isinstance(found, Corpus):
            if self.held_out:
                raise InputError(f"held_out is for examples: {self.loader} returns a text")
            return found
        if self.measure == "valid":
            raise InputError(
                f"{self.loader} returns examples: say held_out, how many to measure on"
            )
        if not _is_pair(found) or not all(isinstance(p, Dataset) or _is_pair(p) for p in found):
            raise InputError(
                f"{self.loader} must return (train, test), each a Dataset or a pair (inputs, "
                "labels), or a Corpus"
            )
        train = self._dataset(found[0], None, "training")
        test = self._dataset(found[1], len(train.class_names), "test")
        if train.class_names != test.class_names:
            raise InputError(f"{self.loader}: training and test set have other classes")
        widths = [part.inputs[0].numel() for part in (train, test)]
        if widths[0] != widths[1]:
            raise InputError(
                f"{self.loader}: {widths[0]} features to learn from, {widths[1]} to test on"
            )
        return train.split(self.held_out) if self.held_out else (train, test)

    def _dataset(self, part: Any, classes: int | None, name: str) -> Dataset:
        source = f"the {name} set of {self.loader}"
        if isinstance(part, Dataset):
            return checked_dataset(part, source)
        return as_dataset(*part, num_classes=classes, source=source)


class CustomNetwork(Settings):
    """A network of the user's own: `factory` names a function without arguments, by import path.

    It returns a freshly initialised module, or a pair of that and its `Layout`.
    """

    kind: Literal["custom"]
    factory: Annotated[str, Field(pattern=PATTERN)]
    """Your function: `package.module:function`, without arguments."""

    def build(self, data: Dataset | Corpus) -> nn.Module:
        """A freshly initialised network."""
        return made_by(self.factory)[0]


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _kind_of_data(fields: Any) -> str:
    name = fields.get("name") if isinstance(fields, dict) else getattr(fields, "name", None)
    if name == "custom":
        return "custom"
    return "text" if name in ("grammar", "ptb", "text") else "images"


def _kind_of_network(fields: Any) -> str:
    kind = fields.get("kind") if isinstance(fields, dict) else getattr(fields, "kind", None)
    return kind if kind in ("lstm", "custom") else "feedforward"


DataSettings = Annotated[
    Annotated[ImageData, Tag("images")]
    | Annotated[TextData, Tag("text")]
    | Annotated[CustomData, Tag("custom")],
    Discriminator(_kind_of_data),
]
NetworkSettings = Annotated[
    Annotated[FeedForwardSettings, Tag("feedforward")]
    | Annotated[LanguageModelSettings, Tag("lstm")]
    | Annotated[CustomNetwork, Tag("custom")],
    Discriminator(_kind_of_network),
]


class Recipe(Settings):
    """One run of the method: prior, chain, pruning, retraining; data and network by name.

    Without `prune` the members stay dense, without `retrain` they stay as sampled. `data` and
    `network` are only for runs from the command line; `baseline` names a built-in recipe that they
    are to be compared with. `window` is the number of steps a language
    model is unrolled for, and its unit of data: the loss of a window is summed.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")] = "recipe"
    """What runs and tables call it; by default the name of its file."""
    description: str = ""
    """One line about it."""
    baseline: str | None = None
    """A built-in recipe that `learn` also runs, to compare with."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Everything random follows from it."""
    data: DataSettings | None = None
    network: NetworkSettings | None = None
    grouping: AnyGrouping | None = None
    """Which weights form a group: of feed-forward networks, or of language models."""
    window: Size = 35
    """Steps a language model is unrolled for; the loss of a window is summed."""
    prior: AnyPrior = NoPrior()
    chain: ChainSettings
    prune: PruneSettings | None = None
    retrain: RetrainSettings | None = None

    @property
    def code(self) -> tuple[str, ...]:
        """Import paths of the user's own functions that the recipe names."""
        paths = []
        if isinstance(self.data, CustomData):
            paths.append(self.data.loader)
        if isinstance(self.network, CustomNetwork):
            paths.append(self.network.factory)
        return tuple(paths)

    @model_validator(mode="after")
    def _network_fits_data(self) -> Self:
        if isinstance(self.data, ImageData | TextData) and isinstance(
            self.network, FeedForwardSettings | LanguageModelSettings
        ):
            text = isinstance(self.data, TextData)
            if text != isinstance(self.network, LanguageModelSettings):
                wanted = 'kind = "lstm"' if text else 'kind = "feedforward"'
                raise ValueError(f"data {self.data.name!r} needs a network with {wanted}")
        return self
