"""A search by Optuna as settings: ranges and choices for settings, and what is to be small.

recipe = "digits-budget"
validation = 300
trials = 20
objectives = ["quality", "flops"]
[space]
"prior.penalty" = {low = 1e-6, high = 1e-3, log = true}
"chain.interval" = {low = 2, high = 10}
"grouping" = ["untied", "tied"]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictFloat, StrictInt, field_validator, model_validator

from sparsemble.errors import InputError
from sparsemble.search.settings import SearchSettings
from sparsemble.settings import Seed, Settings

Number = Annotated[StrictInt | StrictFloat, Field(allow_inf_nan=False)]
Objective = Literal["quality", "flops", "parameters", "seconds"]


class Range(Settings):
    """Numbers between two limits, which belong to them; whole numbers if both limits are."""

    low: Number
    high: Number
    log: bool = False
    """By the logarithm: from 1e-6 to 1e-3 as many below as above 3e-5."""

    @model_validator(mode="after")
    def _holds_numbers(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g} must be below high = {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"low = {self.low:g}: by the logarithm there is nothing below 0")
        return self

    @property
    def is_whole(self) -> bool:
        """Does it hold whole numbers alone?"""
        return isinstance(self.low, int) and isinstance(self.high, int)


class SpaceSearch(SearchSettings):
    """What is tried: as many points of a space as there are trials."""

    space: Annotated[dict[str, Range | list[Any]], Field(min_length=1)]
    """For every setting a range, or a list of choices."""
    trials: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    """How many points are tried."""
    objectives: tuple[Objective, ...] = ("quality",)
    """What is to be small: the loss by the task's log score (or else its first metric), FLOPs,
    parameters, seconds of training."""
    seed: Seed = 0
    """Which points are tried follows from it."""
    dense: bool = False
    """Also train one dense network, to draw it beside."""

    @field_validator("space", mode="before")
    @classmethod
    def _dimensions(cls, space: Any) -> Any:
        if not isinstance(space, dict):
            return space
        cls.refuse_own(space)
        return {key: _dimension(key, value) for key, value in space.items()}

    @field_validator("objectives")
    @classmethod
    def _quality_counts(cls, objectives: tuple[Objective, ...]) -> tuple[Objective, ...]:
        for name in objectives:
            if objectives.count(name) > 1:
                raise ValueError(f"{name!r} stands there twice")
        if "quality" not in objectives:
            raise ValueError("'quality' is missing: what costs least is to predict nothing")
        return objectives

    @property
    def costs(self) -> tuple[Objective, ...]:
        """What is to be small besides the loss."""
        return tuple(name for name in self.objectives if name != "quality")

    @property
    def fixed(self) -> dict[str, Any]:
        """Settings that have one choice: all trials share them."""
        return {key: ends(own)[0] for key, own in self.space.items() if len(ends(own)) == 1}

    @property
    def varied(self) -> list[str]:
        """The others."""
        return [key for key in self.space if key not in self.fixed]

    def check(self) -> None:
        """Refuse a setting, or an end of its range, that no recipe could have."""
        lows = {key: ends(dimension)[0] for key, dimension in self.space.items()}
        highs = {key: ends(dimension)[-1] for key, dimension in self.space.items()}
        for key, dimension in self.space.items():
            for value in ends(dimension):
                self._check_one([rest | {key: value} for rest in (self.fixed, lows, highs)])

    def _check_one(self, tries: list[dict[str, Any]]) -> None:
        """Refuse what is wrong with the recipe's own settings, and at either end of all others."""
        refusals, where = [], self.measured_on_validation()
        for changes in tries:
            try:
                self.base(changes | where)
            except InputError as error:
                refusals.append(error)
        if len(refusals) == len(tries):
            raise refusals[0]


def ends(dimension: Range | list[Any]) -> list[Any]:
    """What is furthest apart: the limits of a range, all choices."""
    return [dimension.low, dimension.high] if isinstance(dimension, Range) else dimension


def _dimension(key: str, value: Any) -> Range | list[Any]:
    if isinstance(value, Mapping):
        found: Range = Range.read(value, source=key)
        return found
    if not isinstance(value, list | Range) or value == []:
        raise InputError(
            f"{key} = {value!r}: write a range, {{low = 1, high = 10}}, or a list of choices"
        )
    if isinstance(value, list):
        for choice in value:
            if value.count(choice) > 1:
                raise InputError(f"{key}: the choice {choice!r} stands there twice")
    return value
