"""
What does a replica find again of its sessions' prompts, and what does that make of its capacity?

The path: request -> session profile -> drawn turns -> the replica's tiers of cache -> tokens that are left to compute
(`simulation.session_steady`). What a cache keeps depends on the rate, and the rate on what it keeps: the two are found
together, in a few rounds. The rate is that at capacity, so that a plan's hits hold when replicas are full.

Left out: a router that loses prefixes (the plan's table says what that costs), and cold caches after a start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tonnage.catalog.traffic import session_profile
from tonnage.core.kept_replicas import build_replica
from tonnage.core.replica import Replica, state_of
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.groups import SessionFields
from tonnage.domain.requests.serve import Serve
from tonnage.domain.sessions import PrefixReuse, SessionClass, SessionProfile, Spread, TierShare
from tonnage.errors import BadRequest
from tonnage.physics.memory import kv_bytes_per_token
from tonnage.physics.offload import LINK_SHARE
from tonnage.simulation.capacity import Point
from tonnage.simulation.session_steady import (
    SteadyTier,
    SteadyTurns,
    found_in,
    steady_turns,
    without_answers,
)
from tonnage.simulation.step_parts import has_states
from tonnage.units import percent

if TYPE_CHECKING:
    from tonnage.simulation.simulated import Requests

FALLS: Final = -0.5
"""Of the rate that a cache allows, over that which its hits were found at, in logarithms: until two are known. [-]"""
ROUNDS: Final = 6
"""Of rate and hits, at most."""
CLOSE: Final = 0.03
"""Between the rate that hits were found at and the one they allow, at which the rounds end. [-]"""
CHUNK_TOKENS: Final = 256
"""LMCache's default chunk: what one layer holds of it is copied at once. [tokens]"""
COPY_S: Final = 5e-6
"""Start of one copy between host and accelerator: a launch, of the order of some microseconds; assumed. [s]"""
PER_NODE: Final = 8
"""Accelerators of a node, where the catalogue does not say."""
STATED: Final = ("turns", "turn_gap_s", "system_prompt", "branching")
CLASS_ENDS: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Where classes of prompts end: those of published quantiles. [-]"""
PromptClasses = tuple[tuple[float, float, float], ...]
NORMAL: Final = ((0.0, -2.6), (0.05, -1.645), (0.25, -0.674), (0.5, 0.0), (0.75, 0.674), (0.95, 1.645), (1.0, 2.6))
"""Quantiles of the normal distribution."""


def _around(mean: float, sigma: float = 1.0) -> Spread:
    """A log-normal distribution of that mean."""
    return tuple((share, mean * math.exp(sigma * z - sigma**2 / 2.0)) for share, z in NORMAL)


def _scale_spread(spread: Spread, factor: float) -> Spread:
    return tuple((share, value * factor) for share, value in spread)


def check_sessions(fields: SessionFields, *, profile: str | None) -> None:
    """
    Refuse fields of sessions that contradict one another; `profile` is that of the traffic, None without one.

    Raises
    ------
    BadRequest
        Fields that contradict, or one that is missing beside another.
    """
    stated = [name for name in STATED if getattr(fields, name) is not None]
    known = session_profile(profile)
    if fields.prefix_hits is not None and (stated or not fields.reuse):
        other = stated[0].removesuffix("_s") if stated else "reuse: no"
        raise BadRequest(f"prefix_hits and {other} contradict: hits are stated, or follow from sessions; leave out one")
    if not fields.reuse and stated:
        raise BadRequest(f"reuse: no and {stated[0].removesuffix('_s')} contradict; leave out one of them")
    if fields.turns == 1.0 and fields.turn_gap_s is not None:
        raise BadRequest("turns: 1 and turn_gap contradict: a session of one turn has nothing between its turns")
    if stated and known is None and not (fields.turns and (fields.turn_gap_s or fields.turns == 1.0)):
        raise BadRequest(
            f"{stated[0].removesuffix('_s')}: sessions need turns and turn_gap ('20 s') where the traffic has none of"
            " its own (agent, coding-agent, deep-research, chat-sessions, rag, long-chat have)"
        )
    if fields.success_rate is not None and known is None and not stated:
        raise BadRequest("success_rate is of sessions; give traffic that has them (agent), or turns and turn_gap")
    for name in ("host", "nvme", "store"):
        size, link = getattr(fields, f"kv_{name}_bytes"), getattr(fields, f"kv_{name}_bytes_per_s")
        if link is not None and size is None:
            raise BadRequest(f"kv_{name}_link: there is no kv_{name} that it reads; say how large it is, as in '2 TB'")
        if size is not None and link is None and name != "host":
            raise BadRequest(f"kv_{name}_link is missing: how fast a node reads from it, as in '20 GB/s'")
        if size is not None and known is None and not stated:
            raise BadRequest(f"kv_{name} keeps cache for sessions; give traffic that has them, or turns and turn_gap")


def profile_of(fields: SessionFields, lengths: Lengths) -> SessionProfile | None:
    """
    The sessions of a request: its traffic's, with what it states itself.

    None where reuse is off, the hits are stated, or nothing is known of its sessions.
    """
    known = session_profile(fields.profile or lengths.profile)
    stated = any(getattr(fields, name) is not None for name in STATED)
    if not fields.reuse or fields.prefix_hits is not None or (known is None and not stated):
        return None
    found = known or SessionProfile(
        name="stated",
        what="sessions as stated",
        source="stated in the request",
        max_context=1e9,
        classes=(
            SessionClass(
                go_on=(0.0,),
                gap_s=_around(fields.turn_gap_s or 1.0),
                first_tokens=_around(lengths.prompt_tokens),
                growth_tokens=_around(lengths.prompt_tokens / 2.0),
                output_tokens=_around(lengths.output_tokens),
            ),
        ),
    )
    classes = tuple(_stated_class(one, fields, whole=found) for one in found.classes)
    shared = found.shared if fields.system_prompt is None else ((fields.system_prompt, 1.0),)
    return replace(found, classes=classes, shared=shared)


def _stated_class(one: SessionClass, fields: SessionFields, *, whole: SessionProfile) -> SessionClass:
    """A class of a profile's sessions, with the turns, the mean gap and the branching that the request states."""
    if fields.turns is not None:
        one = replace(one, go_on=(1.0 - 1.0 / fields.turns,))
    if fields.turn_gap_s is not None:
        turns = steady_turns(replace(whole, classes=(replace(one, share=1.0),)))
        gaps = turns.gap_s[turns.gap_s < math.inf]
        one = replace(one, gap_s=_scale_spread(one.gap_s, fields.turn_gap_s / float(gaps.mean()) if len(gaps) else 1.0))
    if fields.branching is not None:
        kept = one.branch_kept or ((0.0, 0.1), (1.0, 0.95))
        one = replace(one, branch_share=fields.branching, branch_kept=kept)
    return one


@cache
def drawn_turns(profile: SessionProfile, *, prompt_tokens: float, output_tokens: float) -> SteadyTurns:
    """
    Turns of the sessions, stretched to these means of prompts and answers; what sessions share stays as long. [tokens]

    Raises
    ------
    BadRequest
        What sessions share is longer than their prompts.
    """
    import numpy as np

    turns = steady_turns(profile)
    common = float(turns.shared.mean())
    if common >= prompt_tokens - 1.0:
        raise BadRequest(
            f"system_prompt: sessions share {common:,.0f} tokens, and prompts have {prompt_tokens:,.0f} on average;"
            " give longer prompts (prompt_tokens), or a shorter system_prompt"
        )
    factor = (prompt_tokens - common) / max(1.0, float(turns.prompt.mean()) - common)
    if abs(factor - 1.0) > 0.02:  # drawn lengths miss their mean by chance
        own = {name: getattr(turns, name) * factor for name in ("own", "left")}
        whole = {name: turns.shared + (getattr(turns, name) - turns.shared) * factor for name in ("prompt", "kept")}
        whole["before"] = np.where(turns.before > 0, turns.shared + (turns.before - turns.shared) * factor, 0.0)
        turns = turns._replace(**own, **whole)
    return turns._replace(output=turns.output * output_tokens / float(turns.output.mean()))


def _too_short(profile: SessionProfile, lengths: Lengths) -> bool:
    """Prompts that end within what their sessions share, as break-even points may ask for."""
    return sum(tokens * share for tokens, share in profile.shared) >= 0.9 * lengths.prompt_tokens


def lengths_of(profile: SessionProfile, lengths: Lengths) -> Lengths:
    """Lengths that follow from sessions whose turns or system prompt the request states itself."""
    import numpy as np

    turns = steady_turns(profile)
    long_prompt, long_answer = (float(np.quantile(column, 0.95)) for column in (turns.prompt, turns.output))
    return replace(
        lengths,
        prompt_tokens=float(turns.prompt.mean()),
        output_tokens=float(turns.output.mean()),
        prompt_p95=long_prompt,
        output_p95=long_answer,
    )


def with_reuse(
    request: Serve,
    *,
    build: Callable[[Lengths], Replica],
    best_of: Callable[[Replica], Point | None],
    answers: bool = True,
    near: Replica | None = None,
    rate_per_s: float | None = None,
) -> Replica:
    """
    The replica as `build` makes it from lengths, with what its cache gives at the rate that it then takes.

    As built, without that, where nothing is known of sessions, hits are stated, the engine caches no prefixes or the
    model does not fit. `best_of` gives the largest load that a replica takes within the objectives, None where there
    is none. Without `answers` it is a worker that computes prompts and hands their caches over. The search begins at a
    replica `near` whose cache was found to give about as much, else at one without reuse; where it is known what it
    takes (`rate_per_s`), nothing is searched.
    """
    lengths = _stated_hits(request)
    profile = profile_of(request.sessions, lengths)
    plain = near if near is not None and near.reuse is not None and profile is not None else build(lengths)
    caching = plain.engine.prefix_caching if plain.times is not None else None
    if profile is None or not caching or plain.times is None or _too_short(profile, lengths):
        return plain
    import numpy as np

    turns = _kept_turns(profile, lengths, answers=answers)
    long_prompt = lengths.prompt_p95 or float(np.quantile(turns.prompt, 0.95))
    best = best_of(plain)
    # Where the whole prompt is too slow, what sessions leave of it may not be: a first guess from the work alone.
    rate = rate_per_s or (best.rate_per_s if best is not None else 0.5 / max(plain.times.prefill_work_s, 1e-6))
    token_s = plain.times.prefill_s / (plain.reuse.computed_tokens if plain.reuse else max(1.0, lengths.prompt_tokens))
    found, slope, before = plain, FALLS, (0.0, 0.0)
    for _ in range(1 if rate_per_s else ROUNDS):
        met = turns_apart(turns, 0.0 if best is None else best.ttft_mean_s + lengths.output_tokens * best.tpot_mean_s)
        reuse, classes = reused_at(request, plain, turns=met, rate_per_s=rate, token_s=token_s)
        reuse = replace(reuse, answers=answers)
        known = replace(
            lengths,
            computed_tokens=reuse.computed_tokens,
            computed_p95=reuse.computed_p95,
            prompt_p95=long_prompt,
            prompts=classes,
        )
        found = replace(build(known), reuse=reuse)
        best = best_of(found)
        if best is None or abs(best.rate_per_s / rate - 1.0) < CLOSE:
            break
        seen = math.log(rate), math.log(best.rate_per_s)
        if any(before):
            slope = min(0.0, (seen[1] - before[1]) / (seen[0] - before[0]))
        # Where the line through both pairs has the rate that a cache allows at the one that its hits were found at.
        rate, before = math.exp((seen[1] - slope * seen[0]) / (1.0 - slope)), seen
    return found


def _kept_turns(profile: SessionProfile, lengths: Lengths, *, answers: bool) -> SteadyTurns:
    """The sessions' turns of these lengths, as caches with or without their answers hold them."""
    turns = drawn_turns(profile, prompt_tokens=lengths.prompt_tokens, output_tokens=lengths.output_tokens)
    return turns if answers else without_answers(turns)


def _stated_hits(request: Serve) -> Lengths:
    """The lengths with what is left of prompts to compute, where the request states the hits of its cache."""
    lengths, hits = request.lengths, request.sessions.prefix_hits
    if not hits:
        return lengths
    long = lengths.prompt_p95 * (1.0 - hits) if lengths.prompt_p95 else None
    return replace(lengths, computed_tokens=max(1.0, lengths.prompt_tokens * (1.0 - hits)), computed_p95=long)


def turns_apart(turns: SteadyTurns, answered_s: float) -> SteadyTurns:
    """The turns where none is sent before the answer to the one before it is there."""
    import numpy as np

    return turns._replace(gap_s=np.maximum(turns.gap_s, answered_s), until_s=np.maximum(turns.until_s, answered_s))


def replica_at(request: Serve, configuration: Configuration, *, replica: Replica, rate_per_s: float) -> Replica:
    """A replica with what its cache gives at another rate than its capacity by averages; itself without reuse."""
    if replica.reuse is None:
        return replica
    at = replica.placement
    build = partial(build_replica, model=at.model, accelerator=at.accelerator, configuration=configuration)
    return with_reuse(request, build=build, best_of=partial(_best_of, request), near=replica, rate_per_s=rate_per_s)


def _best_of(request: Serve, replica: Replica) -> Point | None:
    """The largest load that a replica takes within the objectives."""
    return state_of(request, replica).largest()[0] if replica.times else None


def reusing_replica(request: Serve, configuration: Configuration, *, model: Model, accelerator: Accelerator) -> Replica:
    """The replica of a configuration for the request's lengths and sessions."""
    build = partial(build_replica, model=model, accelerator=accelerator, configuration=configuration)
    return with_reuse(request, build=build, best_of=partial(_best_of, request))


def reused_at(
    request: Serve,
    replica: Replica,
    *,
    turns: SteadyTurns,
    rate_per_s: float,
    token_s: float,
) -> tuple[PrefixReuse, PromptClasses]:
    """
    What a replica's tiers of cache give of its prompts, and how what is left of these spreads.

    Parameters
    ----------
    turns : SteadyTurns
        Prompts of the sessions in their lengths.
    rate_per_s : float
        Prompts of this replica. [1/s]
    token_s : float
        Computing one token of a prompt: what a slow tier must beat. [s]
    """
    import numpy as np

    tiers = _tiers(request, replica, rate_per_s=rate_per_s)
    steady = tuple(SteadyTier(tokens=tier.tokens, load_s=tier.load_s) for tier in tiers)
    if has_states(replica.placement.model):
        # A recurrent state stands at the end of a turn alone: what branches off, or only shares a beginning, has none.
        turns = turns._replace(kept=np.where(turns.whole > 0, turns.kept, 0.0), beginnings=())
    saved, given, kept_s = found_in(turns, steady, turns_per_s=rate_per_s, token_s=token_s)
    prompt = float(turns.prompt.sum())
    left = turns.prompt - saved
    found = PrefixReuse(
        rate_per_s=rate_per_s,
        hit_rate=float(sum(column.sum() for column in given)) / prompt,
        unbounded=float(turns.kept.sum()) / prompt,
        computed_tokens=max(1.0, float(left.mean())),
        computed_p95=max(1.0, float(np.quantile(left, 0.95))),
        kept_s=kept_s[0],
        tiers=tuple(
            replace(tier, share=float(column.sum()) / prompt) for tier, column in zip(tiers, given, strict=True)
        ),
        turns=len(turns.prompt) / turns.sessions,
    )
    return found, _spread_of(left, saved)


def _spread_of(left: Any, saved: Any) -> PromptClasses:
    """Prompts by what is left of them to compute: share, mean of what is left, mean of what was found."""
    import numpy as np

    ends = (np.array(CLASS_ENDS) * len(left)).astype(int)
    parts = np.split(np.argpartition(left, ends), ends)
    return tuple(
        (len(part) / len(left), max(1.0, float(left[part].mean())), float(saved[part].mean()))
        for part in parts
        if len(part)
    )


def _tiers(request: Serve, replica: Replica, *, rate_per_s: float) -> tuple[TierShare, ...]:
    """
    The replica's tiers of cache, the fastest first: tokens that each keeps for it, and the time to load one [s].

    Of a node's memory and disks it has the share of its accelerators; tiers that the request does not name are absent.
    """
    at, fields = replica.placement, request.sessions
    layout, part = replica.case.layout, at.accelerator
    rank_bytes = kv_bytes_per_token(at.model, at.precision.kv, layout=layout).value
    # Every tensor-parallel rank keeps its own, which for latent attention is the same once more; data-parallel ranks
    # keep different tokens.
    token_bytes = max(1.0, rank_bytes * layout.ranks / layout.dp)
    node = part.max_per_node or PER_NODE
    share = layout.ranks / node
    tiers = [TierShare(name="accelerator", tokens=replica.kv_tokens, share=0.0)]
    own = (part.host_link.bytes_per_s or 0.0) * LINK_SHARE
    copies_s = 2.0 * at.model.num_layers * COPY_S / CHUNK_TOKENS
    places = (
        ("host", (fields.kv_host_bytes or 0.0) * share, (fields.kv_host_bytes_per_s or own * node) / node),
        ("nvme", (fields.kv_nvme_bytes or 0.0) * share, (fields.kv_nvme_bytes_per_s or 0.0) / node),
        ("store", _of_store(request, rate_per_s), (fields.kv_store_bytes_per_s or 0.0) / node),
    )
    for name, room, speed in places:
        if room > 0.0:
            load_s = rank_bytes / min(speed, own or speed) + copies_s if speed > 0.0 else math.inf
            tiers.append(TierShare(name=name, tokens=room / token_bytes, share=0.0, load_s=load_s))
    return tuple(tiers)


def _of_store(request: Serve, rate_per_s: float) -> float:
    """Of a store that all replicas share, the part of one: that of its rate in the peak rate of all. [bytes]"""
    room = request.sessions.kv_store_bytes or 0.0
    whole = (request.rate_per_s or rate_per_s) * request.shape.peak_to_mean
    return room * min(1.0, rate_per_s / whole)


def sessions_assumed(request: Serve) -> tuple[str, ...]:
    """What is taken for granted of prompts that come back."""
    profile, hits = profile_of(request.sessions, request.lengths), request.sessions.prefix_hits
    if hits:
        return (f"{percent(hits)} of the prompts' tokens are found in the cache, as stated, on every option alike",)
    if profile is None:
        why = "as asked" if not request.sessions.reuse else "none is known of this traffic; state turns and turn_gap"
        return (f"every prompt is computed in full: prefix caching is on, and finds nothing ({why})",)
    fields = request.sessions
    slower = fields.kv_host_bytes or fields.kv_nvme_bytes or fields.kv_store_bytes
    own = "cache beyond the accelerators is to be turned on in the engine; exported files leave it off"
    return (
        *([own] if slower else []),
        f"sessions '{profile.name}': {profile.source}",
        "a router that follows prefixes: a session stays on its replica while loads are even",
        "hits are those of a warm cache at a replica's capacity; separate prefill workers keep prompts, not answers",
    )


def reused_requests(request: Serve, replica: Replica, *, requests: Requests) -> Callable[[float], Requests]:
    """
    Rate of the replica [1/s] -> drawn requests with the prompts of sessions, and of each what its cache gives then.

    With stated hits each has that share; where nothing is known of sessions they come back as they are.
    """
    import numpy as np

    hits = request.sessions.prefix_hits
    if hits:
        found = requests._replace(cached=np.minimum(requests.prompt - 1, (requests.prompt * hits).astype(np.int64)))
        return lambda _: found
    reuse, profile = replica.reuse, profile_of(request.sessions, request.lengths)
    if reuse is None or profile is None:
        return lambda _: requests
    assert replica.times is not None
    turns = _kept_turns(profile, request.lengths, answers=reuse.answers)
    token_s = replica.times.prefill_s / max(1.0, reuse.computed_tokens)

    def saved_at(rate_per_s: float) -> Any:
        # Of a store that all share, a replica has the part of its rate.
        part = {"store": rate_per_s / reuse.rate_per_s}
        tiers = (SteadyTier(tokens=t.tokens * part.get(t.name, 1.0), load_s=t.load_s) for t in reuse.tiers)
        return found_in(turns, tuple(tiers), turns_per_s=rate_per_s, token_s=token_s).saved

    # Evenly over the turns by what is left to compute at capacity, in any order: another draw has the same work.
    count, saved = len(requests.prompt), saved_at(reuse.rate_per_s)
    evenly = ((np.arange(count) + 0.5) / count * len(saved)).astype(int)
    rows = np.random.default_rng(0).permutation(np.argsort(turns.prompt - saved)[evenly])
    prompt = np.maximum(1, np.rint(turns.prompt[rows])).astype(np.int64)
    drawn = requests._replace(prompt=prompt, output=np.maximum(1, np.rint(turns.output[rows])).astype(np.int64))
    return lambda rate_per_s: drawn._replace(cached=np.minimum(prompt - 1, saved_at(rate_per_s)[rows].astype(np.int64)))
