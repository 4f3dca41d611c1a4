"""Arguments of ready-made networks, checked where they enter."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sparsemble.errors import InputError


def check_sizes(**sizes: int | Sequence[int]) -> None:
    """Raise `InputError` unless every size, or every one of a list of sizes, is at least 1."""
    for name, given in sizes.items():
        several = isinstance(given, Sequence)
        listed = given if isinstance(given, Sequence) else [given]
        if not listed or not all(isinstance(size, int) and size > 0 for size in listed):
            wanted = "one or more positive integers" if several else "a positive integer"
            raise InputError(f"{name} = {given!r}: must be {wanted}")


def check_shares(**shares: float) -> None:
    """Raise `InputError` unless every share is at least 0 and below 1."""
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise InputError(f"{name} = {share}: must be at least 0 and below 1")


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise `InputError` unless the value is one of the choices."""
    if value not in choices:
        raise InputError(f"{name} = {value!r} is not one of {', '.join(choices)}")
