"""What `import sparsemble` shows: loaded when it is used, and told to type checkers."""

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import sparsemble

FOLDER = Path(sparsemble.__file__).parent
PACKAGES = {path.stem for path in FOLDER.glob("[!_]*") if path.suffix in ("", ".py")}


def test_every_public_name_is_there():
    for name in sparsemble.__all__:
        assert getattr(sparsemble, name).__module__.startswith("sparsemble.")


def test_every_public_name_has_a_place_in_the_reference():
    page = (FOLDER.parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
    listed = {line.split(".")[-1] for line in page.splitlines() if line.startswith(":::")}
    assert {name for name in sparsemble.__all__ if name not in listed} <= {
        "DivergedError",  # with the other errors, as their module
        "InputError",
        "SparsembleError",
    }


def test_the_version_is_that_of_the_installed_distribution():
    assert sparsemble.__version__ == version("sparsemble")


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'sparsemble' has no attribute 'lern'"):
        _ = sparsemble.lern


@pytest.mark.slow
def test_every_package_is_an_attribute_without_an_import_of_its_own():
    script = "import sys, sparsemble; [getattr(sparsemble, name) for name in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", script, *PACKAGES], check=True)
    assert set(dir(sparsemble)) == {*sparsemble.__all__, *PACKAGES}


def test_type_checkers_are_told_the_same_names():
    tree = ast.parse((FOLDER / "__init__.py").read_text())
    told = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # otherwise it is not exported
    }
    names = {name for module, name in told if module != "sparsemble"}
    assert names == set(sparsemble.__all__)
    assert {name for module, name in told if module == "sparsemble"} == PACKAGES
    assert (FOLDER / "py.typed").is_file()
