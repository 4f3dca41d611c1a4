"""Products. Only one with a parameter separates units: it reads those of its columns and makes
those of its rows; what two activations contract goes together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from sparsemble.structure import Role
from sparsemble.tracing.atoms import NONE, unlabelled
from sparsemble.tracing.naming import operation_name, place
from sparsemble.tracing.rules.pointwise import meet
from sparsemble.tracing.rules.registry import Labels, rule
from sparsemble.tracing.uses import ActivationProduct, Grouped, Stretch, Use
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from sparsemble.tracing.walk import Walk


@rule("linear")
def linear(walk: Walk, node: fx.Node, x: Value, weight: Value, bias: Value | None = None) -> Labels:
    """`x·Wᵀ + b`."""
    shape = (*x.shape[:-1], weight.shape[0])
    return contraction(
        walk, node, x, weight, bias, makes=0, reads=1, into=lambda own: own.expand(shape)
    )


@rule("addmm")
def addmm(walk: Walk, node: fx.Node, bias: Value, x: Value, weight: Value, **_: Any) -> Labels:
    """`b + x·W`."""
    shape = (x.shape[0], weight.shape[1])
    return contraction(
        walk, node, x, weight, bias, makes=1, reads=0, into=lambda own: own.expand(shape)
    )


@rule("matmul", "mm", "bmm", "__matmul__")
def matmul(walk: Walk, node: fx.Node, x: Value, y: Value) -> Labels:
    """`x·W` with a parameter, or a product of two activations."""
    if y.is_view and y.number.ndim == 2 and x.number.ndim >= 2 and x.data:
        shape = (*x.shape[:-1], y.shape[1])
        return contraction(
            walk, node, x, y, None, makes=1, reads=0, into=lambda own: own.expand(shape)
        )
    for value in (x, y):
        if value.is_view:
            walk.pin(f"a parameter that is multiplied otherwise in {place(node)}", value)
    if x.number.ndim < 2 or y.number.ndim < 2:
        walk.pin(f"multiplied as vectors in {place(node)}", x, y)
        return None
    first = walk.atoms.along(x.labels, (-1,))
    second = walk.atoms.along(y.labels, (-2,))
    labels = meet(walk, node, [(x, first), (y, second)], outer=True)
    walk.feed_if_mixed(x, y)
    walk.products.append(ActivationProduct(node, labels, 2 * x.shape[-1]))
    return labels


@rule("einsum")
def einsum(walk: Walk, node: fx.Node, equation: str, operands: Sequence[Value], **_: Any) -> Labels:
    """A product of two activations, or of one and a matrix, written with letters."""
    left, _arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    plain = "." not in equation and right and all(len(set(t)) == len(t) for t in (*terms, right))
    if plain and len(terms) == 2:
        for at, value in enumerate(operands):
            if value.is_view and operands[1 - at].data:
                found = _einsum_with_matrix(
                    walk, node, operands[1 - at], value, terms[1 - at], terms[at], right
                )
                if found is not None:
                    return found
    if not plain or any(value.is_view for value in operands):
        walk.pin(f"no rule for such letters in {place(node)}", *operands)
        return None
    aligned = []
    for term, value in zip(terms, operands, strict=True):
        summed = [dim for dim, letter in enumerate(term) if letter not in right]
        labels = walk.atoms.along(value.labels, summed)
        kept = [letter for letter in term if letter in right]
        labels = labels.reshape(
            [n for n, letter in zip(labels.shape, term, strict=True) if letter in right]
        )
        labels = labels.permute([kept.index(letter) for letter in right if letter in kept])
        for dim, letter in enumerate(right):
            if letter not in kept:
                labels = labels.unsqueeze(dim)
        aligned.append((value, labels))
    result = meet(walk, node, aligned, outer=True)
    walk.feed_if_mixed(*operands)
    lengths: dict[str, int] = {}
    for term, value in zip(terms, operands, strict=True):
        lengths |= dict(zip(term, value.shape, strict=True))
    contracted = math.prod(n for letter, n in lengths.items() if letter not in right)
    if len(terms) > 1:
        walk.products.append(ActivationProduct(node, result, 2 * contracted))
    return result


def _einsum_with_matrix(
    walk: Walk, node: fx.Node, x: Value, weight: Value, read: str, matrix: str, right: str
) -> Labels:
    """`x·W` for a matrix whose one letter is summed over and whose other one is new."""
    if len(matrix) != 2:
        return None
    reads = [dim for dim, letter in enumerate(matrix) if letter in read and letter not in right]
    makes = [dim for dim, letter in enumerate(matrix) if letter in right and letter not in read]
    if len(reads) != 1 or len(makes) != 1 or not set(read) - {matrix[reads[0]]} <= set(right):
        return None
    lengths = dict(zip(read, x.shape, strict=True)) | dict(zip(matrix, weight.shape, strict=True))
    at = right.index(matrix[makes[0]])
    shape = [lengths[letter] for letter in right]

    def into(own: Tensor) -> Tensor:
        return own.view([-1 if dim == at else 1 for dim in range(len(right))]).expand(shape)

    feature = read.index(matrix[reads[0]])
    return contraction(
        walk, node, x, weight, None, makes=makes[0], reads=reads[0], feature=feature, into=into
    )


@rule(
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"
)  # fmt: skip
def convolution(
    walk: Walk,
    node: fx.Node,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    *rest: Any,
) -> Labels:
    """Channels are units. In a convolution in groups a unit is a group."""
    transposed = "transpose" in operation_name(node)
    space = weight.number.ndim - 2
    groups = rest[1] if len(rest) > 1 else 1
    shape = walk.result.shape
    if x.number.ndim != weight.number.ndim:
        walk.pin(f"one picture without a batch in {place(node)}", x, weight)
        return None
    pixels = x.shape[2:] if transposed else shape[2:]
    positions = pixels.numel() * max(1, x.shape[0] // walk.batch)

    def into(own: Tensor) -> Tensor:
        return own.view(1, -1, *[1] * space).expand(shape)

    pads = transposed or padding not in (0, "valid", [0] * space, (0,) * space)
    if groups == 1:
        makes, reads = (1, 0) if transposed else (0, 1)
        return contraction(
            walk,
            node,
            x,
            weight,
            bias,
            makes=makes,
            reads=reads,
            feature=1,
            into=into,
            pads=pads,
            positions=positions,
            kind="convolution",
        )
    name = weight.source
    if transposed or name is None or weight.shape != walk.tensors[name].shape:
        walk.pin(f"a transposed or computed convolution in groups in {place(node)}", x, weight)
        return None
    read = walk.atoms.along(x.labels, (0, *range(2, x.labels.ndim))).flatten()
    rows = walk.atom(name, 0)
    each = walk.atoms.along(read.view(groups, -1), (1,))
    walk.atoms.unite(each, rows.view(groups, -1))
    walk.note(name, 0, Role.PRODUCER)
    walk.grouped.append(Grouped(node, name, rows.view(groups, -1), positions))
    walk.group_counts[node] = rows.view(groups, -1)[:, 0]
    walk.feed_if_mixed(x)
    if bias is not None:
        attach(walk, node, bias, rows, Role.BIAS)
    return into(rows)


def contraction(
    walk: Walk,
    node: fx.Node,
    x: Value,
    weight: Value,
    bias: Value | None,
    *,
    makes: int,
    reads: int,
    into: Callable[[Tensor], Tensor],
    feature: int = -1,
    pads: bool = False,
    positions: int | None = None,
    kind: str = "linear",
) -> Tensor:
    """A product of data with a weight.

    Args:
        walk: The run.
        node: The operation.
        x: What is read.
        weight: By what it is multiplied.
        bias: What is added.
        makes: The weight's dimension that runs over what comes out,
        reads: and the one over what is read.
        into: Lays labels of what comes out along its shape.
        feature: The dimension of `x` that runs over what is read.
        pads: Are zeros read beside the data?
        positions: How often the matrix is multiplied for one example.
        kind: Of operation, as people call it.
    """
    feature %= x.number.ndim
    rows, columns = stretch(walk, weight, makes), stretch(walk, weight, reads)
    if rows is None or columns is None or rows.dim == columns.dim:
        walk.pin(f"read by a weight that is computed in {place(node)}", x, weight)
        made = unlabelled((weight.shape[makes],))
    else:
        made = walk.atom(rows.name, rows.dim)[rows.start : rows.stop]
        wanted = walk.atom(columns.name, columns.dim)[columns.start : columns.stop]
        others = [dim for dim in range(x.number.ndim) if dim != feature]
        read = walk.atoms.along(walk.labelled(x), others).flatten()
        walk.atoms.unite(read, wanted)
        if bool((read == NONE).any()):
            walk.atoms.pin(wanted[read == NONE], f"values of no known unit read by {place(node)}")
        if not walk.captured.learns(columns.name):
            walk.atoms.pin(wanted, f"read by numbers that do not learn in {place(node)}")
        walk.note(rows.name, rows.dim, Role.PRODUCER)
        walk.note(columns.name, columns.dim, Role.CONSUMER)
        if positions is None:
            positions = x.number.numel() // max(x.shape[feature], 1) // walk.batch
        own_bias = None if bias is None else stretch(walk, bias, 0)
        walk.uses.append(
            Use(
                node=node,
                makes=rows,
                reads=columns,
                bias=own_bias,
                operand=x.node,
                feature=feature,
                pads=pads,
                positions=max(positions, 1),
                kind=kind,
            )
        )
    if bias is not None:
        attach(walk, node, bias, made, Role.BIAS)
    return into(made)


def stretch(walk: Walk, value: Value, dim: int) -> Stretch | None:
    """Where a dimension of a view of a parameter lies in it, if that is one stretch of it."""
    if value.source is None or value.index is None:
        return None
    shape = walk.tensors[value.source].shape
    if value.node.op == "placeholder":  # the whole tensor: large ones take time otherwise
        return Stretch(value.source, dim, 0, shape[dim])
    others = [other for other in range(value.index.ndim) if other != dim]
    coordinates: Sequence[Tensor] = torch.unravel_index(value.index, shape)
    for own, along in enumerate(coordinates):
        low = along.amin(others) if others else along
        high = along.amax(others) if others else along
        start, length = int(low[0]), len(low)
        if not torch.equal(low, high) or (length == 1 and shape[own] > 1):
            continue
        if torch.equal(low, torch.arange(start, start + length)):
            return Stretch(value.source, own, start, start + length)
    return None


def attach(walk: Walk, node: fx.Node, value: Value, labels: Tensor, role: Role) -> None:
    """A parameter with one entry a unit goes with the unit."""
    where = stretch(walk, value, 0) if value.number.ndim == 1 else None
    if where is None or walk.tensors[where.name].ndim > 1:
        walk.atoms.pin(labels, f"tied to a tensor that is computed in {place(node)}")
        walk.pin(f"used beside a weight in {place(node)}", value)
        return
    walk.atoms.unite(walk.atom(where.name, 0)[where.start : where.stop], labels)
    walk.note(where.name, 0, role)
