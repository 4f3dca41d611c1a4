"""What a recipe names, made ready: its data, and a way to build its network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from sparsemble.data import Corpus, Dataset
from sparsemble.errors import InputError
from sparsemble.recipes import Recipe
from sparsemble.recipes.code import made_by
from sparsemble.recipes.models import CustomData, CustomNetwork, ImageData
from sparsemble.structure import Layout


@dataclass(frozen=True)
class Materials:
    """The data of a recipe as loaded, and its network's layout if the user gave one."""

    recipe: Recipe
    data: Corpus | tuple[Dataset, Dataset]
    layout: Layout | None

    @property
    def training(self) -> Corpus | Dataset:
        """What is learned from."""
        return self.data if isinstance(self.data, Corpus) else self.data[0]

    @property
    def validation(self) -> Dataset | None:
        """Examples that may be looked at on the way: those a search measures on, no test set."""
        about = self.recipe.data
        if isinstance(self.data, Corpus) or not isinstance(about, ImageData | CustomData):
            return None
        return self.data[1] if about.held_out else None

    def network(self) -> nn.Module:
        """A freshly initialised network."""
        assert self.recipe.network is not None
        return self.recipe.network.build(self.training)  # type: ignore[arg-type]


def materials_of(recipe: Recipe, data_folder: Path | None) -> Materials:
    """Load what a recipe names; this runs code of the user's own if it names some."""
    if recipe.data is None or recipe.network is None:
        raise InputError(f"recipe {recipe.name!r} has no [data] or no [network] section")
    own = recipe.network.factory if isinstance(recipe.network, CustomNetwork) else None
    layout = made_by(own)[1] if own is not None else None
    return Materials(recipe, recipe.data.load(data_folder), layout)
