"""Does an engine run on an accelerator at all? What sources say of makers, before any question of memory or speed."""

from __future__ import annotations

from tonnage import catalog
from tonnage.catalog.engines import formats, never_runs
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Verdict
from tonnage.domain.engine_spec import EngineSpec
from tonnage.engines.registry import planned_engines

__all__ = ["engine_lacking"]


def engine_lacking(spec: EngineSpec, accelerator: Accelerator) -> Verdict | None:
    """That nothing shows the engine on an accelerator; None where something does, or its maker is not catalogued."""
    elsewhere = spec.vendors is not None and accelerator.vendor not in spec.vendors + spec.vendors_by_document
    listed = elsewhere and any(part.vendor == accelerator.vendor for part in catalog.accelerators().values())
    if not listed and not never_runs(spec.name, accelerator):
        return None
    others = [name for name in planned_engines() if formats(name, accelerator)]
    nearest = f"engine {' or '.join(others)}" if others else "another accelerator"
    reason = f"no source shows {spec.title} running on {accelerator.name}"
    return Verdict(ok=False, limit="engine", reason=reason, nearest=nearest)
