"""
Which settings besides layout and weights are worth trying: the cache in FP8, and speculative decoding.

A variation is looked at where it may win and kept where it does. With none can a replica take more than `gain` times
what it keeps up with without, whatever the latency, so that a variation whose cost at so much is above the best plan's
is left out, and nothing is missed by that: the bound is of the replica alone, and holds for any load and objective.
What costs no less than the same configuration without is not kept: a cache in fewer bits is not chosen for nothing.

- Cache in FP8: where engine and part do it and its quality is published (and passes the floor asked for).
- Drafting: by layers of the checkpoint's own (multi-token prediction) where their acceptance is published, planned with
  its low end; or at the acceptance that the request states. Verified tokens cost time under load, so that it may lose.
  Separate draft models (EAGLE) are left out: the catalogue has neither their acceptance nor their memory.
- Chunks of prompts and batch limits stay the engine's own: by averages chunks of 2,048 tokens save up to an eighth,
  which nothing measured confirms, and every option would be there three times (log of 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog.models import PublishedDraft, published_draft
from tonnage.catalog.published import cache_change
from tonnage.domain.layout import Engine
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import engine_spec
from tonnage.errors import BadRequest
from tonnage.planning.core.header import Infeasible
from tonnage.planning.quality import judge_change
from tonnage.planning.serve.option import Candidate
from tonnage.planning.sites import Site

__all__ = ["Variation", "Variations", "variation_notes"]

ROOM: Final = 2.1
"""Times the load that twice the cache may bring at most, with some slack. [-]"""
FP8_CACHE: Final = frozenset({"NVIDIA", "AMD"})
"""Vendors on whose parts engines keep a cache in FP8."""

APART: Final = "prefill and decode on workers of their own (of one tensor-parallel layout)"


class Variation(NamedTuple):
    """A configuration with other settings, and how much more load a replica may take with them at most."""

    configuration: Configuration
    gain: float


class Variations:
    """Settings that a plan tries, as far as they depend on the request and the model alone."""

    def __init__(self, request: Serve, model: Model) -> None:
        self.request = request
        self.draft = _draft(request, model)
        change = cache_change(request.model, "fp8")
        floor = request.quality_floor
        known = change.kept is not None and (floor is None or bool(judge_change(change, floor).passes))
        self.fp8_cache = known and request.kv_precision is None

    def of(self, site: Site, found: Candidate | Infeasible) -> Iterator[Variation]:
        """Variations of a configuration that was looked at: of one that cannot serve, those that may help it."""
        tried = found.configuration
        short = isinstance(found, Infeasible)
        limit = found.verdict.limit if isinstance(found, Infeasible) else None
        if short and limit not in {"cache", "ttft", "tpot", "e2e"}:
            return
        caches = self._caches(site, tried) if limit != "ttft" else [(tried.precision, 1.0)]
        engines = [(tried.engine, 1.0)]
        if limit != "cache":
            engines += self._engines(tried)
        for (precision, more), (engine, gain) in product(caches, engines):
            if (precision, engine) != (tried.precision, tried.engine):
                yield Variation(replace(tried, precision=precision, engine=engine), more * gain)

    def _caches(self, site: Site, tried: Configuration) -> list[tuple[Precision, float]]:
        own = [(tried.precision, 1.0)]
        part = site.accelerator
        able = part.vendor in FP8_CACHE and "fp8" in part.peaks and engine_spec(tried.engine.name).fp8_cache
        if not (self.fp8_cache and able) or number_format(tried.precision.kv).bits < 16:
            return own
        return [*own, (replace(tried.precision, kv="fp8"), ROOM)]

    def _engines(self, tried: Configuration) -> Iterator[tuple[Engine, float]]:
        if self.draft is not None and engine_spec(tried.engine.name).drafts:
            yield (
                replace(
                    tried.engine, speculative_tokens=self.draft.tokens, speculative_acceptance=self.draft.low
                ),
                1.0 + self.draft.tokens,
            )  # fmt: skip


def _draft(request: Serve, model: Model) -> PublishedDraft | None:
    """What is drafted, and how much of it is kept: as the request states it, or as published of the model."""
    if request.draft_acceptance is not None:
        if not model.mtp_layers:
            raise BadRequest(
                f"draft_acceptance: {model.id} has no layers of its own to draft with (multi-token prediction), and "
                "separate draft models are not planned; leave it out, and ask `tonnage predict` with speculative_tokens"
            )
        stated = request.draft_acceptance
        return PublishedDraft(tokens=request.draft_tokens, low=stated, high=stated, source="stated in the request")
    return published_draft(model.id) if model.mtp_layers else None


def variation_notes(request: Serve, model: Model) -> tuple[str, ...]:
    """What was tried besides layouts and formats, and what was not."""
    tried = "also tried where it may win: a KV cache in FP8 of published quality"
    if request.rate_per_s is not None and (request.slo.ttft_s, request.slo.tpot_s, request.slo.e2e_s) != (None,) * 3:
        tried += f", {APART}"
    draft = _draft(request, model)
    if draft is not None:
        kept = f"{draft.low:.0%}" if draft.low == draft.high else f"{draft.low:.0%} to {draft.high:.0%}"
        count = f"{draft.tokens} token{'' if draft.tokens == 1 else 's'}"
        return (
            f"{tried}; speculative decoding of {count} a step, {kept} of them kept, planned at {draft.low:.0%}"
            f" ({draft.source})",
        )
    if model.mtp_layers:
        return (
            f"{tried}; {model.id} can draft with its own layers, but nobody published how much of it is kept: state"
            " yours (--draft-acceptance '70 %')",
        )
    return (tried,)
