"""One thread, one seed, one hypothesis profile: results depend on neither machine nor order."""

import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import hypothesis
import numpy as np
import pytest

# Of networks as small as those here, what torch remembers of the shapes of results takes longer to
# note down than to find again: tracing takes half as long without. Read where torch is imported.
os.environ.setdefault("TORCH_FAKE_TENSOR_DISPATCH_CACHE", "0")

import torch

from scenarios import CLASSES, NUMBERS, TEXT
from small_runs import examples
from sparsemble.cli.main import main
from sparsemble.engines.processes import Processes
from sparsemble.learning import planning
from sparsemble.recipes import builtin_names, load_recipe, recipe_toml
from sparsemble.results.running import run_recipe

hypothesis.settings.register_profile(
    "specification",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # the machine may be busy
)
hypothesis.settings.load_profile("specification")
torch.set_num_threads(1)
# So have the processes that tests start: two threads that wait for each other on a busy processor
# do so by turning in circles, and take ten times as long as one.
os.environ["OMP_NUM_THREADS"] = "1"
# Ray's processes give way to all others: beside other tests they would hardly get on.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112

_LONGEST = (
    "test_engines.py",
    "test_zoo_is_exact.py",
    "test_onnx_files.py",
    "test_planning.py",
    "test_team.py",
    "test_scikit_learn.py",
    "test_traced_runs.py",
)
"""Files that take longest, by their names."""


def pytest_configure(config: pytest.Config) -> None:
    # `posteriors` declares its states in a way that its own dependency deprecates.
    config.addinivalue_line("filterwarnings", "ignore:The Tensor default:FutureWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process is left alone with it in the end."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def denormals() -> Iterator[None]:
    """What a command asks of its process, to flush denormal floats, is not for other tests."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def short_recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in recipes, those of the small data sets with a tenth of their epochs."""
    folder = tmp_path_factory.mktemp("recipes")
    for name in builtin_names():
        text = recipe_toml(name)
        if name.startswith(("digits", "diabetes")):
            tenth = r"^(epochs|burn_in|interval) = (\d+)0$"
            text = re.sub(tenth, r"\1 = \2", text, flags=re.MULTILINE)
        (folder / f"{name}.toml").write_text(text)
    return folder


@pytest.fixture(scope="session")
def short_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a text that is read and measured in a moment: words that follow no rule."""
    folder, chance = tmp_path_factory.mktemp("short"), random.Random(0)
    for part, sentences in (("train", 300), ("valid", 30), ("test", 30)):
        lines = [" ".join(chance.choices("abcdefghij", k=5)) for _ in range(sentences)]
        (folder / f"{part}.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="session")
def class_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of classifiers; look at it, change only copies."""
    folder = tmp_path_factory.mktemp("classes") / "run"
    run_recipe(load_recipe("digits", CLASSES), folder)
    return folder


@pytest.fixture(scope="session")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of language models."""
    folder = tmp_path_factory.mktemp("text") / "run"
    run_recipe(load_recipe("grammar", TEXT), folder)
    return folder


@pytest.fixture(scope="session")
def number_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of regressors."""
    folder = tmp_path_factory.mktemp("numbers") / "run"
    run_recipe(load_recipe("digits", NUMBERS), folder)
    return folder


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs `sparsemble` in this process; gives exit code, output and what was said beside it."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["sparsemble", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        torch.set_flush_denormal(False)  # a process of its own would begin so
        said = capsys.readouterr()
        return stop.value.code, said.out, said.err

    return run


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Two processes for jobs, which start when they are first needed."""
    with Processes(2) as engine:
        yield engine


@pytest.fixture
def one_process_beside(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs are compared with is trained by a process that is started once for all of them."""
    monkeypatch.setattr("sparsemble.results.beside.Processes", lambda count: nullcontext(processes))


@pytest.fixture
def short_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings for a budget are found by few and short trials, and are those of short chains."""
    monkeypatch.setattr(planning, "_LADDER", (0.1, 0.3))
    monkeypatch.setattr(planning, "_RATES", (0.1, 0.3))
    monkeypatch.setattr(planning, "_NOISES", (0.3, 1.0))
    monkeypatch.setattr(planning, "_FEWEST_STEPS", 20)
    monkeypatch.setattr(planning, "_MOST_STEPS", 20)
    monkeypatch.setattr(planning, "_SPLITS", 2)
    monkeypatch.setattr(planning.Planner, "_length", lambda self: 8)


@pytest.fixture(scope="session")
def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a small problem."""
    return examples()
