"""The dense network that an ensemble is compared with, as a recipe."""

from __future__ import annotations

from sparsemble.recipes.recipe import Recipe
from sparsemble.samplers import Cyclical, SGLDSettings

_FALLS = 4
"""How often the rate falls,"""
_LAST = 0.02
"""and the share of it that is left at the end."""


def dense_recipe(recipe: Recipe) -> Recipe:
    """One dense network by SGD: the same data, perturbations and passes, at falling rates.

    The rate falls to nearly nothing several times. At the end of each fall there is a finished
    network, and the one is taken that does best on validation data: none is trained for too long,
    and none is caught at a high rate.
    """
    chain = recipe.chain
    fall = max(chain.epochs // _FALLS, 1)
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
                "schedule": Cyclical(lr=chain.schedule(0), period=fall, floor=_LAST),
                "collection": "thinned",
                "every": 1,
                "prior_step": "gradient",
                "burn_in": 0,
                "interval": fall,
                "patience": None,
                "chains": 1,
            }
        ),
        choose=True,
    )
