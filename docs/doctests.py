"""For the API's pages: examples in docstrings are shown as code, not as quotations."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^>>>.*(?:\n(?!\s*$).+)*")
"""To the end of its paragraph."""


class Doctests(griffe.Extension):
    """Puts fences around what begins with `>>>`."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that has a docstring, or none."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
