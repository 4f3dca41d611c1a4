"""Do processes of a cluster compute what this one would?"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from sparsemble.errors import InputError

_COMPARED = ("sparsemble", "torch")


def versions() -> dict[str, str]:
    """What the bits of a result depend on."""
    return {name: _version(name) for name in _COMPARED}


def check_versions(asked: dict[str, str], where: str) -> None:
    """Refuse to work for somebody who has other versions."""
    for name, wanted in asked.items():
        own = _version(name)
        if own != wanted:
            raise InputError(
                f"{where} has {name} {own}, and {wanted} is asked for: results would not be the "
                f"same; install {name}=={wanted} there"
            )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
