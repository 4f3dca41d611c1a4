"""A loop of `transformers.Trainer`: its optimiser is a sampler, a callback hangs the rest on it.

The model is built small from a configuration; nothing is downloaded. From the folder above, with
`transformers` and `accelerate` installed: python examples/trainer_callback.py
"""

import tempfile
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    Trainer,
    TrainerCallback,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

import sparsemble
from sparsemble.priors import GroupSparse
from sparsemble.samplers import PSGLD, Exponential
from sparsemble.stages import PruneSettings, RetrainSettings

PRIOR = GroupSparse(penalty=1e-4)
EPOCHS, BURN_IN, INTERVAL, SIZE = 24, 12, 6, 32
RETRAIN = RetrainSettings(schedule=Exponential(lr=0.2, factor=1.2), epochs=8, batch_size=SIZE)
SMALL = ViTConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    image_size=8,
    patch_size=2,
    num_channels=1,
    num_labels=10,
    initializer_range=0.15,
)


class Logits(nn.Module):
    """The model as members of an ensemble are called: one tensor in, one out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pictures: Tensor) -> Tensor:
        """Logits of the classes."""
        return self.model(pixel_values=pictures).logits


class Sampling(TrainerCallback):
    """Prior and collector on the optimiser, once the model is where it is trained."""

    def __init__(self, example: Tensor, **how: int) -> None:
        self.example, self.how = example, how
        self.collector: sparsemble.Collector | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Attach both."""
        network, optimizer = Logits(given["model"]), given["optimizer"]
        traced = sparsemble.describe(network, self.example)
        sparsemble.attach_prior(PRIOR, network, traced, optimizer)
        self.collector = sparsemble.Collector(network, traced, optimizer, **self.how)


def learn(pictures: Tensor, labels: Tensor) -> sparsemble.Ensemble:
    """An ensemble for the price of one network."""
    steps = -(-len(labels) // SIZE)
    model = ViTForImageClassification(SMALL)
    sampler = PSGLD(model.parameters(), lr=0.002, num_data=len(labels), temperature=0.01)
    sampling = Sampling(pictures[:2], burn_in=BURN_IN * steps, interval=INTERVAL * steps)
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=SIZE,
            lr_scheduler_type="constant",
            save_strategy="no",
            disable_tqdm=True,
        )
        data = [{"pixel_values": x, "labels": y} for x, y in zip(pictures, labels, strict=True)]
        trainer = Trainer(
            model, how, train_dataset=data, callbacks=[sampling], optimizers=(sampler, None)
        )
        trainer.train()
    return sparsemble.assemble(
        sampling.collector,
        (pictures, labels),
        prune=PruneSettings(parameters=1.0),
        retrain=RETRAIN,
        prior=PRIOR,
    )


def main() -> None:
    """Learn the digits, and say how well."""
    torch.manual_seed(0)
    train, test = ((data.scaled().view(-1, 1, 8, 8), data.targets) for data in sparsemble.digits())
    ensemble = learn(*train)
    print(ensemble.evaluate(test))
    print(
        f"{len(ensemble)} members, {ensemble.cost.parameters_ratio:.2f}× the weights of one model"
    )


if __name__ == "__main__":
    main()
