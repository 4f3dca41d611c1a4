"""One thread, one seed, one hypothesis profile: results depend on neither machine nor order."""

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("specification", deadline=None, derandomize=True)
hypothesis.settings.load_profile("specification")
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    # `posteriors` declares its states in a way that its own dependency deprecates.
    config.addinivalue_line("filterwarnings", "ignore:The Tensor default:FutureWarning")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
