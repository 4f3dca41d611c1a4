"""Text files are UTF-8 whatever the system's language is: nobody leaves that to Python."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "paper").rglob("*.py")])


def left_to_python(source: str) -> list[int]:
    """The lines where a text file is opened without saying how it is encoded."""
    return [node.lineno for node in ast.walk(ast.parse(source)) if _opens_text(node)]


def _opens_text(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    said = {keyword.arg for keyword in node.keywords}
    modes = [own.value for own in node.args if isinstance(own, ast.Constant)]
    if "encoding" in said or any("b" in str(mode) for mode in modes):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "open"
    if not isinstance(node.func, ast.Attribute):
        return False
    # The method of a path takes a mode; of others, as of an archive, the first argument is a name.
    is_path = len(modes) == len(node.args)
    return node.func.attr == "read_text" or (node.func.attr == "open" and is_path)


def test_every_text_file_is_read_and_written_as_utf8():
    found = {file: left_to_python(file.read_text(encoding="utf-8")) for file in SOURCES}
    assert {str(file.relative_to(ROOT)): lines for file, lines in found.items() if lines} == {}


def test_what_is_left_to_python_is_found():
    bad = 'path.read_text()\nopen(name)\npath.open()\npath.open("a")\n'
    good = 'open(name, "rb")\npath.read_text(encoding="utf-8")\narchive.open(name)\n'
    assert left_to_python(bad + good) == [1, 2, 3, 4]
