"""What can be changed in a recipe, as remedies with values of two significant digits.

Each is `None` for a recipe that has no such setting, or where it would change nothing.
"""

from __future__ import annotations

import math
from typing import Any

from sparsemble.learning.findings import Change, Remedy
from sparsemble.recipes import Recipe
from sparsemble.samplers import Exponential

TEMPERATURE, LR, PENALTY = "chain.sampler.temperature", "chain.schedule.lr", "prior.penalty"
RETRAIN_LR = "retrain.schedule.lr"
_NAMES = {
    TEMPERATURE: "temperature",
    LR: "learning rate",
    PENALTY: "penalty",
    RETRAIN_LR: "learning rate of the retraining",
}


def is_found(recipe: Recipe) -> bool:
    """Have trials found the settings for a budget? Then `--set` changes none of them."""
    return recipe.choose and recipe.chain.patience is not None


def scaled(recipe: Recipe, setting: str, factor: float, most: float = math.inf) -> Remedy | None:
    """One of the settings above, so many times what it is, but not above `most`."""
    before: Any = recipe
    for name in setting.split("."):
        before = getattr(before, name, None)
    if not isinstance(before, int | float):
        return None
    verb = "raise" if factor > 1 else "lower"
    after = min(two_digits(before * factor), most)
    if not (after > before if factor > 1 else after < before):
        return None
    return Remedy(f"{verb} the {_NAMES[setting]}", (Change(setting, before, after),))


def longer_burn_in(recipe: Recipe) -> Remedy:
    """Leave out half of what was sampled from, and take as many samples as before."""
    chain = recipe.chain
    later = _whole(chain.burn_in + max((chain.epochs - chain.burn_in) // 2, 1))
    epochs = later + chain.epochs - chain.burn_in
    return Remedy(
        "lengthen the burn-in",
        (
            Change("chain.burn_in", chain.burn_in, later),
            Change("chain.epochs", chain.epochs, epochs),
        ),
    )


def longer_chain(recipe: Recipe) -> Remedy:
    """Half as long again."""
    before = recipe.chain.epochs
    return Remedy(
        "lengthen the chain", (Change("chain.epochs", before, _whole(before + (before + 1) // 2)),)
    )


def more_chains(recipe: Recipe) -> Remedy | None:
    """As many samples, of twice as many chains; `None` if every sample has a chain or a
    cycle of its own."""
    chain = recipe.chain
    each = len(chain.steps_to_collect(chain.samples or 1))
    if each == 1 or chain.collection == "cycles":
        return None
    fewer = (each + 1) // 2
    changes = [Change("chain.chains", chain.chains, 2 * chain.chains)]
    if chain.samples is not None:
        changes.append(Change("chain.samples", each, fewer))
    if chain.collection != "backward":
        epochs = chain.epochs - chain.interval * (each - fewer)
        changes.append(Change("chain.epochs", chain.epochs, epochs))
    return Remedy("take fewer samples of more chains", tuple(changes))


def less_sparsity(recipe: Recipe, held: float | None = None) -> Remedy | None:
    """Prune what the prior held near zero, a share of `held`, or half as much; not to a budget."""
    before = None if recipe.prune is None else recipe.prune.sparsity
    if not before:
        return None
    wanted = held if held is not None and before / 2 <= held < before else before / 2
    after = round(1 - two_digits(1 - wanted), 9)
    if not 0 < after < before:
        return None
    return Remedy("prune less", (Change("prune.sparsity", before, after),))


def longer_retraining(recipe: Recipe) -> Remedy | None:
    """Twice as long; a rate that falls by a factor every epoch falls half as fast."""
    how = recipe.retrain
    if how is None:
        return None
    changes = [Change("retrain.epochs", how.epochs, _whole(2 * how.epochs))]
    if isinstance(how.schedule, Exponential) and how.schedule.factor > 1:
        factor = how.schedule.factor
        slower = 1 + two_digits(factor**0.5 - 1)
        changes.append(Change("retrain.schedule.factor", factor, round(slower, 9)))
    return Remedy("retrain longer", tuple(changes))


def two_digits(value: float) -> float:
    """A number that can be read and typed."""
    return float(f"{value:.2g}")


def _whole(value: int) -> int:
    """The same of a whole number, never less."""
    unit: int = 10 ** max(len(str(value)) - 2, 0)
    return -(-value // unit) * unit
