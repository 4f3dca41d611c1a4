"""The documentation's pages: every block of Python runs, every command can be typed, links lead on.

Blocks of one page run one after the other, as a reader would run them.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from sparsemble.cli import main  # which registers the commands
from sparsemble.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
ELSEWHERE = {"deploying.md", "extending.md", "networks.md", "serving.md", "tables.md"}
"""Pages whose blocks other tests run."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


WITH_CODE = [p for p in PAGES if blocks(p, "python") and p.name not in ELSEWHERE]
COMMANDS = [
    (page.name, line)
    for page in PAGES
    for block in blocks(page, "sh")
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("sparsemble ")
]


LONG = {"budgets", "clusters", "scikit-learn"}
"""Pages whose examples learn many times."""
WITH_EPOCHS = {"start", "tasks"}
"""Pages that ask for other lengths than those of recipes."""


def shortened(code: str) -> str:
    """Code that asks for a tenth of the epochs."""
    return re.sub(r'("chain\.(?:epochs|burn_in|interval)": \d+)0\b', r"\1", code)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=pytest.mark.thorough if page.stem in LONG else ())
        for page in WITH_CODE
    ],
)
@pytest.mark.parametrize(
    "short", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["short", "as printed"]
)
def test_the_pages_code_runs(
    page: Path, short: bool, short_recipes: Path, request, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    if short:
        request.getfixturevalue("short_plans")
        monkeypatch.setattr("sparsemble.recipes.files._BUILTIN", short_recipes)
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    names: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks(page, "python"), 1):
        code = shortened(block) if short and page.stem in WITH_EPOCHS else block
        exec(compile(code, f"{page.name}, block {number}", "exec"), names)
    capsys.readouterr()


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda text: text[:60])
def test_the_pages_commands_can_be_typed(page: str, line: str) -> None:
    assert main
    command = typer.main.get_command(app)
    _, *words = shlex.split(line, comments=True)
    context = command.make_context("sparsemble", list(words), resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        _, command, words = command.resolve_command(context, words)
        context = command.make_context(command.name, list(words), parent=context)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    root = DOCS.parent
    build(load_config(str(root / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True))
    written = {path.parent.name for path in (tmp_path / "site").rglob("index.html")}
    assert {page.stem for page in PAGES} - {"index"} <= written
    for file in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(r'<(?:script|link|img)[^>]+="(https?:[^"]+)"', file.read_text())
        assert not fetched, file  # from elsewhere
