"""The page on searching: its files say what they should."""

from __future__ import annotations

import re
from pathlib import Path

from sparsemble.search.search import read_search

ROOT = Path(__file__).parents[2]


def test_searches_in_the_documentation_can_be_read(tmp_path):
    texts = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "search.md").read_text(), re.S)
    files = [tmp_path / "grid.toml", tmp_path / "space.toml", ROOT / "examples" / "space.toml"]
    for file, text in zip(files, texts, strict=False):
        file.write_text(text)
    grid, *spaces = map(read_search, files)
    assert len(list(grid.points())) == 4
    for space in spaces:
        space.check()
        assert space.objectives == ("quality", "flops")
