"""
Which passes are traced, and what becomes of them? Inference first, then one training step; both become a `Profile`.

The module is made and run on fake tensors: shapes without data. So a model of any size is traced in seconds on a
small machine, and nothing of it is allocated. A factory that looks at values while it makes the module (rates of
dropped paths, relative positions) is called once more on real tensors, its parameters alone without data. A forward
pass that looks at values (`.item()`, a loop until something converges, routing to experts by `nonzero`) cannot be
followed, and is said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any, Final

from tonnage.domain.profile import PROFILE_SCHEMA, Profile, TracedInput
from tonnage.errors import BadRequest, TonnageError, echo
from tonnage.measure.trace.load import Given, InputSpec, load
from tonnage.measure.trace.record import (
    Book,
    book_of,
    count_held_tensors,
    frontier,
    merge_operators,
    record_calls,
    settle_gradient,
    storage_key,
)

_MISSING: Final = "tracing needs PyTorch; install it with: pip install 'tonnage[torch]' (the CPU build is enough)"


def trace_named(
    target: str, inputs: Sequence[InputSpec] = (), *, samples: int | None, name: str, training: bool
) -> Profile:
    """
    The profile of the module that "module:callable" makes.

    Parameters
    ----------
    target : str
        The user's factory; it is imported and called.
    inputs : sequence of InputSpec
        Example inputs, where the factory returns none.
    samples : int
        Samples in them; absent = the first size of the first input.
    name : str
        How the profile is called; empty = the callable's name.
    training : bool
        Also one training step.

    Raises
    ------
    BadRequest
        There is no such callable, it makes no module, or the module does not run on the inputs.
    """
    _torch()
    return trace_module(
        load(target), inputs, samples=samples, name=name or target.rpartition(":")[2], training=training, source=target
    )


def trace_module(
    make: Callable[[], Any],
    inputs: Sequence[InputSpec] = (),
    *,
    samples: int | None = None,
    name: str = "module",
    training: bool = True,
    source: str = "",
) -> Profile:
    """The profile of what `make` returns: a module, or a module and its example inputs (see `trace_named`)."""
    torch = _torch()
    with _fake(torch):
        given = _call_and_split(torch, make, name)
        args, keywords = _inputs(torch, given, inputs, name)
        count = samples or _samples(torch, args, keywords)
        weights = frozenset(storage_key(t) for t in (*given.module.parameters(), *given.module.buffers()))
        inference = book_of(torch, samples=count, weights=weights)
        _infer(torch, given.module, args=args, keywords=keywords, book=inference, name=name)
        step: Book | None = None
        notes: tuple[str, ...] = ()
        if training:
            step, notes = _train(
                torch, given.module, args=args, keywords=keywords, book=book_of(torch, samples=count, weights=weights)
            )
        return _profile(
            torch,
            given.module,
            seen=(*args, *keywords.values()),
            inference=inference,
            step=step,
            notes=notes,
            name=name,
            source=source,
        )


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise BadRequest(_MISSING) from None
    return torch


@contextmanager
def _fake(torch: Any) -> Any:
    """Tensors without data, and the kernels that a user's own loop would call rather than fused inference ones."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _call_and_split(torch: Any, make: Callable[[], Any], name: str) -> Given:
    """Calls the factory, and splits what it returns: a module, then sequences of inputs and mappings of keywords."""
    try:
        found = _call_factory(torch, make)
    except TonnageError:
        raise
    except Exception as problem:
        raise BadRequest(f"{echo(name)} cannot be called: {type(problem).__name__}: {echo(problem)}") from problem
    module, *rest = found if isinstance(found, tuple) and found else (found,)
    if not isinstance(module, torch.nn.Module):
        raise BadRequest(
            f"{echo(name)} returned a {type(module).__name__}; it must return a torch.nn.Module, or (module, inputs)"
        )
    given = Given(module=module)
    for part in rest:
        if isinstance(part, Mapping):
            given = Given(module=module, inputs=given.inputs, keywords=dict(part))
        else:
            wrapped = tuple(part) if isinstance(part, list | tuple) else (part,)
            given = Given(module=module, inputs=wrapped, keywords=given.keywords)
    return given


def _call_factory(torch: Any, make: Callable[[], Any]) -> Any:
    """What the factory returns; one that looks at values is called again with real tensors beside its parameters."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    try:
        return make()
    except Exception as problem:
        if not _looks(problem):
            raise
    with unset_fake_temporarily(), _weightless(torch):
        found = make()
    module = found[0] if isinstance(found, tuple) and found else found
    if isinstance(module, torch.nn.Module):
        _empty(torch, module)
    return found


@contextmanager
def _weightless(torch: Any) -> Any:
    """Parameters lose their data as a module takes them in, so that no weight is filled; all else is real."""
    original = torch.nn.Module.register_parameter
    taken: dict[int, tuple[Any, Any]] = {}

    def register(self: Any, name: str, param: Any) -> None:
        if param is not None and param.device.type != "meta":
            if id(param) not in taken:  # the first is kept, so that no other gets its id
                taken[id(param)] = param, torch.nn.Parameter(param.detach().to("meta"), param.requires_grad)
            param = taken[id(param)][1]
        original(self, name, param)

    torch.nn.Module.register_parameter = register
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = original


def _empty(torch: Any, module: Any) -> None:
    """Fake tensors for the parameters and buffers of a module that was made outside; shared ones stay shared."""
    made: dict[int, Any] = {}
    for part in module.modules():
        for name, param in part._parameters.items():
            if param is not None:
                if id(param) not in made:
                    data = torch.empty_strided(param.shape, param.stride(), dtype=param.dtype)
                    made[id(param)] = torch.nn.Parameter(data, param.requires_grad)
                part._parameters[name] = made[id(param)]
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = torch.empty_strided(buffer.shape, buffer.stride(), dtype=buffer.dtype)


def _looks(problem: Exception) -> bool:
    """PyTorch's errors where a value is asked of a tensor without data."""
    kind = type(problem).__name__
    return "DataDependent" in kind or "DynamicOutputShape" in kind


def _inputs(torch: Any, given: Given, specs: Sequence[InputSpec], name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs by position and by name; stated ones replace the factory's, by position all of them at once."""
    if not specs and not (given.inputs or given.keywords):
        raise BadRequest(
            f"{echo(name)} returned no example inputs; give their shapes: --input 1x3x224x224, --input ids=1x128:int64"
        )
    args, keywords = list(given.inputs), dict(given.keywords)
    if any(not spec.name for spec in specs):
        args = []
    for spec in specs:
        tensor = torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype))
        if spec.name:
            keywords[spec.name] = tensor
        else:
            args.append(tensor)
    return tuple(_fake_tensors(torch, value) for value in args), {
        key: _fake_tensors(torch, value) for key, value in keywords.items()
    }


def _fake_tensors(torch: Any, value: Any) -> Any:
    """Tensors that were made outside the fake mode, such as constants of the user's file, without their data."""
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return value


def _samples(torch: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> int:
    first = next((t for t in (*args, *keywords.values()) if isinstance(t, torch.Tensor) and t.dim()), None)
    return int(first.shape[0]) if first is not None else 1


def _infer(torch: Any, module: Any, *, args: tuple[Any, ...], keywords: dict[str, Any], book: Book, name: str) -> None:
    """One pass of inference, written into the book; a module that does not run is refused."""
    module.eval()
    count_held_tensors(book, (args, keywords))
    try:
        with torch.no_grad(), record_calls(book):
            out = module(*args, **keywords)
            del out
    except TonnageError:
        raise
    except Exception as problem:
        raise BadRequest(f"{echo(name)} does not run on its inputs: {_why(problem)}") from problem


def _why(problem: Exception) -> str:
    kind = type(problem).__name__
    said = echo(str(problem).strip().split("\n")[0])
    if _looks(problem):
        return f"it looks at values, which a trace does not have ({said}); trace the part without that step"
    return f"{kind}: {said}"


def _train(
    torch: Any, module: Any, *, args: tuple[Any, ...], keywords: dict[str, Any], book: Book
) -> tuple[Book | None, tuple[str, ...]]:
    """One step: forward, the sum of the outputs as loss, backward. What cannot be trained has no training part."""
    if not any(p.requires_grad for p in module.parameters()):
        return None, ("no parameter is trainable: inference only",)
    module.train()
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda p: settle_gradient(book, p.grad))
    count_held_tensors(book, (args, keywords))
    try:
        with record_calls(book):
            out = module(*args, **keywords)
            loss, note = _loss(torch, out)
            del out
            book["forward"] = len(book["operators"])
            loss.backward()
            del loss
    except Exception as problem:
        return None, (f"its backward pass does not run ({_why(problem)}): inference only",)
    return book, (note,) if note else ()


def _loss(torch: Any, out: Any) -> tuple[Any, str]:
    """
    An output named loss, an output of one value, or the sum of all that can be differentiated, and a note of that.
    """
    named = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
    if isinstance(named, torch.Tensor):
        return named, ""
    if isinstance(out, torch.Tensor) and not out.dim() and out.is_floating_point():
        return out, ""
    total = None
    for tensor in _floats(torch, out):
        total = tensor.sum() if total is None else total + tensor.sum()
    if total is None:
        raise BadRequest("it returns no floating-point tensor, so there is no loss")
    return total, "the sum of the outputs stands for the loss"


def _floats(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() and value.requires_grad else []
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [tensor for item in items for tensor in _floats(torch, item)]


def _profile(
    torch: Any,
    module: Any,
    *,
    seen: tuple[Any, ...],
    inference: Book,
    step: Book | None,
    notes: tuple[str, ...],
    name: str,
    source: str,
) -> Profile:
    """
    The books of inference and of the training step, if it ran, as a profile; at its peak a value counts four bytes.
    """
    samples = int(inference["samples"])
    parameters = list(module.parameters())
    sizes = [float(p.numel()) for p in parameters]
    stored = sum(float(p.numel() * p.element_size()) for p in parameters)
    unknown = sorted({**inference["unknown"], **(step["unknown"] if step else {})})
    said = [*notes]
    if unknown:
        shown = ", ".join(unknown[:8]) + (", …" if len(unknown) > 8 else "")
        said.append(f"counted as memory traffic alone: {shown}")
    peak = max(inference["moments"], key=lambda held: held[0] + held[1] / 4.0, default=(0.0, 0.0, 0.0))
    return Profile(
        schema=PROFILE_SCHEMA,
        name=name,
        inputs=tuple(
            TracedInput(shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
            for t in seen
            if isinstance(t, torch.Tensor)
        ),
        samples=samples,
        parameters=sum(sizes),
        trainable_parameters=sum(float(p.numel()) for p in parameters if p.requires_grad),
        largest_parameter=max(sizes, default=0.0),
        buffer_values=sum(float(b.numel()) for b in module.buffers() if b.is_floating_point()),
        value_bytes=stored / sum(sizes) if sizes else 4.0,
        forward=merge_operators(inference["operators"]),
        backward=merge_operators(step["operators"][step["forward"] :]) if step else (),
        peak_values=peak[0] / samples,
        peak_bytes=peak[1] / samples,
        output_values=float(inference["outputs"]),
        moments=frontier(step["moments"], samples=samples) if step else (),
        notes=tuple(said),
        made=date.today().isoformat(),
        source=" · ".join(filter(None, (source, f"torch {torch.__version__}"))),
    )
