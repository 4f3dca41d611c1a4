"""What docs/networks.md shows is what is found."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()


@pytest.mark.slow
def test_the_pages_network_has_the_units_it_shows(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(code, "networks.md", "exec"), {})
    assert f"```\n{capsys.readouterr().out}```" in PAGE
