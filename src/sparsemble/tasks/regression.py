"""Regression: numbers, each predicted as a mixture of the members' normal laws.

A member gives mean and variance of every target. The variance is one that the network learns for
all inputs (`noise = "learned"`), or one that it predicts for each (`"predicted"`). Targets are
standardised for the network and predictions undone, so that rates and priors mean the same for any
unit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from torch import Tensor, nn

from sparsemble.data import Batches, Dataset, Inputs, Scaling
from sparsemble.data.dataset import About
from sparsemble.data.rows import Rows
from sparsemble.data.targets import as_numbers
from sparsemble.errors import InputError
from sparsemble.nets.gaussian_noise import GaussianNoise
from sparsemble.pages.blocks import Section
from sparsemble.programs import Program
from sparsemble.settings import Names
from sparsemble.tasks.examples import ExampleTask
from sparsemble.tasks.mixtures import Mixture
from sparsemble.tasks.scoring import Score
from sparsemble.tasks.task import Evaluation, Metric, Predictor
from sparsemble.tasks.uncertainty import Uncertainty
from sparsemble.tasks.views import View, share, short, view_of_intervals

LEVELS = (0.5, 0.9, 0.95)
"""Of the intervals that are checked."""
_LEAST = -10.0
"""The logarithm of the least variance, that of the standardised targets being 1."""


class Regression(ExampleTask):
    """Gaussian likelihood; members' laws are mixed, not only their means.

    >>> Regression(target_names=("price",), num_targets=1).outputs
    2
    """

    kind: Literal["regression"] = "regression"
    noise: Literal["learned", "predicted"] = "learned"
    """One variance for all inputs, or a predicted one for each."""
    target_names: Names | None = None
    """What the numbers are called; found in the data unless given."""
    num_targets: SkipJsonSchema[int | None] = None
    """How many there are; found in the data."""
    target_scaling: SkipJsonSchema[Scaling] = Field(
        default_factory=Scaling.none, exclude=True, repr=False
    )

    scaling_fields: ClassVar[Mapping[str, str]] = {
        "inputs": "scaling",
        "targets": "target_scaling",
    }
    noun: ClassVar[str] = "regressors"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("rmse", "RMSE", ".4g"),
        Metric("nll", "NLL", ".4f"),
        Metric("crps", "CRPS", ".4g"),
        Metric("mae", "MAE", ".4g", shown=False),
        *(
            metric
            for level in LEVELS
            for metric in (
                Metric(
                    f"coverage_{100 * level:.0f}",
                    f"Within {level:.0%} interval, %",
                    ".1%",
                    "neither",
                    shown=level == 0.9,
                ),
                Metric(
                    f"width_{100 * level:.0f}",
                    f"Width of {level:.0%} interval",
                    ".4g",
                    shown=False,
                ),
            )
        ),
    )

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """A `Dataset` without classes."""
        return isinstance(data, Dataset) and data.class_names is None

    @property
    def scaled_shapes(self) -> dict[str, tuple[int, ...] | None]:
        """So have targets."""
        count = self.num_targets
        return {**super().scaled_shapes, "targets": None if count is None else (count,)}

    @property
    def sizes(self) -> tuple[int, int]:
        """Features, and one output per target, or two if the variance is predicted."""
        targets = self.num_targets or 0
        per_target = 2 if self.noise == "predicted" else 1
        return torch.Size(self.input_shape or (0,)).numel(), per_target * targets

    @property
    def outputs(self) -> int:
        """Mean and logarithm of the variance of every target."""
        return 2 * (self.num_targets or 0)

    @property
    def names(self) -> tuple[str, ...]:
        """What the targets are called."""
        count = self.num_targets or 1
        return self.target_names or tuple(f"target_{k}" for k in range(1, count + 1))

    def prepared(self, network: nn.Module) -> nn.Module:
        """A network of means gets the noise as one more layer."""
        if self.noise == "predicted" or _ends_in_noise(network) or isinstance(network, Program):
            return network  # a program was prepared before it was traced
        if type(network) is nn.Linear:
            network = nn.Sequential(network)
        if type(network) is not nn.Sequential:
            raise InputError(
                f"a {type(network).__name__} learns the noise of {self.num_targets} targets if it "
                f"ends in sparsemble.nets.GaussianNoise({self.num_targets}): add that layer, "
                "or ask for noise='predicted'"
            )
        weight = next(network.parameters())
        noise = GaussianNoise(self.num_targets or 1).to(weight.device, weight.dtype)
        return nn.Sequential(OrderedDict([*network.named_children(), ("noise", noise)]))

    # Targets

    def dataset(self, inputs: Any, targets: Any, about: About, source: str) -> Dataset:
        """Numbers, one or several per example."""
        if about.class_names is not None:
            raise InputError(
                f"{source}: has classes; to predict those ask for task=Classification()"
            )
        names = about.target_names or self.target_names
        return super().dataset(inputs, targets, replace(about, target_names=names), source)

    def checked_targets(self, targets: Any, source: str) -> Tensor:
        """The numbers of a batch."""
        numbers = as_numbers(targets, source)
        if self.num_targets is not None and numbers.shape[1] != self.num_targets:
            raise InputError(
                f"{source}: {numbers.shape[1]} targets per example, not {self.num_targets}"
            )
        return numbers

    def completed(self, data: Dataset, outputs: int | None) -> Self:
        """With the number, names and scale of the data's targets."""
        if len(data) < 2:
            raise InputError("the data hold one example: a regression needs at least two")
        names = data.target_names
        if self.target_names is not None and names != self.target_names:
            raise InputError(f"the task has target_names = {self.target_names}, the data {names}")
        return self._for_targets(data.targets, names)._with_outputs(outputs)

    def _for_targets(self, targets: Tensor, names: tuple[str, ...] | None) -> Self:
        constant = (targets.amax(0) == targets.amin(0)).nonzero().flatten().tolist()
        if constant:
            which = names[constant[0]] if names else f"target {constant[0] + 1}"
            raise InputError(
                f"{which} is {float(targets[0, constant[0]]):g} for every example: there is "
                "nothing to predict"
            )
        count = targets.shape[1]
        if self.num_targets not in (None, count) or (names is not None and len(names) != count):
            wanted = self.num_targets or len(names or ())
            raise InputError(f"the task has {wanted} targets, the data {count}")
        return self.model_copy(
            update={
                "num_targets": count,
                "target_names": names,
                "target_scaling": Scaling.standard(targets),
            }
        )

    def _with_outputs(self, outputs: int | None) -> Self:
        wanted = self.sizes[1]
        if outputs is not None and outputs != wanted:
            each = "a mean and a log variance each" if self.noise == "predicted" else "one each"
            other = "learned" if self.noise == "predicted" else "predicted"
            fits = outputs == len(self.names) * (1 if other == "learned" else 2)
            hint = f"; ask for Regression(noise={other!r})" if fits else ""
            raise InputError(
                f"{len(self.names)} target{'s' * (len(self.names) > 1)}, {outputs} outputs of the "
                f"network: it needs {wanted}, {each}{hint}"
            )
        return self

    def for_outputs(self, outputs: int | None) -> Self:
        """A loader's targets are as many as the network's outputs allow."""
        if outputs is None:
            raise InputError("a data loader's targets are not known before there is a network")
        count = outputs // 2 if self.noise == "predicted" else outputs
        return self.model_copy(update={"num_targets": count})._with_outputs(outputs)

    def for_batches(self, batches: Batches) -> Self:
        """The scale of a loader's targets: by one pass over them."""
        targets = torch.cat([targets for _, targets in batches.epoch(0)])
        return super().for_batches(batches)._for_targets(targets, self.target_names)

    def known_targets(self, data: Dataset, source: str) -> Tensor:
        """As many targets as were learned, by name where both sides have names."""
        targets, known, own = data.targets, self.target_names, data.target_names
        if known and own and own != known:
            missing = [name for name in known if name not in own]
            if missing:
                raise InputError(f"{source}: target {missing[0]!r} is missing")
            targets = targets[:, [own.index(name) for name in known]]
        return self.checked_targets(targets, source)

    @property
    def targets_in_files(self) -> tuple[str, ...]:
        """The names of the targets."""
        return self.names

    def labelled(self, inputs: Inputs, rows: Rows, source: str) -> Dataset:
        """Targets of a file: numbers, which a CSV file holds as text."""
        assert rows.labels is not None
        try:
            numbers = rows.labels.astype(float)
        except ValueError as error:
            raise InputError(f"{source}: the labels are no numbers ({error})") from None
        return super().labelled(inputs, replace(rows, labels=numbers), source)

    # Predictions

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean negative log-density of the standardised targets, summed over them."""
        means, logs = self._parts(outputs)
        away = (self.target_scaling(targets).to(means) - means).square()
        return _expected(away, logs)

    def taught_loss(self, outputs: Tensor, prediction: Tensor) -> Tensor:
        """The same of targets with the predicted mean and variance."""
        means, logs = self._parts(outputs)
        law, scale = self.mixture(prediction), self.target_scaling
        away = (scale(law.mean).to(means) - means).square()
        variance = law.variance * scale.factor.to(law.variance).square()
        return _expected(away + variance.to(means), logs)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        means, logs = outputs.chunk(2, dim=-1)
        return means, logs.clamp_min(_LEAST)

    def guess(self, batches: Batches) -> float:
        """Mean 0 and variance 1 for every target."""
        return (math.log(2 * math.pi) + 1) / 2 * (self.num_targets or 1)

    def evidence(self, outputs: Tensor, targets: Tensor | None = None) -> Tensor:
        """Means, then variances, in the targets' own units and double precision."""
        means, logs = self._parts(outputs.double())
        scale = self.target_scaling
        return torch.cat([scale.undo(means), scale.undo_variance(logs.exp())], dim=-1)

    def mix(self, evidence: Tensor) -> Tensor:
        """All members' laws, `(examples, members, 2·targets)`: the parts of a mixture."""
        return evidence.movedim(0, 1)

    def mixture(self, prediction: Tensor) -> Mixture:
        """A mixed prediction as a law."""
        return Mixture(*prediction.chunk(2, dim=-1))

    def decide(self, prediction: Tensor) -> Tensor:
        """The mean; of a single target one number per example."""
        return self._plain(self.mixture(prediction).mean)

    def _plain(self, values: Tensor) -> Tensor:
        return values.squeeze(-1) if self.num_targets == 1 else values

    def uncertainty(self, evidence: Tensor) -> Uncertainty:
        """Variances: the whole, and that of the members' means."""
        law = self.mixture(self.mix(evidence))
        return Uncertainty(self._plain(law.variance), self._plain(law.epistemic))

    def exported(self, evidence: Tensor, *, members: bool = False) -> dict[str, Tensor]:
        """The mixture's mean and standard deviation, and the part of it that the members disagree
        about, `(examples, targets)`; each member's own mean and deviation."""
        law = self.mixture(self.mix(evidence))
        named = {
            "mean": law.mean,
            "standard_deviation": law.variance.sqrt(),
            "epistemic_standard_deviation": law.epistemic.sqrt(),
        }
        if not members:
            return named
        means, variances = evidence.chunk(2, dim=-1)
        return named | {"member_means": means, "member_standard_deviations": variances.sqrt()}

    # Metrics

    def statistics(self, prediction: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Squared and absolute errors, scores of the law, and what its intervals hold."""
        law, truth = self.mixture(prediction), targets.to(prediction)
        away = truth - law.mean
        statistics = {
            "rmse": away.square().mean(-1),
            "mae": away.abs().mean(-1),
            "nll": -law.log_density(truth),
            "crps": law.crps(truth).mean(-1),
        }
        place = (law.cdf(truth) - 0.5).abs()
        ends = law.quantiles([(1 + side * level) / 2 for side in (-1, 1) for level in LEVELS])
        for level, low, high in zip(LEVELS, *ends.chunk(2), strict=True):
            statistics[f"coverage_{100 * level:.0f}"] = (place <= level / 2).to(truth).mean(-1)
            statistics[f"width_{100 * level:.0f}"] = (high - low).mean(-1)
        return statistics

    def figures(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        """The root of the mean squared error, and the others as they are."""
        return super().figures({**means, "rmse": means["rmse"].sqrt()})

    def diversity(self, evidence: Tensor) -> Tensor:
        """The share of the variance that comes from the members' different means."""
        law = self.mixture(self.mix(evidence))
        return (law.epistemic / law.variance).mean(-1)

    def diversity_text(self, diversity: float, where: str) -> str:
        """As a share of the variance."""
        return (
            f"the members' different means make {100 * diversity:.2f} % of the predicted variance "
            f"on the {where}"
        )

    def margin(self, own: Score, other: Score) -> float:
        """Two standard errors of a difference, as if measured on different examples."""
        return 2 * max(own["rmse"], other["rmse"]) / math.sqrt(max(own.count, 1))

    def marginal(self, training: Any, targets: Tensor) -> Tensor | None:
        """The mean and the variance of the training targets."""
        if not isinstance(training, Dataset):
            return None
        known = training.targets.double()
        law = torch.cat([known.mean(0), known.var(0, correction=0)])
        return law.expand(1, len(targets), -1)

    # Files and reports

    def rows(self, evidence: Tensor) -> list[dict[str, Any]]:
        """Mean, standard deviation and 90 % interval of every target."""
        law = self.mixture(self.mix(evidence))
        low, high = law.interval(0.9)
        columns = {
            "mean": law.mean,
            "standard_deviation": law.variance.sqrt(),
            "low_90": low,
            "high_90": high,
        }
        several = len(self.names) > 1
        named = {
            f"{target}_{column}" if several else column: values[:, number].tolist()
            for number, target in enumerate(self.names)
            for column, values in columns.items()
        }
        return [dict(zip(named, own, strict=True)) for own in zip(*named.values(), strict=True)]

    def views(self, evidence: Tensor) -> list[View]:
        """The means, and bars of the intervals that hold nine of ten."""
        law = self.mixture(self.mix(evidence))
        low, high = law.interval(0.9)
        columns = zip(law.mean.tolist(), low.tolist(), high.tolist(), strict=True)
        return [view_of_intervals(self.names, *own) for own in columns]

    def agreement(self, evidence: Tensor) -> list[str]:
        """How far apart the members' means are, and what that is of the variance."""
        if len(evidence) == 1:
            return ["there is only one member"] * evidence.shape[1]
        means = evidence.chunk(2, dim=-1)[0]
        ends = zip(means.amin(0)[:, 0].tolist(), means.amax(0)[:, 0].tolist(), strict=True)
        law = self.mixture(self.mix(evidence))
        parts = (law.epistemic / law.variance)[:, 0].tolist()
        return [
            f"the members' means of {self.names[0]} lie between {short(low)} and {short(high)}: "
            f"of the predicted variance {share(much)} is their disagreement"
            for (low, high), much in zip(ends, parts, strict=True)
        ]

    def sections(self, ensemble: Predictor, evaluation: Evaluation, seed: int) -> Iterator[Section]:
        """Predicted against true, calibration of intervals, residuals."""
        from sparsemble.tasks.sections.regression import sections

        return sections(self, ensemble, evaluation)


def _expected(squares: Tensor, logs: Tensor) -> Tensor:
    """The mean of `−log N(y; m, e^logs)` where `(y − m)²` is `squares` on average."""
    each = 0.5 * (squares * (-logs).exp() + logs + math.log(2 * math.pi))
    loss: Tensor = each.sum(-1).mean(-1)
    return loss


def _ends_in_noise(network: nn.Module) -> bool:
    *_, last = network.modules()
    return isinstance(last, GaussianNoise)
