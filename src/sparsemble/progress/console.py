"""Consoles: where progress and results go, and what of a text is shown there.

Names and texts may come from files of strangers, and a terminal obeys what is written to it: it may
be told to move, to change its title, to hide. Characters that command are shown as what they are.
"""

from __future__ import annotations

import re
from typing import Any

from rich.console import Console
from rich.text import Text

_COMMANDING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for the tab and the end of a line, and those that turn the direction."""


def visible(text: str) -> str:
    r"""A text with nothing in it that a terminal obeys.

    >>> visible("a\x1b[2Jb\u202e")
    'a\\x1b[2Jb\\u202e'
    """
    return _COMMANDING.sub(lambda found: ascii(found[0])[1:-1], text)


class PlainConsole(Console):
    """A console that writes texts as they are, and visibly."""

    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, soft_wrap=True, **how)

    def render_str(self, text: str, **how: Any) -> Text:
        """A text to be shown."""
        return super().render_str(visible(text), **how)


def progress_console(*, quiet: bool = False) -> Console:
    """A console out of the way of results that are piped on."""
    return PlainConsole(stderr=True, quiet=quiet)
