"""A task: what is predicted, and how good it is, as one value that is saved with the ensemble.

Everything that depends on what is predicted stands here and nowhere else: the data a task takes,
its loss, how members' outputs are mixed into one prediction, its metrics, what is uncertain, how
files are read and predictions written, what a report shows. The library's tasks are one file each
beside this one; a user's own subclasses `ExampleTask` or `Task` and is passed to `learn`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

import torch
from pydantic import ConfigDict
from torch import Tensor, nn

from sparsemble.augmentations import Augmentation
from sparsemble.data import Arguments, Batches, Inputs, Scaling
from sparsemble.data.fingerprints import fingerprint
from sparsemble.errors import InputError
from sparsemble.pages.blocks import Section
from sparsemble.settings import Settings
from sparsemble.tasks.forms import Form, Values
from sparsemble.tasks.scoring import Score
from sparsemble.tasks.uncertainty import Uncertainty
from sparsemble.tasks.views import View


@dataclass(frozen=True)
class Metric:
    """One column of a task's tables."""

    key: str
    title: str
    style: str = ".4f"
    """As `format` takes it; a percentage is shown without its sign, which the title has."""
    better: Literal["lower", "higher", "neither"] = "lower"
    shown: bool = True
    """In tables of results; a report and `evaluate` show all."""

    @property
    def factor(self) -> float:
        """What a value is multiplied by before it is shown."""
        return 100.0 if self.style.endswith("%") else 1.0

    @property
    def name(self) -> str:
        """The title as it stands in a sentence, without its unit.

        >>> Metric("error", "Error %").name, Metric("nll", "NLL").name
        ('error', 'NLL')
        """
        plain = self.title.removesuffix("%").rstrip(" ,")
        return plain if plain.isupper() else plain[:1].lower() + plain[1:]

    def text(self, value: float | None) -> str:
        """The value as tables show it.

        >>> Metric("error", "Error %", ".2%").text(0.0305)
        '3.05'
        """
        return "–" if value is None else format(value, self.style).rstrip("%")


class Forward:
    """A network as a task calls it; the default carries nothing from batch to batch."""

    def __init__(self, network: Callable[..., Any]) -> None:
        self.network = network

    def __call__(self, inputs: Any) -> Tensor:
        """The network's outputs for a tensor, or for several as `Arguments`."""
        several = isinstance(inputs, Arguments)
        outputs: Tensor = inputs.given_to(self.network) if several else self.network(inputs)
        return outputs

    def reset(self) -> None:
        """Forget what was carried, as at the beginning of an epoch or of a text."""
        return

    def state(self) -> dict[str, Tensor]:
        """What the next batch depends on besides the weights."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from `state()`."""
        return

    shares_state: ClassVar[bool] = False
    """Is the state made of inputs alone, so that all members have the same?"""

    def beginning(self, inputs: Any) -> dict[str, Tensor]:
        """The state before the first of such inputs, as `state()` would give it: zeros, or none of
        what was read."""
        return {}


def takes_examples(task: Task) -> bool:
    """Does a task call networks with nothing but a batch, example by example?

    Only then may several be computed as one: what else a task gives them, a stack would not get.
    """
    return type(task.forward(nn.Identity())) is Forward


@dataclass(frozen=True)
class Evaluation:
    """Data with known answers, in the order they are read; `batches` makes them anew each time."""

    name: str
    count: int
    """How many answers there are; 0 of a file, whose length only reading shows."""
    batches: Callable[[], Iterable[tuple[Inputs, Tensor]]]
    data: Any = None
    """What it was made of."""
    seen: bool = False
    """Are the members trained on it?"""
    reference: Mapping[str, float] | None = None
    notes: Sequence[str] = ()
    """What the user should know; what only reading shows is there after the last batch."""
    weights: Tensor | None = None
    """How much each example counts where settings and members are chosen."""
    streams: int = 1
    """Equally long pieces, which are read side by side: so many of its batches' answers in a row
    are from one piece each."""

    def fingerprint(self) -> str:
        """What identifies the data."""
        return fingerprint(own for batch in self.batches() for own in batch)

    def in_order(self, values: Tensor) -> Tensor:
        """What batches have given for every answer, in the order of the data."""
        length = -(-len(values) // self.streams)
        places = torch.arange(length * self.streams).view(self.streams, length).t()
        ordered = torch.empty_like(values)
        ordered[places[places < len(values)].to(values.device)] = values
        return ordered


class Training(Protocol):
    """Training data that a task has checked."""

    @property
    def task(self) -> Task:
        """The task, completed by what the data say: classes, names, scaling, vocabulary."""
        ...

    def batches(self, batch_size: int) -> Batches:
        """The data in mini-batches."""
        ...

    def fingerprint(self) -> str:
        """What identifies the data."""
        ...

    def watched(self) -> Evaluation | None:
        """Examples to watch the growing ensemble on, if any are at hand."""
        ...

    def usual_batch_size(self) -> int:
        """How many examples, or streams, a mini-batch has if nobody says."""
        ...

    def judged(self) -> Evaluation | None:
        """What settings may be chosen on: validation data, which nothing was trained on."""
        ...


class Predictor(Protocol):
    """What a task needs of an ensemble."""

    def __len__(self) -> int: ...

    @property
    def task(self) -> Task:
        """What its members predict."""
        ...

    def runner(self) -> Callable[..., Tensor]:
        """All members on the same inputs, from a state of their own."""
        ...

    def evidence(self, inputs: Any, feature_names: Sequence[str] | None = None) -> Tensor:
        """What each member predicts for raw inputs."""
        ...


@dataclass(frozen=True)
class Answer:
    """Predictions for a file or some rows of it, as a program reads them and as people do."""

    value: Any
    """Of rows a list of records."""
    written: Callable[[], str]

    @property
    def text(self) -> str:
        """For people, and for tables."""
        return self.written()


@dataclass(frozen=True)
class Continued:
    """A text that was gone on with."""

    words: tuple[str, ...]
    """What was drawn."""
    text: str
    """All of it, lines apart."""
    unknown: int
    """How many of the words it began with are not known."""


class Task(Settings, ABC):
    """What is predicted and how good it is."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    noun: ClassVar[str] = "networks"
    """What members are called: classifiers, regressors."""
    metrics: ClassVar[tuple[Metric, ...]]
    """The one table of metrics; the first one decides."""
    log_score: ClassVar[str] = "nll"
    """The metric by which settings are chosen: one that a true prediction minimises."""
    block: ClassVar[int] = 1
    """How many neighbouring answers depend on each other, and are drawn again together."""
    report_part: ClassVar[str] = "test"
    """The part of the data that a report looks at closely."""
    networks: ClassVar[str] = ""
    """What networks take and return, where that is not inputs and outputs."""
    batch_dim: ClassVar[int] = 0
    """The dimension of inputs that counts examples."""

    def __eq__(self, other: object) -> bool:
        """By value, scalings too: modules by themselves are only equal to themselves."""
        if not isinstance(other, Task) or type(self) is not type(other):
            return NotImplemented
        if self.model_dump() != other.model_dump():
            return False
        pairs = zip(self.scalings.values(), other.scalings.values(), strict=True)
        return all(mine.same_as(theirs) for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash((type(self), self.model_dump_json()))

    # What comes in

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """Is this the task that data of such a kind are for, if the user names none?"""
        return False

    @abstractmethod
    def training(
        self,
        data: Any,
        *,
        seed: int = 0,
        outputs: int | None = None,
        num_data: int | None = None,
        validation: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> Training:
        """Check training data.

        Args:
            data: As the user gave them.
            seed: Of the order in which they are seen.
            outputs: How many outputs the network has, if there is one already.
            num_data: The N of the posterior, where data do not know it.
            validation: Data to watch the growing ensemble on.
            dtype: The network's own.
        """

    def hold_out(self, data: Any, share: float, most: int, seed: int) -> tuple[Any, Any]:
        """Training data less a share of them, and that share as validation data.

        Data that bring a validation part of their own stay whole, beside `None`.

        Args:
            data: As the user gave them.
            share: How much is set aside,
            most: but no more examples than these.
            seed: Says which.
        """
        return data, None

    def scaled(self, data: Any) -> Any:
        """Training data with a scaling that brings their inputs to a usual size, unless they have
        one."""
        return data

    @abstractmethod
    def inputs(
        self, values: Any, feature_names: Sequence[str] | None = None, source: str = "the inputs"
    ) -> Inputs:
        """Raw inputs that fit; errors name the `source`."""

    def arranged(self, values: Any, source: str = "the inputs") -> Inputs:
        """Inputs that are known to fit, as a network takes them."""
        inputs: Inputs = values
        return inputs

    @abstractmethod
    def evaluation(self, data: Any, name: str = "the data") -> Evaluation:
        """Data with known answers, checked."""

    def held(self, data: Any) -> Evaluation:
        """The same, of data that may have been checked before."""
        return data if isinstance(data, Evaluation) else self.evaluation(data)

    @abstractmethod
    def evaluation_from(
        self, source: str, part: str, folder: Path | None, **options: Any
    ) -> Evaluation:
        """Data with known answers from a file or by the name of a data set."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """How many inputs the data have, and how many outputs a network for them."""

    @property
    def is_per_example(self) -> bool:
        """Has an example one target, rather than one for each of its positions?"""
        return True

    @property
    def outputs(self) -> int:
        """How many numbers a prepared network returns for one example."""
        return self.sizes[1]

    def for_outputs(self, outputs: int | None) -> Self:
        """The task for a network of so many outputs, where the data say nothing."""
        return self

    def for_inputs(self, inputs: int) -> Self:
        """The task for networks that read so many numbers, where the data say nothing."""
        return self

    scaling_fields: ClassVar[Mapping[str, str]] = {}
    """What is scaled, and the field that says how: such fields are buffers of the ensemble."""

    @property
    def scalings(self) -> dict[str, Scaling]:
        """How each is scaled."""
        return {name: getattr(self, field) for name, field in self.scaling_fields.items()}

    @property
    def scaled_shapes(self) -> dict[str, tuple[int, ...] | None]:
        """Of what each scaling is applied to, for one example, as far as that is known."""
        return dict.fromkeys(self.scaling_fields)

    def scaled_by(self, scalings: Mapping[str, Scaling]) -> Self:
        """The same task with other scalings."""
        update = {field: scalings[name] for name, field in self.scaling_fields.items()}
        return self.model_copy(update=update)

    def prepared(self, network: nn.Module) -> nn.Module:
        """The network with what this task adds to it."""
        return network

    def augmentation(self, given: Augmentation) -> Augmentation:
        """An augmentation with what this task knows about its inputs."""
        return given

    def outputs_for(self, network: nn.Module, data: Any) -> int | None:
        """How many outputs a network has, where data do not say by themselves what they need.

        Args:
            network: What is to be traced.
            data: What it will learn from.
        """
        return None

    def for_network(self, network: nn.Module, training: Training) -> Self:
        """The task as a network of any kind needs it, where the data alone do not say.

        Args:
            network: What is to be traced.
            training: What it will learn from.
        """
        return self

    def check(self, network: nn.Module, example: Any) -> None:
        """Raise `InputError` if the network's outputs are not what this task reads."""
        return

    # What comes out

    def forward(self, network: Callable[..., Any]) -> Forward:
        """The network as it is called for this task."""
        return Forward(network)

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch; of `(members, batch, …)` outputs one for each member."""

    def taught_loss(self, outputs: Tensor, prediction: Tensor) -> Tensor:
        """The mean loss to expect if the truth were drawn from a mixed prediction, as of `loss`."""
        raise InputError(
            f"{type(self).__name__} does not say how to learn from predictions (taught_loss): take "
            "retrain.targets = 'labels'"
        )

    def taught_part(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """What is learned of a mixed prediction: nothing where targets do not count."""
        return prediction

    def examples_in(self, targets: Tensor) -> int:
        """How many examples a batch with these targets has: one forward pass each."""
        return len(targets)

    def weight(self, targets: Tensor) -> float:
        """How much the mean loss of a batch counts beside that of another one."""
        return float(len(targets))

    def part(
        self, inputs: Inputs, targets: Tensor, bounds: Callable[[int], tuple[int, int]]
    ) -> tuple[Inputs, Tensor]:
        """Some examples of a batch; `bounds` says which of so many."""
        first, last = bounds(len(targets))
        return inputs[first:last], targets[first:last]

    def guess(self, batches: Batches) -> float:
        """The loss of knowing nothing: the scale by which a chain is judged to diverge."""
        return 1.0

    def loss_figure(self, loss: float, batches: Batches) -> tuple[str, float]:
        """A name and a number by which people read a training loss."""
        return "loss", loss

    @abstractmethod
    def evidence(self, outputs: Tensor, targets: Tensor | None = None) -> Tensor:
        """What mixing needs of a member's outputs; with targets, what scoring needs of them."""

    @abstractmethod
    def mix(self, evidence: Tensor) -> Tensor:
        """The members' prediction together, from `(members, …)`."""

    def is_usable(self, evidence: Tensor) -> Tensor:
        """Which numbers of the evidence say anything: finite ones."""
        return evidence.isfinite()

    def probabilities(self, prediction: Tensor) -> Tensor:
        """Of every class, where there are classes."""
        raise InputError(f"{self.noun} give no probabilities of classes: use predict or predictive")

    def decide(self, prediction: Tensor) -> Tensor:
        """The one answer that stands for a prediction."""
        return prediction

    def uncertainty(self, evidence: Tensor) -> Uncertainty:
        """How uncertain the members' prediction is, and how much of it they disagree about."""
        raise InputError(f"{type(self).__name__} does not say how uncertain predictions are")

    def exported(self, evidence: Tensor, *, members: bool = False) -> dict[str, Tensor]:
        """What a deployed ensemble returns, by name, from the members' evidence.

        Args:
            evidence: Of every member, `(members, …)`.
            members: Also what each of them predicts?
        """
        each = {"members": evidence} if members else {}
        return {"prediction": self.mix(evidence), **each}

    def made_up(self, count: int, length: int) -> Inputs | None:
        """So many examples of inputs at random, where the task alone knows what they are like."""
        return None

    # How good it is

    @abstractmethod
    def statistics(self, prediction: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Numbers per example whose means the metrics are made of, `(examples, …)` each."""

    def figures(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        """The metrics, from the means of the statistics."""
        return {key: float(mean) for key, mean in means.items()}

    def diversity(self, evidence: Tensor) -> Tensor:
        """How differently the members predict each example."""
        return evidence.new_zeros(evidence.shape[1])

    def diversity_text(self, diversity: float, where: str) -> str:
        """The mean diversity in words."""
        return f"the members differ by {diversity:.2g} on the {where}"

    def marginal(self, training: Any, targets: Tensor) -> Tensor | None:
        """The evidence of a member that knows how frequent targets are, and no inputs."""
        return None

    def too_alike(self, score: Score) -> bool:
        """Does averaging the members gain next to nothing?"""
        key = self.metrics[0].key
        return score.of_a_member(key) < 1.01 * score[key]

    def margin(self, own: Score, other: Score) -> float:
        """How far the first metric of two must lie apart to tell anything."""
        return 0.005 * abs(other[self.metrics[0].key])

    # Questions and answers, row by row

    def form(self) -> Form:
        """How people ask for a prediction."""
        return Values("[]")

    def asked(self, rows: Sequence[Any], source: str = "the rows") -> list[Inputs]:
        """Rows of a request, plain values of JSON, as inputs that fit, in their order.

        Rows that a network can compute at once are one of them.

        Args:
            rows: One for each example, in the way that `form` says.
            source: Where they come from, for messages.
        """
        return [self.inputs(list(rows), None, source)]

    def answered(self, ensemble: Predictor, inputs: Inputs) -> Tensor:
        """What each member predicts for inputs that `asked` gave, `(members, examples, …)`."""
        return ensemble.evidence(inputs)

    def rows(self, evidence: Tensor) -> list[dict[str, Any]]:
        """One flat record per example, for CSV and JSON."""
        answers = self.decide(self.mix(evidence)).tolist()
        return [{"prediction": answer} for answer in answers]

    def views(self, evidence: Tensor) -> list[View]:
        """The members' prediction together for each example, as people look at it."""
        return [View(", ".join(map(str, row.values()))) for row in self.rows(evidence)]

    def agreement(self, evidence: Tensor) -> list[str]:
        """How far the members agree about each example, in words; none if that is not measured."""
        differ = self.diversity(evidence).tolist()
        return [self.diversity_text(own, "row") if own else "" for own in differ]

    def continued(
        self, ensemble: Predictor, text: str, words: int, *, temperature: float, seed: int
    ) -> Continued:
        """A text gone on with, where texts are predicted.

        Args:
            ensemble: Whose task it is.
            text: How it begins.
            words: How many are drawn.
            temperature: Below 1 the probable words are preferred.
            seed: The same seed draws the same words.
        """
        raise InputError(f"{self.noun} do not go on with a text: ask them to predict rows")

    def about_unseen(self, unseen: str) -> Self:
        """The task with another answer to what it has not seen: refuse it, or ignore it."""
        raise InputError(f"unseen = {unseen!r} is for ensembles that were learned from a table")

    # Files and reports

    @abstractmethod
    def predict_file(self, ensemble: Predictor, path: Path, **options: Any) -> Iterator[Answer]:
        """Predictions for the inputs in a file or a pipe, as they are computed.

        Lists, and texts, go on from one to the next.
        """

    def sections(self, ensemble: Predictor, evaluation: Evaluation, seed: int) -> Iterator[Section]:
        """What a report shows about predictions."""
        return iter(())
