"""The skeletons of docs/extending.md: each is one file, named in a recipe or given to learn."""

import re
import sys
from pathlib import Path

import pytest
import torch

import sparsemble
from scenarios import assert_close_in_law
from sparsemble.augmentations import FunctionAugmentation, Several, checked
from sparsemble.layouts import layout_of
from sparsemble.recipes import load_recipe

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
FILES = {
    block.split("\n", 1)[0].removeprefix("# "): block for block in BLOCKS if block.startswith("# ")
}
QUICK = {
    "chain.chains": 1,
    "chain.epochs": 2,
    "chain.interval": 2,
    "retrain.epochs": 1,
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The page's files in the folder where the user stands."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in FILES:  # another test's file may have the same name
        sys.modules.pop(name.removesuffix(".py"), None)


def learned(changes):
    train, _ = sparsemble.digits()
    recipe = load_recipe("digits", {**QUICK, **changes})
    return sparsemble.learn(
        lambda: sparsemble.feedforward(64, [12], 10), train, recipe, folder="run"
    )


def test_every_kind_of_extension_has_a_file_on_the_page():
    assert set(FILES) == {
        "student.py",
        "clipped.py",
        "warm.py",
        "contrast.py",
        "narrow.py",
        "counts.py",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"prior.kind": "student:Student", "prior.penalty": 1e-4, "prior.scale": 0.1},
        {"chain.sampler.kind": "clipped:ClippedSettings", "chain.sampler.temperature": 1e-5},
        {"chain.schedule": "warm:warm_up"},
        {"chain.schedule.kind": "warm:WarmUp", "chain.schedule.lr": 0.1},
        {"grouping": "narrow:hidden_only"},
    ],
    ids=["prior", "sampler", "schedule function", "schedule", "grouping"],
)
def test_a_recipe_that_names_it_is_learned_and_found_again(files, changes):
    first = learned(changes)
    again = learned(changes)  # the folder is read, and its recipe is the same one
    assert len(again.ensemble) == 1
    assert sum(record.stage == "chain" for record in first.history.epochs) == 2


def test_the_priors_gradient_is_that_of_its_value(files):
    from student import Student

    network = sparsemble.feedforward(4, [5], 3).double()
    weights = dict(network.named_parameters())
    bound = Student(penalty=0.3, scale=0.7).bind(layout_of(network), weights)
    gradients = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    with torch.no_grad():
        bound.add_gradient(gradients)
    bound.value().backward()
    for name in layout_of(network).weights:
        torch.testing.assert_close(gradients[name], weights[name].grad)


def test_the_sampler_at_temperature_zero_is_clipped_descent(files):
    from clipped import Clipped

    theta = torch.nn.Parameter(torch.tensor([3.0, -0.2]))
    sampler = Clipped([theta], lr=0.5, num_data=10, temperature=0.0, limit=1.0)
    (0.5 * theta.square().sum()).backward()
    sampler.step()
    assert theta.tolist() == pytest.approx([2.5, -0.1])


def test_the_augmentation_multiplies_every_example_by_a_number_of_its_own(files):
    from contrast import Contrast

    inputs = torch.rand(1000, 5) + 1
    checked(Contrast(most=0.3), inputs)
    factors = Contrast(most=0.3)(inputs) / inputs
    torch.testing.assert_close(factors, factors[:, :1].expand(1000, 5))
    assert_close_in_law(factors[:, 0], mean=1.0, variance=0.3**2 / 3, excess_kurtosis=-6 / 5)


def test_the_augmentation_that_is_a_function_mirrors_about_half_of_the_images(files):
    from contrast import mirrored

    inputs = torch.rand(1000, 3, 4, 4)
    checked(FunctionAugmentation(function=mirrored), inputs)
    found = mirrored(inputs)
    turned = (found == inputs.flip(-1)).flatten(1).all(1)
    assert torch.equal(found[~turned], inputs[~turned])
    assert abs(int(turned.sum()) - 500) < 5 * (1000 * 0.25) ** 0.5


@pytest.mark.parametrize("named", ["contrast:mirrored", {"kind": "contrast:Contrast", "most": 0.1}])
def test_the_augmentations_are_found_by_their_names(files, named):
    found = Several(parts=[named])
    assert Several(**found.model_dump()) == found


def test_the_grouping_leaves_the_inputs_alone(files):
    from narrow import hidden_only

    layout = layout_of(sparsemble.feedforward(4, [5, 6], 3), hidden_only)
    assert [family.name for family in layout.families] == ["outgoing hidden1", "outgoing hidden2"]


def test_the_tasks_example_runs_as_it_stands(files):
    example = BLOCKS[-1]
    exec(compile(example, str(PAGE), "exec"), {})
    assert Path("counts-ensemble/manifest.json").exists()
