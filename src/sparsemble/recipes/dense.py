"""The dense network that an ensemble is compared with, as a recipe."""

from __future__ import annotations

from sparsemble.recipes.recipe import Recipe
from sparsemble.samplers import Cyclical, SGLDSettings

_LAST = 0.02
"""Share of the rate that is left at the end."""


def dense_recipe(recipe: Recipe) -> Recipe:
    """One dense network by SGD: the same data, perturbations and passes, at a falling rate.

    Of its snapshots the one is taken that does best on validation data, so that it is not trained
    for too long.
    """
    chain = recipe.chain
    return Recipe(
        name="dense",
        description=f"One dense network, to compare {recipe.name} with",
        seed=recipe.seed,
        data=recipe.data,
        network=recipe.network,
        task=recipe.task,
        chain=chain.model_copy(
            update={
                "sampler": SGLDSettings(temperature=0.0),
                "schedule": Cyclical(lr=chain.schedule(0), period=chain.epochs, floor=_LAST),
                "collection": "thinned",
                "every": 1,
                "prior_step": "gradient",
                "burn_in": 0,
                "patience": None,
                "chains": 1,
            }
        ),
        choose=True,
    )
