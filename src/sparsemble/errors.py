"""What can go wrong, as exceptions a caller can tell apart.

Every message names the value, where it came from and the remedy; the command line prints it as it
stands and exits with code 2 for `InputError`, 3 for `DivergedError`, 130 for `InterruptedRunError`,
1 for the others.
"""


def shortened(text: str, longest: int = 200) -> str:
    """A text for a message: a long one without its middle.

    >>> shortened("a" * 6 + "b" * 1000 + "c" * 6, longest=12)
    'aaaaaa… (1,000 more) …cccccc'
    """
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}… ({len(text) - 2 * half:,} more) …{text[-half:]}"


_LONGEST = 4000
"""Characters of a message, whatever it quotes."""


class SparsembleError(Exception):
    """Base of every error this package raises on purpose.

    >>> len(str(SparsembleError("recipe extends '" + "x" * 70_000 + "'"))) < 4100
    True
    """

    def __str__(self) -> str:
        """The message, without its middle if that is long."""
        return shortened(super().__str__(), _LONGEST)


class InputError(SparsembleError, ValueError):
    """A value from outside (argument, recipe, data, file) that cannot be used."""


class NotFiniteError(InputError):
    """A prediction that is no number: the inputs are more than the networks can take.

    Args:
        row: Of which inputs, counted from 0.
        source: Where those come from.
    """

    def __init__(self, row: int, source: str = "the inputs") -> None:
        super().__init__(
            f"{source}: what the members predict for row {row + 1} is not finite: its values are "
            "too large"
        )
        self.row = row


class ExportError(SparsembleError):
    """An exported file that does not predict what the ensemble does: it was not written."""


class CorruptFileError(InputError):
    """A file that is damaged, truncated, foreign or tampered with."""


class InterruptedRunError(SparsembleError):
    """A run was asked to stop, and saved its state."""


class DiskFullError(SparsembleError):
    """There is no space left to write to; what was written before is whole."""


class DivergedError(SparsembleError):
    """A chain diverged more often than its settings allow."""
