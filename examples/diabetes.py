"""How far a disease goes in a year: a sparse ensemble beside dense networks and scikit-learn's.

Five-fold cross-validation over all 442 patients of the diabetes data; every method is scored on
patients it has not learned from. Settings of the two recipes were found on 66 of the 332 training
patients (paper/searches/diabetes.toml); the other two methods choose theirs inside every fold. A
method of scikit-learn gives one number, whose law is taken to be normal with the variance of its
training residuals.

From the folder above, with scikit-learn installed: python examples/diabetes.py
"""

from collections.abc import Iterator

import numpy as np
import torch
from rich.console import Console
from scipy.stats import norm
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsemble import Ensemble, Scaling, as_dataset, learn, load_recipe
from sparsemble.data import diabetes
from sparsemble.results.tables import Table, mean_and_deviation

FOLDS, SEED = 5, 0
METRICS = ("rmse", "nll", "crps")


def learned(name: str, inputs: np.ndarray, targets: np.ndarray) -> Ensemble:
    """The ensemble that a built-in recipe learns."""
    recipe = load_recipe(name)
    scaling = Scaling.standard(torch.tensor(inputs))
    data = as_dataset(inputs, targets, numeric=True, scaling=scaling)
    sizes = recipe.task.training(data).task.sizes
    return learn(lambda: recipe.network.build(*sizes), data, recipe).ensemble


def ridge() -> RidgeCV:
    """Ridge regression, its penalty by cross-validation."""
    return make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-2, 3, 21)))


def network() -> GridSearchCV:
    """A network of the same shape by scikit-learn, its penalty and rate by cross-validation."""
    one = MLPRegressor(
        hidden_layer_sizes=(64, 64), max_iter=1000, early_stopping=True, random_state=SEED
    )
    scaled = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), one), transformer=StandardScaler()
    )
    key = "regressor__mlpregressor__"
    grid = {f"{key}alpha": [1e-3, 0.1, 1, 10], f"{key}learning_rate_init": [1e-3, 1e-2]}
    return GridSearchCV(scaled, grid, cv=5)


def normal_scores(
    means: np.ndarray, deviation: float, targets: np.ndarray
) -> tuple[float, float, float]:
    """RMSE, and NLL and CRPS of normal laws with these means."""
    away = (targets - means) / deviation
    crps = away * (2 * norm.cdf(away) - 1) + 2 * norm.pdf(away) - 1 / np.sqrt(np.pi)
    nll = -norm.logpdf(targets, means, deviation)
    return np.sqrt(np.mean((targets - means) ** 2)), nll.mean(), deviation * crps.mean()


def fold_scores(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
) -> Iterator[tuple[str, tuple[float, ...], str]]:
    """Every method with its scores on a fold, and its parameters."""
    for name, method in (("Ridge regression", ridge()), ("MLPRegressor", network())):
        method.fit(*train)
        deviation = np.std(train[1] - method.predict(train[0]))
        yield name, normal_scores(method.predict(test[0]), deviation, test[1]), "–"
    dense = learned("diabetes-sgd-ensemble", *train)
    score = dense.evaluate(test)
    yield "One dense network", tuple(map(score.of_a_member, METRICS)), "1.00×"
    yield "Five dense networks", tuple(score[key] for key in METRICS), "5.00×"
    ours = learned("diabetes", *train)
    score = ours.evaluate(test)
    parameters = f"{ours.cost.parameters_ratio:.2f}×"
    yield "Sparse ensemble", tuple(score[key] for key in METRICS), parameters


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)  # networks this small only lose by sharing their work
    parts = diabetes()
    inputs = torch.cat([part.inputs for part in parts]).numpy()
    targets = torch.cat([part.targets for part in parts]).squeeze(1).numpy()
    found: dict[str, list[tuple[float, ...]]] = {}
    sizes: dict[str, str] = {}
    for train, test in KFold(FOLDS, shuffle=True, random_state=SEED).split(inputs):
        fold = fold_scores((inputs[train], targets[train]), (inputs[test], targets[test]))
        for name, scores, sizes[name] in fold:
            found.setdefault(name, []).append(scores)
    rows = tuple(
        (name, *map(mean_and_deviation, zip(*scores, strict=True)), sizes[name])
        for name, scores in found.items()
    )
    title = f"Diabetes: mean ± standard deviation over {FOLDS} folds"
    Console().print(Table(title, ("", "RMSE", "NLL", "CRPS", "Parameters"), rows))


if __name__ == "__main__":
    main()
