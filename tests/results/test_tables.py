"""Tables on a terminal stay readable at any width."""

from __future__ import annotations

import io

from rich.console import Console

from sparsemble.results.tables import Table

TABLE = Table(
    title="Results",
    header=("Method", "Test perplexity", "Parameters", "Paper"),
    rows=(("one network", "112.48", "1.00×", "–"), ("four members", "102.45", "0.40×", "– / 68.7")),
)


def printed(width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(TABLE)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_where_there_is_room_a_table_is_one():
    lines = printed(60)
    assert any("Method" in line and "Test perplexity" in line for line in lines)
    assert any("four members" in line and "102.45" in line and "68.7" in line for line in lines)


def test_where_a_table_would_be_squeezed_one_row_follows_the_other():
    assert printed(30) == [
        "Results",
        "one network",
        "  Test perplexity  112.48",
        "  Parameters       1.00×",
        "four members",
        "  Test perplexity  102.45",
        "  Parameters       0.40×",
        "  Paper            – / 68.7",
    ]
