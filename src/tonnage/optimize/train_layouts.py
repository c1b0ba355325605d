"""Every legal arrangement of a training step on a count of accelerators, best first.

Degrees multiply to the count: tp x pp x cp x dp; ep cuts the experts over the ranks that share them. Each arrangement
is tried with the micro-batches and kinds of recomputation that its software has. The search is a branch and bound:

1. bounds on the step, from the pipeline's bubble and what no arrangement undercuts, order the candidates;
2. memory, cheap, removes those that do not fit, and says how surely the others do;
3. the step time, which takes longest, is computed only while a candidate's bound is below the times of those that fit
   as surely.

What may fit, how long a step takes and what bounds it are functions of the caller, so that this file knows neither
calibration nor accelerators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec.structs import replace

from tonnage.domain.layout import Sharding, TrainLayout
from tonnage.domain.model import Moe
from tonnage.domain.training import Recompute, TrainSetup
from tonnage.physics.pipeline import bubble_turns, stage_layers
from tonnage.record import Record

MIN_TOKENS_PER_CONTEXT_RANK: Final = 4096
"""Tokens of one sequence that a context-parallel rank keeps: fewer leave it nothing to overlap. [tokens]"""
MAX_TOKENS: Final = 32768
"""Of one micro-batch on one rank: larger ones gain nothing and hold memory. [tokens]"""
MAX_TP: Final = 16
MAX_CP: Final = 16
MAX_PP: Final = 64
MAX_VIRTUAL_STAGES: Final = 8


class Space(Record, kw_only=True):
    """What is arranged on which accelerators."""

    count: int
    domain: int
    """Accelerators joined by the fast link: tensor parallelism stays inside. [accelerators]"""
    global_batch: int
    templates: tuple[TrainSetup, ...]
    """One per family of software: everything that the layout does not change."""
    recompute: Recompute | None = None
    """Where it is fixed; absent = searched."""


class Arrangement(Record, kw_only=True):
    """A setup that fits, and its step."""

    setup: TrainSetup
    step_s: float
    chance: float = 1.0
    """That it fits. [-]"""


class Found(Record, kw_only=True):
    """What a search returns."""

    best: tuple[Arrangement, ...]
    """Fastest first; of those that fit as surely no two with the same degrees."""
    smallest: TrainSetup | None = None
    """When nothing fits: what comes closest."""
    short_bytes: float = 0.0
    """By how much that misses. [bytes]"""

    def likely(self, chance: float) -> Arrangement | None:
        """The fastest that fits with at least that chance, else the surest; none where nothing fits."""
        sure = (one for one in self.best if one.chance >= chance)
        return next(sure, None) or max(self.best, key=lambda one: one.chance, default=None)


Fits = Callable[[TrainSetup], float]
"""Bytes by which a setup exceeds its accelerator's memory; zero or less = it fits."""
Seconds = Callable[[TrainSetup], float]
Chance = Callable[[TrainSetup, float], float]
"""How surely a setup fits that leaves so many bytes (`Fits`, so zero or less). [-]"""


def search(
    space: Space,
    *,
    fits: Fits,
    seconds: Seconds,
    bounds: tuple[Seconds, ...],
    chance: Chance = lambda setup, over: 1.0,
    keep: int = 4,
) -> Found:
    """
    The `keep` fastest arrangements that fit, by branch and bound, at every chance of fitting.

    `bounds` never exceed `seconds`; the first is the cheapest to ask and the last the tightest. A candidate is asked
    the next one only when it comes up again. `chance` says how surely a setup fits: an arrangement is left out where
    `keep` others are as fast and as sure.
    """
    # Of what is as fast, fewer and larger micro-batches first.
    tries = enumerate(arrangements(space))
    queue = [(bounds[0](setup), setup.num_micro_batches, index, 0, setup) for index, setup in tries]
    heapify(queue)
    best: list[Arrangement] = []
    smallest: TrainSetup | None = None
    short = math.inf
    while queue:
        least, count, index, level, setup = heappop(queue)
        if _beaten(best, least, chance=1.0, keep=keep):
            break
        if level + 1 < len(bounds):
            heappush(queue, (max(least, bounds[level + 1](setup)), count, index, level + 1, setup))
            continue
        over = fits(setup)
        if over > 0:
            if over < short:
                smallest, short = setup, over
            continue
        sure = chance(setup, over)
        if not _beaten(best, least, chance=sure, keep=keep):
            best = fastest_by_chance([*best, Arrangement(setup=setup, step_s=seconds(setup), chance=sure)], keep=keep)
    if best or smallest is None:
        return Found(best=tuple(best))
    return Found(best=(), smallest=smallest, short_bytes=short)


def _beaten(best: list[Arrangement], step_s: float, *, chance: float, keep: int) -> bool:
    """Whether so many arrangements of different degrees are as fast and as sure."""
    return len({one.setup.layout for one in best if one.step_s <= step_s and one.chance >= chance}) >= keep


def fastest_by_chance(found: Iterable[Arrangement], *, keep: int) -> list[Arrangement]:
    """Those for which fewer than `keep` others, and none of their own degrees, are as fast and as sure."""
    kept: list[Arrangement] = []
    for one in sorted(found, key=lambda a: (a.step_s, -a.chance)):
        ahead = {other.setup.layout for other in kept if other.chance >= one.chance}
        if len(ahead) < keep and one.setup.layout not in ahead:
            kept.append(one)
    return kept


def bubble_factor(setup: TrainSetup, *, layers: int) -> float:
    """Time of a pipelined step over its ideal share: uneven stages and the bubble, at least 1. [-]"""
    layout, m = setup.layout, setup.num_micro_batches
    if layout.pp == 1:
        return 1.0
    uneven = stage_layers(layers=layers, pp=layout.pp, vpp=layout.vpp) * layout.pp / layers
    return max(1.0, (m * (uneven - layout.pp / layers) + bubble_turns(pp=layout.pp, vpp=layout.vpp)) / m)


def arrangements(space: Space) -> Iterator[TrainSetup]:
    """Every legal setup of the space: degrees divide the model, the count and the batch."""
    for template in space.templates:
        for layout in _degrees(space, template):
            if space.global_batch % layout.dp == 0:
                yield from _batches(space, template, layout)


def _degrees(space: Space, template: TrainSetup) -> Iterator[TrainLayout]:
    """Degrees of parallelism that multiply to the count and divide the model."""
    layers = max(1, template.model.depth)
    for tp in _tensor_degrees(space, template):
        for cp in _context_degrees(space, template):
            if space.count % (tp * cp):
                continue
            left = space.count // (tp * cp)
            for pp in _divisors(left) if template.software.model_parallel else [1]:
                if pp > layers:
                    continue
                dp = left // pp
                for ep in _expert_degrees(template, ranks=tp * cp * dp):
                    for sharding in _shardings(space, template, ranks=dp * cp):
                        for vpp in _virtual_stages(template, layers=layers, pp=pp):
                            yield TrainLayout(
                                tp=tp,
                                pp=pp,
                                vpp=vpp,
                                cp=cp,
                                ep=ep,
                                dp=dp,
                                sharding=sharding,
                                sequence_parallel=tp > 1 and template.software.sequence_parallel,
                            )


def _batches(space: Space, template: TrainSetup, layout: TrainLayout) -> Iterator[TrainSetup]:
    """
    Micro-batches (powers of two that divide a rank's share of the batch) and recomputation of one set of degrees.

    Micro-batches of more than `MAX_TOKENS` tokens are left out, but for one sequence alone.
    """
    per_rank = space.global_batch // layout.dp
    for micro in _powers(per_rank):
        steps = per_rank // micro
        large = micro > 1 and micro * template.seq_len / layout.cp > MAX_TOKENS
        # Interleaving needs micro-batches in multiples of the stages.
        if per_rank % micro or large or (layout.vpp > 1 and steps % layout.pp):
            continue
        for recompute in [space.recompute] if space.recompute else _recomputes(template):
            yield replace(
                template,
                layout=layout,
                micro_batch=micro,
                num_micro_batches=steps,
                recompute=recompute,
                recompute_share=1.0,
            )


def _recomputes(template: TrainSetup) -> tuple[Recompute, ...]:
    """
    Kinds of recomputation that are tried: none and full, and selective where the framework tries it and it helps.

    Flash attention recomputes its core anyway: selective mode changes nothing where it repeats the core alone.
    """
    core = template.flash_attention and template.software.selective == "attention"
    if core or not template.software.tries_selective:
        return ("none", "full")
    return ("none", "selective", "full")


def _tensor_degrees(space: Space, template: TrainSetup) -> list[int]:
    """Those that divide the heads and stay on the fast link."""
    groups = template.model.groups
    if not template.software.tensor_parallel or _shards_only(template) or not groups:
        return [1]
    heads = {h for g in groups if (h := getattr(g.mixer, "num_attention_heads", None)) is not None}
    most = min(MAX_TP, space.domain, space.count)
    return [tp for tp in _powers(most) if not any(h % tp for h in heads)]


def _shards_only(template: TrainSetup) -> bool:
    """Whether adapters are trained under a framework that splits no layers by default: its scripts only shard then."""
    return template.adapter and not template.software.model_parallel


def _context_degrees(space: Space, template: TrainSetup) -> list[int]:
    """Those that leave a rank enough tokens."""
    if not template.software.context_parallel or _shards_only(template):
        return [1]
    found = _powers(min(MAX_CP, space.count))
    return [cp for cp in found if cp == 1 or template.seq_len / cp >= MIN_TOKENS_PER_CONTEXT_RANK]


def _expert_degrees(template: TrainSetup, *, ranks: int) -> list[int]:
    """Powers of two that divide the experts of every layer and the ranks of a stage; 1 alone without experts."""
    experts = [g.feed_forward.num_experts for g in template.model.layers if isinstance(g.feed_forward, Moe)]
    if not experts or not template.software.expert_parallel or _shards_only(template):
        return [1]
    whole = math.gcd(*experts)
    return [ep for ep in _powers(min(whole, ranks)) if whole % ep == 0 and ranks % ep == 0]


def _shardings(space: Space, template: TrainSetup, *, ranks: int) -> list[Sharding]:
    """Those that the framework is searched with; none on one rank, and hsdp only where the job spans nodes."""
    if ranks == 1:
        return ["none"]
    several = space.count > template.accelerators_per_node
    return [sharding for sharding in template.software.searched_shardings if several or sharding != "hsdp"]


def _virtual_stages(template: TrainSetup, *, layers: int, pp: int) -> list[int]:
    """
    Chunks per stage: the layers divide evenly, or do with embedding and head counted as one each.

    One chunk alone without a pipeline, or where the framework does not interleave.
    """
    if pp == 1 or not template.software.interleaves:
        return [1]
    found = [v for v in range(2, MAX_VIRTUAL_STAGES + 1) if layers % (pp * v) == 0 or (layers + 2) % (pp * v) == 0]
    return [1, *found]


def _powers(most: int) -> list[int]:
    return [2**i for i in range(max(1, most).bit_length())]


def _divisors(whole: int) -> list[int]:
    return [d for d in range(1, min(whole, MAX_PP) + 1) if whole % d == 0]
