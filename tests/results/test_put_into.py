"""Tables put into a Markdown file, between its marks."""

import pytest

from sparsemble.errors import InputError
from sparsemble.results.tables import mean_and_deviation, put_into


def test_seeds_are_told_as_mean_and_sample_deviation():
    assert mean_and_deviation([1.0]) == "1.00"
    assert mean_and_deviation([1.0, 2.0, 3.0]) == "2.00 ± 1.00"


def test_tables_are_only_put_between_marks(tmp_path):
    plain = tmp_path / "plain.md"
    plain.write_text("no marks")
    with pytest.raises(InputError, match="lacks the marks"):
        put_into(plain, "mnist", ())
    assert plain.read_text() == "no marks"
    plain.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read as text"):
        put_into(plain, "mnist", ())
