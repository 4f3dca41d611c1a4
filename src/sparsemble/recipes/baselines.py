"""What an ensemble is compared with, as recipes: dense networks, if not something of its own."""

from __future__ import annotations

from sparsemble.errors import InputError
from sparsemble.recipes.files import builtin_names, load_recipe
from sparsemble.recipes.networks import NetworkSettings
from sparsemble.recipes.recipe import Recipe
from sparsemble.samplers import Cyclical, SamplerSettings, SGLDSettings

_DIGITS = 4
"""Of a number of dense networks."""
_FALLS = 4
"""How often the rate falls if a network is chosen on validation data,"""
_GROWTH = 2
"""how many times as long every fall is as the one before,"""
_LAST = 0.02
"""and the share of the rate that is left at its end."""


def baseline_of(recipe: Recipe) -> Recipe | None:
    """The recipe that one is compared with, on the same data and with the same seed.

    By default that is one dense network, unless the recipe itself trains such. What it names
    instead is a built-in recipe: run folders name it, too, and must not name a file of anyone's.
    """
    asked = recipe.baseline
    if asked == "none" or (asked is None and is_dense(recipe)):
        return None
    if asked == "small" and recipe.network is not None:
        recipe.network.narrowed(1.0)  # if that can be
    if asked is None or asked == "small":
        return dense_recipe(recipe)
    if asked.isdecimal() and len(asked) <= _DIGITS and int(asked) > 0:
        return dense_recipe(recipe, int(asked))
    if asked not in builtin_names():
        raise InputError(
            f"baseline = {asked!r} is neither none, small, a number of dense networks, nor a "
            "built-in recipe"
        )
    baseline = load_recipe(asked, {"seed": recipe.seed})
    return baseline.model_copy(update={"data": recipe.data})


def is_dense(recipe: Recipe) -> bool:
    """Does a recipe itself train dense networks, with neither noise nor pruning?"""
    return recipe.prune is None and recipe.chain.sampler.temperature == 0


def dense_recipe(recipe: Recipe, networks: int = 1) -> Recipe:
    """Dense networks by SGD: the same data, perturbations and passes, at a falling rate.

    If the recipe chooses members on validation data, so does this: the rate falls to nearly nothing
    several times, each time more slowly, at the end of each fall there is a finished network, and
    the one is taken that does best. None is trained for too long, which for some data is early,
    and none is caught at a high rate.
    """
    chain = recipe.chain
    falls = _FALLS if recipe.choose else 1
    first = chain.epochs * (_GROWTH - 1) / (_GROWTH**falls - 1)
    highest = max(chain.schedule(epoch) for epoch in range(chain.epochs + 1))
    return Recipe(
        name="dense",
        description=f"Dense networks, to compare {recipe.name} with",
        seed=recipe.seed,
        data=recipe.data,
        network=recipe.network,
        task=recipe.task,
        chain=chain.model_copy(
            update={
                "sampler": _without_noise(chain.sampler),
                "schedule": Cyclical(lr=highest, period=first, growth=_GROWTH, floor=_LAST),
                "collection": "cycles",
                "every": 1,
                "prior_step": "gradient",
                "burn_in": 0,
                "samples": None,
                "patience": None,
                "shed_after": None,
                "chains": networks,
            }
        ),
        choose=recipe.choose,
    )


def _without_noise(sampler: SamplerSettings) -> SamplerSettings:
    """What is left of a sampler at temperature 0: SGD, or with its preconditioner or momentum."""
    if isinstance(sampler, SGLDSettings):
        return SGLDSettings(temperature=0.0)
    return sampler.model_copy(update={"temperature": 0.0})


def small_recipe(recipe: Recipe, network: NetworkSettings, networks: int) -> Recipe:
    """Small dense networks, trained as those of full size are."""
    dense = dense_recipe(recipe, networks)
    about = f"Small dense networks of the cost of {recipe.name}"
    return dense.model_copy(update={"name": "small", "description": about, "network": network})
