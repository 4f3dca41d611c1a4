"""Disk space: how much a run can take, said and checked before it begins."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from sparsemble.errors import InputError
from sparsemble.members import Stack
from sparsemble.memory import bytes_of
from sparsemble.recipes import Recipe
from sparsemble.samplers import SamplerSettings

_STATES = 2 * 3
"""A checkpoint holds up to three, and is written whole before it replaces the one before."""


def disk_needed(network: nn.Module, recipe: Recipe, steps_per_epoch: int) -> int:
    """The most bytes a run's folder can grow to: samples, checkpoints, the members
    as pruned, the ensemble twice."""
    weights = bytes_of(network)
    chain = recipe.chain
    samples = chain.chains * len(chain.steps_to_collect(steps_per_epoch))
    state = 1 + (chain.collection == "means") + _buffers(chain.sampler)
    needed = (samples + chain.chains * _STATES * state) * weights
    sparsity = recipe.prune.sparsity if recipe.prune is not None else None
    kept = 1.0 if sparsity is None else 2 * (1 - sparsity)
    needed += round((2 if recipe.prune is None else 3) * samples * weights * min(kept, 1.0))
    if recipe.retrain is not None:
        # Members are retrained with the zeros of their compact matrices.
        at_once = samples if Stack.fits([network]) else 1
        needed += (samples + _STATES * at_once) * weights
    return needed


def _buffers(sampler: SamplerSettings) -> int:
    """How many numbers a sampler keeps for every weight."""
    weight = torch.zeros(1)
    weight.grad = torch.zeros(1)
    made = sampler.build([weight], lr=0.0, num_data=1, seed=0)
    made.step()
    return len(made.state[weight])


def check_disk(folder: Path, samples: Path, needed: int) -> None:
    """Raise `InputError` if the disk has less than a run, with its samples, may still need."""
    needed -= sum(_sizes(folder, samples).values())
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise InputError(
            f"{folder} may grow by {needed / 1e6:,.0f} MB, but the disk has only "
            f"{free / 1e6:,.0f} MB left; free some, or choose another folder"
        )


def _sizes(*folders: Path) -> dict[Path, int]:
    """Of every file in the folders, but for runs that are beside."""
    sizes = {}
    for folder in folders:
        for file in folder.rglob("*"):
            if not {"baseline", "small"} & set(file.relative_to(folder).parts):
                with suppress(FileNotFoundError):  # what was just replaced
                    sizes[file] = file.stat().st_size if file.is_file() else 0
    return sizes
