"""What docs/tables.md shows is what is found, and its example runs."""

import re
from pathlib import Path

import pytest

import sparsemble

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tables.md").read_text()


def test_the_pages_sentences_are_those_of_the_example():
    people = sparsemble.read_table(ROOT / "examples" / "people.csv", target="income")
    assert "```\n" + "\n".join(people.found) + "\n```" in PAGE


@pytest.mark.slow
@pytest.mark.usefixtures("short_plans")
def test_the_pages_example_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict = {}
    exec(compile(code, "tables.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("income: to be predicted, 2 classes")
    assert printed[-1].endswith("('high', 'low')")
    assert names["learned"].dense is not None


def test_the_invented_people_are_those_of_the_script():
    names: dict = {}
    exec((ROOT / "examples" / "people.py").read_text(), names)
    rows = [names["HEADER"], *names["people"]()]
    written = "\n".join(",".join(map(str, row)) for row in rows) + "\n"
    assert (ROOT / "examples" / "people.csv").read_text() == written
