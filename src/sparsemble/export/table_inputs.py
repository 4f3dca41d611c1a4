"""The columns of a table as inputs of an ONNX file: what is missing filled in, categories encoded.

Every column is an input of its own, by its name, `(examples, 1)`: numbers with NaN where one is
missing, texts with "" there. What the table that was learned from did not show cannot be refused
by a file: of a category that is unknown none is 1, a number that is missing is filled in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparsemble.tables import CategoryColumn, NumberColumn, TableEncoding
from sparsemble.tables.cells import Cells

if TYPE_CHECKING:
    import onnx

_INSIDE = "ensemble/"
"""What names within the ensemble begin with, so that a column may be called anything."""


def taking_columns(model: onnx.ModelProto, encoding: TableEncoding) -> onnx.ModelProto:
    """The same model with the columns of a table in the place of its one input.

    Args:
        model: Takes the encoded table.
        encoding: How that is made of the columns.
    """
    from onnx import compose, helper

    inner = compose.add_prefix(model, _INSIDE, rename_outputs=False)
    called = input_names(encoding, [own.name for own in model.graph.output])
    parts = [_part(column, called[column.name]) for column in encoding.columns]
    names = [name for part in parts for name in part.outputs]
    nodes = [node for part in parts for node in part.nodes]
    read = inner.graph.input[0]
    joined = helper.make_node("Concat", names, [f"{_INSIDE}joined"], axis=1)
    kind = read.type.tensor_type.elem_type
    cast = helper.make_node("Cast", [f"{_INSIDE}joined"], [read.name], to=kind)
    graph = helper.make_graph(
        [*nodes, joined, cast, *inner.graph.node],
        inner.graph.name,
        [part.value for part in parts],
        list(inner.graph.output),
        [*(own for part in parts for own in part.constants), *inner.graph.initializer],
        value_info=list(inner.graph.value_info),
    )
    made = helper.make_model(
        graph,
        opset_imports=inner.opset_import,
        ir_version=inner.ir_version,
        functions=list(inner.functions),
    )
    made.metadata_props.extend(model.metadata_props)
    made.metadata_props.add(key="inputs", value=json.dumps(called, ensure_ascii=False))
    return made


def input_names(encoding: TableEncoding, outputs: Sequence[str]) -> dict[str, str]:
    """What the input of each column is called: as the column, unless an output is called so."""
    names = [column.name for column in encoding.columns]
    return {name: f"column {name}" if name in outputs else name for name in names}


@dataclass(frozen=True)
class _Part:
    """One column: its input, what is computed of it, and the columns of the encoded table."""

    value: onnx.ValueInfoProto
    nodes: Sequence[onnx.NodeProto]
    constants: Sequence[onnx.TensorProto]
    outputs: Sequence[str]


def _part(column: NumberColumn | CategoryColumn, name: str) -> _Part:
    if isinstance(column, NumberColumn):
        return _numbers(column, name)
    return _categories(column, name)


def _numbers(column: NumberColumn, name: str) -> _Part:
    from onnx import TensorProto, helper, numpy_helper

    inside = f"{_INSIDE}{name}/"
    missing, fill, filled, marked = (inside + own for own in ("gone", "fill", "filled", "marked"))
    nodes = [
        helper.make_node("IsNaN", [name], [missing]),
        helper.make_node("Where", [missing, fill, name], [filled]),
    ]
    if column.marked:
        nodes.append(helper.make_node("Cast", [missing], [marked], to=TensorProto.FLOAT))
    return _Part(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["examples", 1]),
        nodes,
        [numpy_helper.from_array(np.array([[column.fill]], np.float32), fill)],
        [filled, marked] if column.marked else [filled],
    )


def _categories(column: CategoryColumn, name: str) -> _Part:
    from onnx import TensorProto, helper, numpy_helper

    inside = f"{_INSIDE}{name}/"
    known, equal, encoded = (inside + own for own in ("known", "equal", "encoded"))
    texts = [*column.categories, *([""] if column.marked else [])]
    return _Part(
        helper.make_tensor_value_info(name, TensorProto.STRING, ["examples", 1]),
        [
            helper.make_node("Equal", [name, known], [equal]),
            helper.make_node("Cast", [equal], [encoded], to=TensorProto.FLOAT),
        ],
        [numpy_helper.from_array(np.array([texts], dtype=object), known)],
        [encoded],
    )


def in_a_column(cells: Cells) -> np.ndarray:
    """Cells as a file takes them, `(rows, 1)`: what is missing is NaN, or of texts "".

    >>> in_a_column(Cells.of_texts(["east", ""])).tolist()
    [['east'], ['']]
    """
    if cells.kind == "text":
        texts = [cells.text(row) for row in range(len(cells.values))]
        return np.array(texts, dtype=object)[:, None]
    return cells.values.astype(np.float32)[:, None]


def made_up_cells(column: NumberColumn | CategoryColumn, rows: int) -> Cells:
    """Cells that such a column may hold, some missing where some may be."""
    numbers = np.arange(rows)
    missing = numbers % 3 == 1 if column.marked else np.zeros(rows, bool)
    if isinstance(column, CategoryColumn):
        known = column.categories
        return Cells("text", np.where(missing, -1, numbers % len(known)), known)
    values = numbers % 2 if column.holds == "truth" else column.fill + numbers / 4
    return Cells(column.holds, np.where(missing, np.nan, values))
