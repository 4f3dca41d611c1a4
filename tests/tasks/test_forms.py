"""How people ask: what the inputs of a task look like decides it."""

import pytest
import torch

from sparsemble.data import Scaling, digits
from sparsemble.tables import CategoryColumn, NumberColumn, TableEncoding
from sparsemble.tasks.forms import Field, Fields, Picture, Values, form_of_numbers, form_of_table

PIXELS = digits()[0].inputs


@pytest.mark.parametrize(
    ("scaling", "ink"),
    [
        (Scaling.by(1 / 16), 16),
        (Scaling.fitting(PIXELS), 16),
        (Scaling.standard(PIXELS), 16),
        (Scaling.by(1 / 255), 255),
        (Scaling.fitting(255 / 16 * PIXELS), 255),
        (Scaling.fitting(PIXELS / 16), 1),
        (Scaling.none(), 1),
    ],
)
def test_what_ink_is_written_as_is_found_in_the_scaling(scaling, ink):
    form = form_of_numbers((64,), None, scaling)
    assert isinstance(form, Picture)
    assert form.ink == pytest.approx(ink)


def test_square_pictures_are_drawn_large_ones_with_a_margin():
    small, large = (form_of_numbers(s, None, Scaling.none()) for s in ((1, 8, 8), (784,)))
    assert (small.side, small.margin, large.side, large.margin) == (8, 0, 28, 4)


def test_numbers_are_filled_in_beginning_with_their_mean():
    scaling = Scaling(torch.tensor([1.5, 20.0]), torch.tensor([1.0, 2.0]))
    form = form_of_numbers((2,), ("size", "age"), scaling)
    assert form == Fields((Field("size", "number", "1.5"), Field("age", "number", "20")), True)
    assert not form_of_numbers((2,), None, scaling).named


@pytest.mark.parametrize("shape", [(3, 8, 8), (8, 5), (101,)])
def test_anything_else_is_json(shape):
    assert isinstance(form_of_numbers(shape, None, Scaling.none()), Values)


def test_a_table_has_a_field_for_every_column():
    encoding = TableEncoding(
        columns=[
            NumberColumn(name="age", fill=38.5, marked=True),
            NumberColumn(name="owner", holds="truth", fill=1),
            NumberColumn(name="since", holds="date", fill=366.0),
            CategoryColumn(name="region", categories=["east", "west"]),
        ]
    )
    assert form_of_table(encoding).fields == (
        Field("age", "number", "38.5", may_lack=True),
        Field("owner", "truth", "true"),
        Field("since", "date", "1971-01-02"),
        Field("region", "category", "east", ("east", "west")),
    )
