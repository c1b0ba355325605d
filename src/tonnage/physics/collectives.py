"""How long ranks take to exchange a message: latency and bandwidth, in two regimes.

The link inside a node is the accelerator's own (NVLink, xGMI, ICI) or, without one, the host's PCIe,
where it matters whether cards can read each other's memory. Between nodes the network's rate applies:
ranks of one node share the message between their adapters (`level_bytes`, for serving and for training).
Measured grids of a ladder replace these formulas where they exist. Congestion by other jobs and
overlap with compute are left to the caller.
"""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import Grid, Ladder, Machine, Rung
from tonnage.physics.efficiency import grid_s
from tonnage.physics.work import Operator

_DEFAULT_NETWORK_BYTES_PER_S = 50e9  # one 400 Gb/s adapter per accelerator, the usual training node
_SLOWEST_HOST_BYTES_PER_S = 15.75e9  # PCIe 3.0 x16, the slowest slot these parts ship with
_PEERS = frozenset({"datacenter", "cloud-only", "workstation"})
"""
Segments whose cards read each other's memory over PCIe unless said otherwise; NVIDIA's drivers refuse it to GeForce.

NVIDIA publishes no list by product. Seen on workstation cards with the stock driver: two RTX 5880 Ada
(github.com/NVIDIA/nccl/issues/2079, 2026-04) and RTX PRO 6000 Blackwell (github.com/vllm-project/vllm/issues/33041,
2026-01), both once the host's access control (ACS, IOMMU) was off, which otherwise hangs or diverts it. RTX A6000 and
older Quadro cards: unverified.
"""
_NEAREST_RANKS = {2: (2,), 3: (4, 2), 4: (4,), 5: (8, 4), 6: (8, 4), 7: (8, 4), 8: (8, 4)}
_MANY_RANKS = (16, 8, 4)
_SMALL_BYTES = 512 * 1024  # below this a message does not fill the link (NCCL's protocol change, custom one-shot)


def ring_traffic(kind: str, ranks: int) -> float:
    """
    Bytes that one rank sends over its link, per byte of the full message.

    All-reduce moves the message twice over a ring, 2 (t-1)/t; gather, scatter and all-to-all once;
    point-to-point sends it as it is.
    """
    share = (ranks - 1) / ranks
    return {"all_reduce": 2 * share, "point_to_point": 1.0}.get(kind, share)


def ring_steps(kind: str, ranks: int) -> int:
    """
    Messages that follow one another around a ring: r - 1 of a gather or scatter, twice as many of an all-reduce.

    Parameters
    ----------
    kind : str
        A collective; others than these three do not go around, 0.
    ranks : int
        r, ranks of the group. [-]

    Returns
    -------
    int
        Steps that each wait for the one before. [-]

    Valid
    -----
    At least one rank.

    Source
    ------
    NCCL's ring algorithm. Over PCIe its smallest all-reduce takes 6.3 and 7.3 us among 2 cards, 13.0 and 12.1 among 4,
    24.5 and 22.7 among 8 (RTX PRO 6000 and L40S, NCCL 2.29 and 2.27; aiconfigurator-core 0.12.0).

    Examples
    --------
    >>> ring_steps("all_reduce", 8), ring_steps("all_gather", 8), ring_steps("all_to_all", 8)
    (14, 7, 0)
    """
    return {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}.get(kind, 0) * (ranks - 1)


class LevelBytes(NamedTuple):
    """Bytes that one rank sends, by the links that they take."""

    inside: float
    """Over the links of its node or scale-up domain. [bytes]"""
    outside: float
    """Over its own adapter between them. [bytes]"""
    domains: int
    """Nodes or domains that the group spans. [-]"""


def level_bytes(kind: str, message_bytes: float, *, ranks: int, per_domain: int, crossing: float = 1.0) -> LevelBytes:
    """
    Bytes of a collective over nodes with fast links inside.

    All-reduce, gather and scatter run inside each domain and then between domains, where every rank's adapter carries
    the share of its domain that the rank holds: t M (p-1)/p inside and t M (d-1)/(d p) outside, for p ranks in each of
    d domains, t = 2 for all-reduce and 1 else. In an all-to-all every rank has a message of its own, of which the part
    c (d-1)/d leaves the domain.

    Parameters
    ----------
    kind : str
        "all_reduce", "all_gather", "reduce_scatter" or "all_to_all".
    message_bytes : number
        M, the full message; of an all-to-all, what one rank sends. [bytes]
    ranks : int
        Ranks of the group. [-]
    per_domain : int
        p, those of them in one domain, at least 1. [-]
    crossing : number, optional
        c, what crosses to another domain over what is delivered there: below 1 where a token goes once to a domain
        and is copied inside. [-]

    Returns
    -------
    LevelBytes
        What one rank sends inside and outside, and the number of domains.

    Valid
    -----
    One adapter per rank, and as many ranks in every domain (the last may be short: counted as full).

    Source
    ------
    NCCL's rings and trees over nodes; for the all-to-all, DeepSeek-V3 (arXiv 2412.19437), section 3.2.2.

    Examples
    --------
    >>> level_bytes("all_reduce", 64e6, ranks=16, per_domain=8)
    LevelBytes(inside=112000000.0, outside=8000000.0, domains=2)
    """
    domains = ceil(ranks / per_domain)
    turns = 2.0 if kind == "all_reduce" else 1.0
    share = crossing if kind == "all_to_all" else 1.0 / per_domain
    return LevelBytes(
        inside=turns * message_bytes * (per_domain - 1) / per_domain,
        outside=turns * message_bytes * (domains - 1) / domains * share,
        domains=domains,
    )


def distinct_groups(*, groups: float, chosen: float) -> float:
    """
    Groups of experts that one token reaches: G (1 - (1 - 1/G)^k).

    Parameters
    ----------
    groups : number
        G, equal groups: ranks, nodes or domains. [-]
    chosen : number
        k, experts that a token chooses. [-]

    Returns
    -------
    number
        Expected number of distinct groups. [-]

    Valid
    -----
    Uniform, independent routing. Routers that limit a token to few groups reach fewer.

    Source
    ------
    Expected occupancy of G cells by k balls.

    Examples
    --------
    >>> distinct_groups(groups=9, chosen=8)
    5.49
    """
    missed: float = (1.0 - 1.0 / groups) ** chosen
    return groups * (1.0 - missed)


def two_regime_s(*, sent_bytes: float, latency_s: float, bytes_per_s: float, small_share: float) -> float:
    """
    Time of a transfer whose bandwidth rises with its size.

    t = alpha + S / (B (u + (1 - u) S / (S + S0))), S0 = 512 KiB: small messages reach the share u of
    the large-message bandwidth B.

    Parameters
    ----------
    sent_bytes : number
        S, sent by one rank. [bytes]
    latency_s : number
        alpha, of an empty message. [s]
    bytes_per_s : number
        B, bandwidth of large messages. [bytes/s]
    small_share : number
        u, share of it that small messages reach, 0 < u <= 1. [-]

    Returns
    -------
    number
        Time until every rank is done. [s]

    Valid
    -----
    Ranks of one node, or one network path per rank.

    Source
    ------
    hockney-1994, with a second regime as the public all-reduce tables show (docs/log/).

    Examples
    --------
    >>> t = two_regime_s(sent_bytes=64e6, latency_s=5e-6, bytes_per_s=300e9, small_share=0.6)
    >>> print(f"{t * 1e6:.0f} µs")
    219 µs
    """
    share = small_share + (1.0 - small_share) * sent_bytes / (sent_bytes + _SMALL_BYTES)
    return latency_s + sent_bytes / (bytes_per_s * share)


def link_bytes_per_s(accelerator: Accelerator, ladder: Ladder, *, ranks: int, inter_node: bool) -> float:
    """
    Usable rate of one rank, one direction. [bytes/s]

    NVLink and its like up to their domain; beyond a bridged pair, or without a link, PCIe: through
    host memory unless the cards read each other directly.
    """
    curve = ladder.curve
    if inter_node:
        return network_rate(ladder) * curve.network
    if has_link(accelerator, ranks=ranks):
        return link_rate(accelerator, ranks=ranks) * curve.link
    peer = ladder.peer_access if ladder.peer_access is not None else accelerator.segment in _PEERS
    host = accelerator.host_link.bytes_per_s or _SLOWEST_HOST_BYTES_PER_S
    # Host memory is shared: more cards, less for each.
    return host * curve.host_link if peer else host * curve.host_link_no_peer * 2 / ranks


def has_link(accelerator: Accelerator, *, ranks: int) -> bool:
    """Whether so many ranks share a link of their own, rather than PCIe."""
    return bool(accelerator.link.bytes_per_s) and accelerator.link.domain >= ranks


def link_rate(accelerator: Accelerator, *, ranks: int) -> float:
    """Rate that the datasheet gives the link these ranks share: their own, else PCIe. [bytes/s]"""
    if accelerator.link.bytes_per_s and has_link(accelerator, ranks=ranks):
        return accelerator.link.bytes_per_s
    return accelerator.host_link.bytes_per_s or _SLOWEST_HOST_BYTES_PER_S


def network_rate(ladder: Ladder) -> float:
    """Rate of the network between nodes, one accelerator, one direction: as stated, else the usual one. [bytes/s]"""
    return ladder.inter_node_bytes_per_s or _DEFAULT_NETWORK_BYTES_PER_S


def collective_s(op: Operator, *, accelerator: Accelerator, ladder: Ladder) -> tuple[float, Rung, Grid | None]:
    """
    Seconds of one collective, its rung of the ladder, and the grid that was read; none where the formula answers.

    0 on one rank, or without a message.
    """
    if op.ranks <= 1 or op.message_bytes <= 0:
        return 0.0, "own", None
    if op.inter_node and op.per_node > 1:
        return _two_levels_s(op, accelerator, ladder), "generic", None
    if ladder.grids and not op.inter_node:
        measured = _measured_seconds(op, accelerator, ladder)
        if measured is not None:
            return measured
    curve = ladder.curve
    rate = link_bytes_per_s(accelerator, ladder, ranks=op.ranks, inter_node=op.inter_node)
    sent = ring_traffic(op.kind, op.ranks) * op.message_bytes
    over_pcie = not (op.inter_node or has_link(accelerator, ranks=op.ranks))
    over_pcie &= accelerator.host_link.kind.startswith("pcie")
    steps = ring_steps(op.kind, op.ranks) if over_pcie else 0
    hop_s = curve.network_hop_s if op.inter_node else curve.hop_s
    latency = curve.collective_launch_s + (curve.ring_step_s * steps if steps else hop_s * ceil(log2(op.ranks)))
    small = curve.ring_small if steps else curve.link_small / curve.link
    return two_regime_s(sent_bytes=sent, latency_s=latency, bytes_per_s=rate, small_share=small), "generic", None


def _two_levels_s(op: Operator, accelerator: Accelerator, ladder: Ladder) -> float:
    """
    Inside each node by its own links, and between nodes with one adapter for each rank.

    Gathers, scatters and all-to-alls stream through both at once; a reduction is done with one before the other.
    """
    curve = ladder.curve
    sent = level_bytes(op.kind, op.message_bytes, ranks=op.ranks, per_domain=op.per_node, crossing=op.crossing)
    near = replace(op, ranks=op.per_node, inter_node=False)
    inside = collective_s(near, accelerator=accelerator, ladder=ladder)[0]
    hops = ceil(log2(sent.domains)) * (2 if op.kind == "all_reduce" else 1)
    outside = two_regime_s(
        sent_bytes=sent.outside,
        latency_s=curve.collective_launch_s + curve.network_hop_s * hops,
        bytes_per_s=network_rate(ladder) * curve.network,
        small_share=curve.link_small / curve.link,
    )
    return inside + outside if op.kind == "all_reduce" else max(inside, outside)


def _measured_seconds(op: Operator, accelerator: Accelerator, ladder: Ladder) -> tuple[float, Rung, Grid] | None:
    """From the grid of that many ranks, else of the nearest number that was measured; none where no grid answers."""
    linked = has_link(accelerator, ranks=op.ranks)
    over = ("",) if linked else ("/pcie/local", "/pcie")
    # GeForce drivers refuse what the part that lends its grids can do: read the other card's memory.
    no_peer_access = not linked and ladder.peer_access is not True and accelerator.segment == "consumer"
    for ranks in _NEAREST_RANKS.get(op.ranks, _MANY_RANKS):
        keys = (f"{op.kind}/{ranks}{path}" for path in over)
        grid = next((ladder.grids[key] for key in keys if key in ladder.grids), None)
        if grid is None or (no_peer_access and grid.rung != "own"):
            continue
        rate = link_rate(accelerator, ranks=op.ranks)
        machine = Machine(
            peak_flop_per_s=1.0, memory_bytes_per_s=1.0, link_bytes_per_s=rate / ring_traffic(op.kind, op.ranks)
        )
        extra = ladder.curve.hop_s * max(0.0, log2(op.ranks / ranks))
        seconds = grid_s(grid, (op.message_bytes,), machine=machine, weights_bytes=1.0, width=1.0) + extra
        return seconds, grid.rung, grid
    return None
