"""What does one rank hold? Its own share of weights, gradients and optimizer states, and the most it ever used."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from tonnage.measure.train.records import Held

__all__ = ["held_of"]


def held_of(torch: Any, modules: Mapping[str, Any]) -> Held:
    """Memory of this rank; `modules` are the outermost module and the optimizer, where they were seen."""
    module, optimizer = modules.get("module"), modules.get("optimizer")
    weights = list(module.parameters()) if module is not None else []
    if not weights and optimizer is not None:
        weights = [p for group in optimizer.param_groups for p in group["params"]]
    states = optimizer.state.values() if optimizer is not None else ()
    kept = (x for state in states for x in state.values() if isinstance(x, torch.Tensor))
    peak, reserved, capacity, retries = _most(torch)
    return Held(
        peak_bytes=peak,
        reserved_bytes=reserved,
        capacity_bytes=capacity,
        alloc_retries=retries,
        weights_bytes=_bytes(weights) if weights else None,
        gradients_bytes=_bytes(p.grad for p in weights if p.grad is not None) if weights else None,
        optimizer_bytes=_bytes(kept) if optimizer is not None else None,
        parameters=float(sum(p.numel() for p in weights)) if weights else None,
        parallel=_parallel(module),
        model=_name(module),
    )


def _bytes(tensors: Iterable[Any]) -> float:
    """Of this rank's shards."""
    return float(sum((x.to_local() if hasattr(x, "to_local") else x).nbytes for x in tensors))


def _most(torch: Any) -> tuple[float | None, float | None, float | None, int | None]:
    """The most in use, the most reserved, what there is, and how often the allocator started again."""
    if torch.cuda.is_available():
        stats = torch.cuda.memory_stats()
        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        return (float(torch.cuda.max_memory_allocated()), float(torch.cuda.max_memory_reserved()), float(total),
                int(stats.get("num_alloc_retries", 0)))  # fmt: skip
    try:
        import resource
    except ImportError:  # not on this system
        return None, None, None, None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(used if sys.platform == "darwin" else used * 1024), None, None, None


def _parallel(module: Any) -> str:
    name = type(module).__name__
    if name == "DistributedDataParallel":
        return "DDP"
    return "FSDP" if name.startswith(("FSDP", "FullyShardedDataParallel")) else ""


def _name(module: Any) -> str:
    inner = getattr(module, "module", module)
    return "" if inner is None else type(inner).__name__.removeprefix("FSDP")
