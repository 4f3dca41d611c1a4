"""What the package needs is said once: the oldest versions that are tested are those it allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = ("dev", "docs")
APART = ("others",)
"""What brings a newer Typer along, so that the oldest one cannot be tried beside it."""


def bounds(needs: list[str]) -> dict[str, str]:
    """The lower bound of each need."""
    return dict(re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", need).groups() for need in needs)


def pins() -> dict[str, str]:
    """The versions that `make oldest` installs."""
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_oldest_versions_allowed_are_the_ones_tested():
    extras = set(EXTRAS) - {*FOR_DEVELOPERS, *APART}
    allowed = bounds(PROJECT["dependencies"])
    for extra in extras:
        allowed |= bounds(EXTRAS[extra])
    assert pins() == allowed


def test_make_oldest_installs_every_extra_that_is_tested():
    line = re.search(r"^OLDEST_EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(line[1].split(",")) == set(EXTRAS) - {*FOR_DEVELOPERS, *APART}


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"dev"}))
def test_developers_need_what_users_of_an_extra_need(extra):
    developers = bounds(EXTRAS["dev"])
    assert {name: developers.get(name) for name in bounds(EXTRAS[extra])} == bounds(EXTRAS[extra])
