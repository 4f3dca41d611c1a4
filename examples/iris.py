"""A network and data of one's own, for examples/iris.toml."""

import torch
from sklearn.datasets import load_iris
from torch import nn

from sparsemble import Scaling, as_dataset


def flowers():
    """A training and a test set."""
    iris = load_iris()
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0)).numpy()
    inputs, targets = iris.data[order], iris.target[order]
    how = {
        "class_names": list(iris.target_names),
        "feature_names": iris.feature_names,
        "scaling": Scaling.standard(torch.tensor(inputs[:100])),
    }
    return as_dataset(inputs[:100], targets[:100], **how), as_dataset(
        inputs[100:], targets[100:], **how
    )


def network():
    """A freshly initialised network; of a kind of one's own return (network, layout)."""
    return nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
