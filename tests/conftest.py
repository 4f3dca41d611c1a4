"""One thread, one seed, one hypothesis profile: results depend on neither machine nor order."""

from collections.abc import Callable, Iterator

import hypothesis
import pytest
import torch

from sparsemble.cli.app import main

hypothesis.settings.register_profile(
    "specification",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # the machine may be busy
)
hypothesis.settings.load_profile("specification")
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    # `posteriors` declares its states in a way that its own dependency deprecates.
    config.addinivalue_line("filterwarnings", "ignore:The Tensor default:FutureWarning")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def denormals() -> Iterator[None]:
    """What a command asks of its process, to flush denormal floats, is not for other tests."""
    yield
    torch.set_flush_denormal(False)


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
