"""What operations of a traced run are called."""

from __future__ import annotations

from torch import fx


def operation_name(node: fx.Node) -> str:
    """What an operation is called, without its overload.

    >>> import torch
    >>> operation_name(fx.Graph().call_function(torch.ops.aten.linear.default))
    'linear'
    """
    schema = getattr(node.target, "_schema", None)
    return str(schema.name).partition("::")[2] if schema else getattr(node.target, "__name__", "")


def module_path(node: fx.Node) -> str:
    """The module of the user's in which an operation stands."""
    stack = node.meta.get("nn_module_stack") or {}
    return next((path for path, _ in reversed(list(stack.values())) if path), "")


def place(node: fx.Node) -> str:
    """Where an operation stands, in the user's words."""
    name, path = operation_name(node).rstrip("_") or node.name, module_path(node)
    return f"{name} in {path}" if path else name


def user_line(node: fx.Node) -> str:
    """The line of the user's code that an operation comes from, if it is known."""
    trace = str(node.meta.get("stack_trace") or "")
    lines = [line.strip() for line in trace.splitlines()]
    own = [
        f"{lines[k + 1]} ({line.removeprefix('File ').replace(', in forward', '')})"
        for k, line in enumerate(lines[:-1])
        if line.startswith("File ") and "/torch/" not in line
    ]
    return own[-1] if own else ""
