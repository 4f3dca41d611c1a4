"""What a `torchrun` of two processes does for `test_team`: digests of runs, one a line.

With the name of a file it does more, and writes predictions there.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from small_runs import KillAt, Killed, examples, recipe
from sparsemble.errors import InputError
from sparsemble.learning import Learned, learn
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.results.running import ingredients_of
from sparsemble.runs import checkpointing
from sparsemble.team import is_first

TEXT = {
    **{"chain.epochs": 2, "chain.burn_in": 0, "chain.interval": 1, "chain.batch_size": 20},
    **{"retrain.epochs": 1, "retrain.batch_size": 20, "prune.sparsity": 0.3},
    **{"network.hidden": [6, 6], "network.dropout": 0.2, "data.portion": 0.1},
}


def network() -> nn.Module:
    """With everything that a process could do in its own way: dropout and statistics."""
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 3)
    )


def plain() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3)).double()


def short() -> Recipe:
    """Two members after 72 steps."""
    chain = recipe().chain.model_copy(update={"epochs": 6, "burn_in": 2, "interval": 2})
    retrain = recipe().retrain.model_copy(update={"epochs": 2})
    return recipe(chain=chain, retrain=retrain)


def text_run(**how: Any) -> Learned:
    given = ingredients_of(load_recipe("grammar", TEXT))
    data = given.split.train
    return learn(given.network, data, given.recipe, task=given.task, layout=given.layout, **how)


def example_run(**how: Any) -> Learned:
    return learn(network, examples(), short(), **how)


def digest(learned: Learned) -> str:
    tensors = [t for member in learned.ensemble for t in member.network.state_dict().values()]
    text = b"".join(tensor.numpy().tobytes() for tensor in tensors)
    return hashlib.sha256(text).hexdigest()


def say(name: str, what: str) -> None:
    """On one line, whichever process says it."""
    sys.stdout.write(f"{name} {int(not is_first())} {what}\n")
    sys.stdout.flush()


def main() -> None:
    arrays = examples()
    for name, run in (("examples", example_run), ("text", text_run)):
        say(name, digest(run()))
        if len(sys.argv) == 1:
            continue
        with tempfile.TemporaryDirectory() as folder:
            checkpointing.CHECKPOINT_EVERY = 0.0
            with suppress(Killed):
                run(folder=folder, callback=KillAt("chain", 30))
            checkpointing.CHECKPOINT_EVERY = 45.0
            say(f"{name}-resumed", digest(run(folder=folder)))
    if len(sys.argv) == 1:
        return
    torch.manual_seed(int(not is_first()))
    try:
        learn(nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3)), arrays, short())
    except InputError as error:
        say("refused", str(error).replace(" ", "_"))
    wide = (torch.tensor(arrays[0]).double(), torch.tensor(arrays[1]))
    learned = learn(plain, wide, short())
    if is_first():
        torch.save(torch.tensor(learned.ensemble.predict_proba(wide[0])), Path(sys.argv[1]))


if __name__ == "__main__":
    main()
