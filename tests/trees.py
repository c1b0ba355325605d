"""Trees of quantities: their leaves, and whether they add up."""

from collections.abc import Iterator
from typing import Any


def leaves(node: Any) -> Iterator[Any]:
    """Every node without parts."""
    if not node.parts:
        yield node
    for part in node.parts:
        yield from leaves(part)


def gap(node: Any) -> float:
    """Largest relative difference, anywhere in a tree, between a node's value and what its rule makes of its parts."""
    expected = _expected_value(node)
    here = abs(expected - node.value) / max(abs(expected), abs(node.value), 1e-300)
    if node.rule == "max" and node.binds != max(node.parts, key=lambda part: part.value).name:
        return float("inf")
    return max([here, *(gap(part) for part in node.parts)])


def _expected_value(node: Any) -> float:
    run = node.execution
    if run is not None:
        return float(run.count * run.once_s * run.factor)
    if not node.parts:
        return float(node.value)
    values = [part.value for part in node.parts]
    if node.rule == "max":
        return float(node.times * max(values))
    return float(node.times / sum(values) if node.rule == "quotient" else node.times * sum(values))
