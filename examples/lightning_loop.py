"""A loop of Lightning's: the module's optimiser is a sampler, a callback hangs the rest on it.

What was collected is part of Lightning's checkpoints. The samples are retrained by the library.
From the folder above, with `lightning` installed: python examples/lightning_loop.py
"""

from typing import Any

import lightning as L
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sparsemble
from sparsemble.priors import GroupSparse
from sparsemble.samplers import SGLD, Exponential
from sparsemble.stages import PruneSettings, RetrainSettings

PRIOR = GroupSparse(penalty=2e-4)
EPOCHS, BURN_IN, INTERVAL = 30, 10, 10
RETRAIN = RetrainSettings(schedule=Exponential(lr=0.1, factor=1.3), epochs=10, batch_size=32)
QUIET = dict.fromkeys(["logger", "enable_progress_bar", "enable_checkpointing"], False)


class Digits(L.LightningModule):
    """As any module of Lightning's; only the optimiser is another."""

    def __init__(self, num_data: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 16, 3, padding=1),
            nn.GELU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 16, 64),
            nn.GELU(),
            nn.Linear(64, 10),
        )
        self.num_data = num_data

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        """The mean loss of a batch."""
        inputs, targets = batch
        return F.cross_entropy(self.network(inputs), targets)

    def configure_optimizers(self) -> SGLD:
        """A sampler."""
        return SGLD(self.parameters(), lr=0.2, num_data=self.num_data, temperature=0.01)


class Sampling(L.Callback):
    """Prior and collector on the module's optimiser, once it is where it is trained."""

    def __init__(self, traced: sparsemble.Traced, **how: int) -> None:
        self.traced, self.how = traced, how
        self.collector: sparsemble.Collector | None = None
        self._saved: dict[str, Any] | None = None

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Attach both, and go on from a checkpoint if there is one."""
        (sampler,) = trainer.optimizers
        sparsemble.attach_prior(PRIOR, module.network, self.traced, sampler)
        self.collector = sparsemble.Collector(module.network, self.traced, sampler, **self.how)
        if self._saved is not None:
            self.collector.load_state_dict(self._saved)

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {} if self.collector is None else self.collector.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From one: there is no optimiser yet."""
        self._saved = state


def learn(data: sparsemble.Dataset) -> sparsemble.Ensemble:
    """An ensemble for the price of one network."""
    inputs = data.scaled()
    loader = DataLoader(TensorDataset(inputs, data.targets), batch_size=32, shuffle=True)
    module = Digits(len(data))
    traced = sparsemble.describe(module.network, inputs[:2])
    sampling = Sampling(traced, burn_in=BURN_IN * len(loader), interval=INTERVAL * len(loader))
    trainer = L.Trainer(max_epochs=EPOCHS, callbacks=[sampling], **QUIET)
    trainer.fit(module, loader)
    return sparsemble.assemble(
        sampling.collector,
        data,
        prune=PruneSettings(flops=1.0, parameters=0.7),
        retrain=RETRAIN,
        prior=PRIOR,
    )


def main() -> None:
    """Learn the digits, and say how well."""
    L.seed_everything(0)
    train, test = sparsemble.digits()
    ensemble = learn(train)
    print(ensemble.evaluate(test))
    print(f"{len(ensemble)} members, {ensemble.cost.flops_ratio:.2f}× the FLOPs of one network")


if __name__ == "__main__":
    main()
