"""
What a serving plan may draft, and how it keeps many LoRA adapters: what each costs and gives.

Three ways to keep adapters compete in the ranking, as configurations like others:
- *resident*: a slot for every adapter, so that nothing waits; its memory is the cache's loss;
- *swapped*: fewer slots, the rest on the host; requests for what is missing wait for a copy, and no more of them run
  than the slots have adapters for;
- *merged*: each adapter in a copy of the weights, on replicas of its own at the speed of the base; looked at for few
  adapters, since each takes a replica at least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tonnage.catalog import model_name
from tonnage.catalog.eagle import accepted, eagle_drafts
from tonnage.catalog.hub.names import tuning
from tonnage.catalog.models import PublishedDraft, eagle_targets, loaded_as, published_draft
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration, Decision, ServeOption
from tonnage.domain.requests.groups import AdapterFields, Adapters
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import engine_spec
from tonnage.errors import BadRequest, UnknownName
from tonnage.physics.adapters import adapter_bytes, adapter_names, distinct_adapters, target_names
from tonnage.simulation.adapters import load_s, misses
from tonnage.units import percent, show

if TYPE_CHECKING:
    from tonnage.questions.serve.option import Candidate

DEPTHS: Final = (3,)
"""
Tokens of a chain that plans try of a draft of its own, as engines' recipes and the paper's tables of batches draft.
Chains of one, tried as well, led none of six plans alone and took as long again to look at (log of 2026-11-23).
"""


def drafts_for(request: Serve, model: Model) -> tuple[PublishedDraft, ...]:
    """
    What a plan may draft, and how much of it is kept: as the request states it, or as published of model or draft. What
    is published of a draft holds for the tuning that it was trained for, so another is drafted for as stated alone.

    Raises
    ------
    BadRequest
        The request states an acceptance, and nothing is known that drafts for the model.
    """
    drafts = eagle_drafts(model.id) if model.id in eagle_targets() and not model.mtp_layers else ()
    stated = request.draft_acceptance
    if stated is None:
        drafts = tuple(one for one in drafts if tuning(one.trained_for) == _tuning(request, model))
    if stated is not None:
        if not model.mtp_layers and not drafts:
            raise BadRequest(
                f"draft_acceptance: {model.id} has no layers of its own to draft with (multi-token prediction), and no "
                "EAGLE-3 draft of it is known; leave it out, and ask `tonnage predict` with speculative_tokens"
            )
        own = drafts[0].id if drafts else None
        tokens, source = request.draft_tokens, "stated in the request"
        return (PublishedDraft(tokens=tokens, low=stated, high=stated, source=source, model=own),)
    if model.mtp_layers:
        published = published_draft(model.id)
        return () if published is None else (published,)
    for draft in drafts:
        found = [known for tokens in DEPTHS if (known := accepted(draft.id, tokens)) is not None]
        if found:
            return tuple(
                PublishedDraft(tokens=one.tokens, low=one.low, high=one.high, source=one.source, model=draft.id)
                for one in found
            )
    return ()


def draft_notes(request: Serve, model: Model) -> tuple[str, ...]:
    """A note where the published draft was trained for another tuning of the model than the one asked for."""
    other = [one for one in eagle_drafts(model.id) if tuning(one.trained_for) != _tuning(request, model)]
    if not other or model.mtp_layers:
        return ()
    say = "" if request.draft_acceptance is not None else "; --draft-acceptance plans it with what yours keeps"
    return (
        f"{other[0].id} was trained on answers of {model_name(other[0].trained_for)}: another tuning keeps fewer "
        f"of its tokens{say}",
    )


def _tuning(request: Serve, model: Model) -> frozenset[str]:
    return tuning(loaded_as(request.model, id=model.id))


def drafts_told(drafts: tuple[PublishedDraft, ...]) -> str:
    """What is drafted, and how much of it is kept, from the fewest tokens to the most."""
    first = drafts[0]
    counts = " or ".join(str(one.tokens) for one in drafts)
    ranges = (
        percent(one.low) if one.low == one.high else f"{percent(one.low)} to {percent(one.high)}" for one in drafts
    )
    kept = " or ".join(dict.fromkeys(ranges))
    planned = " or ".join(dict.fromkeys(percent(one.low) for one in drafts))
    by = f" by {first.model}" if first.model else ""
    return (
        f"speculative decoding of {counts} token{'' if counts == '1' else 's'} a step{by}, {kept} of them kept,"
        f" planned at {planned} ({first.source})"
    )


MOST_MERGED: Final = 16
"""Adapters up to which each is tried on replicas of its own."""
SLOTS: Final = (8, 32, 128, 512)
"""Slots that are tried where there are more adapters: the same for any count, so that more adapters never cost less."""


ASSUMED: Final = (
    "every request is for one of the adapters, whichever replica it reaches; prompts find nothing of another "
    "adapter's cache, which prefix hits do not count; routed experts carry no adapters",
    "swapped adapters lie in host memory, and no more sequences run than have an adapter in a slot on average",
)
"""What is taken as given of adapters."""


def check_adapters(fields: AdapterFields, *, engines: tuple[str, ...]) -> None:
    """
    Refuses adapters that none of the engines serves and that are too many to merge; nothing without adapters.

    Raises
    ------
    BadRequest
        No engine has slots of that rank, and there are too many to merge.
    """
    count, rank = fields.adapters, fields.adapter_rank
    if count is None or count <= MOST_MERGED:
        return
    specs = [engine_spec(name) for name in engines]
    if any(_able(name, rank) for name in engines):
        return
    able = [spec for spec in specs if spec.serves_adapters]
    if able:
        most = max(spec.adapter_ranks[-1] for spec in able)
        raise BadRequest(
            f"adapter_rank: {rank} is above {most}, the largest that {able[0].title} has slots for; "
            f"lower it, or merge: up to {MOST_MERGED} adapters are planned on replicas of their own"
        )
    raise BadRequest(
        f"adapters: {' and '.join(engines)} is not planned with many LoRA adapters, and {count} are too many to merge "
        f"(at most {MOST_MERGED}); plan with --engine vllm or sglang"
    )


def _able(engine: str, rank: int) -> bool:
    spec = engine_spec(engine)
    return spec.serves_adapters and (not spec.adapter_ranks or rank <= spec.adapter_ranks[-1])


def adapter_modes(fields: AdapterFields, model: Model, *, configuration: Configuration) -> Iterator[Configuration]:
    """
    The configuration once for each number of adapter slots on a replica: all resident, fewer (swapped), or 0 = merged
    into copies of the weights; none where the engine has no such slots and there are too many to merge. `allocated` is
    the rank that slots are sized for where the adapters' own is none of the engine's.
    """
    assert fields.adapters is not None
    made = Adapters(
        count=fields.adapters, rank=fields.adapter_rank, skew=fields.adapter_skew, targets=_targets(fields, model)
    )
    ranks = engine_spec(configuration.engine.name).adapter_ranks
    slots = []
    if _able(configuration.engine.name, made.rank):
        slots = [made.count, *(each for each in SLOTS if each < made.count)]
    slots += [0] if made.count <= MOST_MERGED else []
    for each in slots:
        allocated = next((rank for rank in ranks if rank > made.rank), 0) if made.rank not in ranks else 0
        kept = replace(made, slots=each, allocated=allocated if each else 0)
        yield replace(configuration, engine=replace(configuration.engine, adapters=kept))


def _targets(fields: AdapterFields, model: Model) -> tuple[str, ...]:
    """The matrices that the request names, which the model must have."""
    said = target_names(fields.adapter_targets or "")
    known = adapter_names(model)
    for name in said:
        if name not in known:
            raise UnknownName("adapter target", name, known=known)
    return said


def adapter_decision(
    ranked: tuple[ServeOption, ...], found: list[tuple[Candidate, ServeOption]]
) -> tuple[Decision, ...]:
    """
    Why the first option keeps its adapters as it does, and what the other ways cost at least; empty without options or
    adapters.
    """
    mine = ranked[0].configuration.engine.adapters if ranked else None
    if mine is None:
        return ()
    first = next(one for one, other in found if other.configuration == ranked[0].configuration)
    others: dict[str, float] = {}
    for _, option in found:
        one = option.configuration.engine.adapters
        if one is not None and one.kept != mine.kept:
            others[one.kept] = min(others.get(one.kept, math.inf), option.bill.usd_per_hour)
    told = [f"{kept} {show(usd, 'USD/h')} at least" for kept, usd in sorted(others.items(), key=lambda each: each[1])]
    less = [kept for kept in ("resident", "swapped", "merged") if kept != mine.kept and kept not in others]
    if less:
        told.append(f"{' and '.join(less)} not possible, or more expensive than what was worth looking at")
    return (
        Decision(
            question=f"How are the {mine.count} adapters kept?",
            answer=mine.kept,
            because=f"{_because(mine, first, ttft_s=ranked[0].capacity.ttft_mean_s)}; {', '.join(told)}",
        ),
    )


def _because(mine: Adapters, first: Candidate, *, ttft_s: float) -> str:
    """
    What adapters kept the chosen way (merged, resident or loaded when asked for) take of memory on the first option's
    replicas, and how long requests wait for one.
    """
    at = first.replica.placement
    if mine.kept == "merged":
        return "each has replicas of its own, which run as fast as the base"
    each = adapter_bytes(at.model, rank=mine.rank, targets=mine.targets, layout=at.layout)
    running = first.best.concurrency / at.layout.dp
    seen = min(distinct_adapters(count=mine.count, skew=mine.skew, sequences=running), mine.slots)
    told = f"{mine.slots} slots of {show(each, 'bytes')} an accelerator; a full replica's step reads {seen:.3g} of them"
    if mine.kept == "resident":
        return f"{told}, and no request waits for one"
    load = load_s(at)
    missed = misses(mine)
    return (
        f"{told}; {percent(missed)} of requests wait {show(load, 's')} for one, "
        f"{percent(missed * load / ttft_s)} of TTFT"
    )
