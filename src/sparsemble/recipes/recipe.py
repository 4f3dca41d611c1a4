"""What a recipe holds. Each section is the settings of one part, so limits are written there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import torch
from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from sparsemble.devices import in_bfloat16
from sparsemble.errors import InputError
from sparsemble.extensions import PATTERN, import_path, imported
from sparsemble.priors import AnyPrior, NoPrior
from sparsemble.recipes.data import DataSettings
from sparsemble.recipes.networks import AnyNetwork
from sparsemble.settings import Seed, Settings
from sparsemble.stages import ChainSettings, PruneSettings, RetrainSettings
from sparsemble.structure import GROUPINGS, Grouping
from sparsemble.tasks import AnyTask

_CODE = ("kind", "loader", "factory", "schedule", "grouping")
"""Settings that may name code of the user's own."""


def _grouping(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value in GROUPINGS):
        return value
    if isinstance(value, str) and ":" in value:
        value = imported(value)
    if not callable(value):
        raise InputError(
            f"grouping {value!r} is not one of {', '.join(GROUPINGS)}, nor a function of a layout"
        )
    return value


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


if TYPE_CHECKING:
    AnyGrouping = str | Grouping
else:
    AnyGrouping = Annotated[
        Any,
        PlainValidator(_grouping),
        PlainSerializer(lambda value: import_path(value) if callable(value) else value),
        WithJsonSchema({"enum": list(GROUPINGS)}),
    ]


class Recipe(Settings):
    """One run of the method: task, prior, chain, pruning, retraining; data and network by name.

    Without `prune` the members stay dense, without `retrain` they stay as sampled. `data` and
    `network` are only for runs from the command line.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")] = "recipe"
    """What runs and tables call it; by default the name of its file."""
    description: str = ""
    """One line about it."""
    baseline: Annotated[str | None, BeforeValidator(_number_as_text)] = None
    """What `learn` also trains, to compare with: so many dense networks (by default 1), `small` for
    small ones of the ensemble's cost besides, `none`, or a built-in recipe."""
    seed: Seed = 0
    """Everything random follows from it."""
    data: DataSettings | None = None
    network: AnyNetwork | None = None
    task: AnyTask | None = None
    grouping: AnyGrouping | None = None
    """Which weights form a group; by default what the paper uses for the network."""
    prior: AnyPrior = NoPrior()
    chain: ChainSettings
    prune: PruneSettings | None = None
    retrain: RetrainSettings | None = None
    choose: bool = False
    """Choose on validation data how many members to spend the budget of `prune` on, and whether to
    retrain them; without `prune`, which one sample to take."""

    @model_validator(mode="after")
    def _can_choose(self) -> Self:
        how = self.prune
        if self.choose and how is not None and (how.sparsity is not None or how.per != "ensemble"):
            raise ValueError(
                "choose = true needs a budget of all members together: prune.flops, "
                "prune.parameters or prune.bytes"
            )
        if self.choose and how is None and self.retrain is not None:
            raise ValueError(
                "choose = true without [prune] takes one sample as it is: leave [retrain] out"
            )
        if how is not None and how.latency is not None and not self.choose:
            raise ValueError(f"prune.latency = {how.latency:g} needs choose = true")
        return self

    @model_validator(mode="after")
    def _rounds_are_trained(self) -> Self:
        if self.prune is not None and self.prune.steps > 1 and self.retrain is None:
            raise ValueError(
                f"prune.steps = {self.prune.steps} needs a [retrain] section: it says how members "
                "are trained between rounds"
            )
        return self

    def on(self, device: torch.device) -> Recipe:
        """The same, with all that depends on the device decided."""
        stages = {"chain": self.chain, "retrain": self.retrain}
        settled = {
            name: stage.model_copy(update={"autocast": in_bfloat16(stage.autocast, device)})
            for name, stage in stages.items()
            if stage is not None
        }
        return self.model_copy(update=settled)

    def is_same_run(self, other: Recipe) -> bool:
        """Would both learn the same, however it is described and whatever it is compared with?"""
        words = {"description": other.description, "baseline": other.baseline}
        return self.model_copy(update=words) == other

    def differing(self, other: Recipe) -> list[str]:
        """The settings in which a run of this one differs from one of another, in words."""
        own, its = (_flat(r.model_dump(mode="json")) for r in (self, other))
        names = [
            name
            for name in dict.fromkeys((*own, *its))
            if own.get(name) != its.get(name) and name not in ("description", "baseline")
        ]
        return [f"{name} = {own.get(name)}, not {its.get(name)}" for name in names]

    @property
    def in_short(self) -> str:
        """The settings that matter most, in one line."""
        chain = self.chain
        found = [f"learning rate {chain.schedule(0):.3g}"]
        found.append(f"temperature {chain.sampler.temperature:.2g}")
        found.append(f"penalty {self.prior.group_penalty:.2g}")
        found.append(f"batches of {chain.batch_size}, {chain.epochs} epochs at most")
        return ", ".join(found)

    @property
    def code(self) -> tuple[str, ...]:
        """Import paths of the user's own code that the recipe names."""
        return tuple(dict.fromkeys(named_code(self.model_dump(mode="json"))))

    @property
    def files(self) -> tuple[Path, ...]:
        """Files and folders of the user's that its data are read from."""
        return () if self.data is None else self.data.places


def named_code(fields: Any, key: str = "") -> Iterator[str]:
    """The import paths among a recipe's fields."""
    if isinstance(fields, dict):
        for name, value in fields.items():
            yield from named_code(value, name)
    elif isinstance(fields, list):
        for value in fields:
            yield from named_code(value, key)
    elif key in _CODE and isinstance(fields, str) and re.match(PATTERN, fields):
        yield fields


def _flat(fields: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings of settings, by their whole names."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        inner = _flat(value, f"{before}{name}.") if isinstance(value, dict) else None
        found |= inner or {f"{before}{name}": value}
    return found
