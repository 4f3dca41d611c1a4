"""Nothing outside a task asks which task it is: the source is walked, and says which file does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparsemble

SOURCE = Path(sparsemble.__file__).parent
OWN = (
    "tasks/",
    "data/",
    "tables/",
    "nets/",
    "layouts/",
    "programs/",
    "tracing/",
    "recipes/data.py",
    "recipes/networks/",
    "sklearn/classifier.py",
    "sklearn/regressor.py",
    "__init__.py",
)
"""The tasks, their networks and their data, and what a user imports by name."""
NAMES = {
    "Classification",
    "Corpus",
    "LanguageModel",
    "LanguageModelling",
    "Regression",
    "TextBatches",
    "Vocabulary",
    "class_names",
    "target_names",
    "vocabulary",
}
WORDS = {
    "accuracy",
    "classification",
    "error",
    "language-modelling",
    "lstm",
    "perplexity",
    "regression",
    "rmse",
}
"""What a task, its network or its metric is called in files."""


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where code, not prose, names a task or something that only one task has."""
    for node in ast.walk(tree):
        found = None
        if isinstance(node, ast.Name):
            found = node.id
        elif isinstance(node, ast.Attribute):
            found = node.attr
        elif isinstance(node, ast.alias):
            found = node.name.rpartition(".")[2]
        elif isinstance(node, ast.Constant) and node.value in WORDS:
            yield node.lineno, node.value
        if found in NAMES:
            yield node.lineno, found


def files() -> list[str]:
    paths = (path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
    return sorted(path for path in paths if not path.startswith(OWN))


@pytest.mark.parametrize("path", files())
def test_no_file_outside_the_tasks_tells_one_task_from_another(path):
    found = [f"line {line}: {name}" for line, name in named(ast.parse((SOURCE / path).read_text()))]
    assert not found, f"{path} knows a task: {', '.join(found)}"


def test_the_walk_finds_what_it_looks_for():
    code = 'if isinstance(data, Corpus) or metric == "perplexity":\n    x = y.class_names'
    assert {name for _, name in named(ast.parse(code))} == {"Corpus", "perplexity", "class_names"}
