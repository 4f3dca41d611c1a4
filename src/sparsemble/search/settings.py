"""What every search says: the recipe that is varied, and the validation data it is measured on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from sparsemble.errors import InputError
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.settings import Settings


class SearchSettings(Settings):
    """A recipe, and what it is measured on."""

    recipe: str
    validation: Annotated[int, Field(ge=1)] | None = None
    """Training examples to measure on; a text has a validation part of its own."""

    def measured_on_validation(self) -> dict[str, Any]:
        """The changes that make the recipe measure on validation data."""
        data = self.base().data
        fields = () if data is None else type(data).model_fields
        if self.validation is not None:
            if "validation" not in fields:
                raise InputError("validation is for examples: a text has a validation part")
            return {"data.validation": self.validation}
        if "measure" not in fields:
            raise InputError("validation is missing: say how many training examples to measure on")
        return {"data.measure": "validation"}

    @staticmethod
    def refuse_own(keys: Iterable[str]) -> None:
        """Refuse to vary what the search itself says."""
        for key in keys:
            if key in ("data.validation", "data.measure"):
                raise ValueError(f"{key}: a search says itself what it is measured on (validation)")

    def base(self, changes: Mapping[str, Any] | None = None) -> Recipe:
        """The recipe that is varied."""
        return load_recipe(self.recipe, changes)
