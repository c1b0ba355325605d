"""
What happens while a module runs? Every call of the dispatcher, and every piece of memory from its birth to its end.

A piece of memory is a storage; views share one. It is alive as long as something refers to it, so what the backward
pass still needs is exactly what is alive. Gradients of parameters do not grow with the batch: PyTorch says which they
are when it hands them over, and what was counted since their birth is put right. All else is taken to grow.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from tonnage.domain.profile import Moment, TracedOperator
from tonnage.measure.trace.operators import SKIPPED, Call, traced_operator

Book = dict[str, Any]
"""The notebook of one pass: operators, unknown names, what is alive, what is held now, every amount ever held."""
Held = tuple[float, float, float]
"""Floating-point values and other bytes that grow with the batch, and floating-point values that do not."""

_VALUES, _BYTES, _FIXED = 0, 1, 2


def book_of(torch: Any, *, samples: int, weights: frozenset[int]) -> Book:
    """
    An empty notebook.

    Parameters
    ----------
    torch : module
        PyTorch.
    samples : int
        Samples in the inputs. [samples]
    weights : frozenset of int
        Storages of parameters and buffers.
    """
    return {
        "torch": torch,
        "samples": samples,
        "weights": weights,
        "operators": [],
        "unknown": {},
        "alive": {},
        "held": [0.0, 0.0, 0.0],
        "moments": [],
        "outputs": 0.0,
    }


@contextmanager
def record_calls(book: Book) -> Iterator[None]:
    """Writes down what runs inside."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def dispatch(_self: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        _note(book, func, given=(args, kwargs or {}), out=out)
        return out

    # A mode is a subclass by PyTorch's own rule; this one holds nothing but the function.
    with type("Notebook", (TorchDispatchMode,), {"__torch_dispatch__": dispatch})():
        yield


def count_held_tensors(book: Book, tensors: Any) -> None:
    """Counts tensors that are there before the first call: the inputs."""
    for tensor in _tensors(book["torch"], tensors):
        _born(book, tensor)


def settle_gradient(book: Book, gradient: Any) -> None:
    """Moves a parameter's gradient to what does not grow with the batch, since its birth."""
    key = storage_key(gradient)
    part, amount, birth = book["alive"].get(key, (_FIXED, 0.0, 0))
    if part == _FIXED:
        return
    book["alive"][key] = (_FIXED, amount, birth)
    for held in (*book["moments"][birth:], book["held"]):
        held[part] -= amount
        held[_FIXED] += amount


def merge_operators(operators: list[TracedOperator]) -> tuple[TracedOperator, ...]:
    """Equal operators once, with their counts added, in order of first appearance."""
    counts: dict[TracedOperator, int] = {}
    for op in operators:
        counts[op] = counts.get(op, 0) + 1
    return tuple(replace(op, count=float(count)) for op, count in counts.items())


def storage_key(tensor: Any) -> int:
    """Identity of a tensor's memory."""
    return int(tensor.untyped_storage()._cdata)


def frontier(held: list[list[float]], *, samples: int) -> tuple[Moment, ...]:
    """Moments that no other reaches in everything; what grows with the batch is counted per sample."""
    kept: list[Held] = []
    for moment in sorted({(one[_VALUES], one[_BYTES], one[_FIXED]) for one in held}, reverse=True):
        if not any(all(a >= b for a, b in zip(other, moment, strict=True)) for other in kept):
            kept.append(moment)
    return tuple(
        Moment(activation_values=values / samples, activation_bytes=other / samples, gradient_values=fixed)
        for values, other, fixed in kept
    )


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(torch, item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(torch, item)


def _note(book: Book, func: Any, *, given: tuple[Any, Any], out: Any) -> None:
    """
    Writes down one call: what it holds from now on, and its operator unless it is a view or touches scalars alone.
    """
    torch = book["torch"]
    name = func.overloadpacket.__name__ if hasattr(func, "overloadpacket") else str(func)
    results = list(_tensors(torch, out))
    for tensor in results:
        _born(book, tensor)
    if func.is_view or name in SKIPPED or name == "_unsafe_view" or str(func).startswith("prim."):
        return
    tensors = [tensor for tensor in _tensors(torch, given) if tensor.numel()]
    if not any(tensor.numel() > 1 for tensor in (*results, *tensors)):
        return  # counters and other scalars
    call = Call(
        name=name,
        args=given[0],
        kwargs=given[1],
        results=[tensor for tensor in results if tensor.numel()],
        tensors=tensors,
        pointwise=torch.Tag.pointwise in func.tags,
        reduction=torch.Tag.reduction in func.tags,
        weights=frozenset(index for index, tensor in enumerate(tensors) if storage_key(tensor) in book["weights"]),
    )
    found, unknown = traced_operator(call, samples=book["samples"])
    if unknown:
        book["unknown"][unknown] = book["unknown"].get(unknown, 0) + 1
    if found is None:
        return
    book["operators"].append(found)
    if found.weight_values and found.flop:
        book["outputs"] += found.write_values


def _born(book: Book, tensor: Any) -> None:
    """Counts a storage that was not there before, and says when it goes."""
    storage = tensor.untyped_storage()
    key = int(storage._cdata)
    if key in book["weights"] or key in book["alive"]:
        return
    part, amount = _BYTES, float(storage.nbytes())
    if tensor.is_floating_point():
        part, amount = _VALUES, amount / tensor.element_size()
    book["alive"][key] = (part, amount, len(book["moments"]))
    book["held"][part] += amount
    book["moments"].append(list(book["held"]))
    weakref.finalize(storage, _gone, book, key)


def _gone(book: Book, key: int) -> None:
    part, amount, _ = book["alive"].pop(key, (_VALUES, 0.0, 0))
    book["held"][part] -= amount
