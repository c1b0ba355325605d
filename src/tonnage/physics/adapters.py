"""
How much memory and time do many LoRA adapters on one base model take?

Each adapted matrix W gets two narrow ones, A (rank x inputs) and B (outputs x rank), and a request's rows add B A x to
W x. Rows of one step belong to different adapters, so that a step reads those that are in it: `distinct_adapters` says
how many of a skewed lot. Engines run two kernels for each product they have, over all adapters at once (Punica's SGMV,
vLLM's shrink and expand). Where an accelerator keeps fewer adapters than there are, the one used longest ago makes
room, and `lru_miss_rate` of the requests wait for a copy from the host.

Under tensor parallelism the engine cuts one of the two: B of matrices cut by outputs, A of those cut by inputs.

Left out: arithmetic of the narrow products, which is below their traffic up to ranks of about 256 (one FLOP a byte and
rank); adapters of routed experts; adapters of different rank, which engines pad to the largest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from tonnage.domain.layout import Layout
from tonnage.domain.model import LayerGroup, Model
from tonnage.physics.matrices import Matrix, is_target, layer_matrices
from tonnage.physics.work import Operator, Work

BYTES: Final = 2.0
"""Of one value of an adapter: engines keep them in 16 bits, whatever the base is in. [bytes]"""
_EXACT: Final = 128
"""Most popular adapters that are each a class of their own."""
_WIDER: Final = 1.05
"""Beyond them, how much further down each class reaches than the one before. [-]"""
_SAME_INPUT: Final = {"k_proj": "q_proj", "v_proj": "q_proj"}
"""Products that engines run as one."""
_WORDS: Final = {
    "query": ("q_proj",), "key": ("k_proj",), "value": ("v_proj",), "projection": ("o_proj",), "output": ("o_proj",),
    "mlp": ("gate_proj", "up_proj", "down_proj"), "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
}  # fmt: skip


def target_names(said: str) -> tuple[str, ...]:
    """
    Names of config.json from words ("query+value") or such names ("q_proj,v_proj"); empty = every linear layer.

    >>> target_names("attention"), target_names("all-linear")
    (('q_proj', 'k_proj', 'v_proj', 'o_proj'), ())
    """
    if not said or said.lower() in {"all", "all-linear", "linear"}:
        return ()
    words = said.lower().replace(",", "+").replace(" ", "").split("+")
    return tuple(name for word in words for name in _WORDS.get(word, (word,)))


def adapter_names(model: Model) -> tuple[str, ...]:
    """Every name of a matrix of the model that may have an adapter."""
    found: dict[str, None] = {}
    for _, matrix, pieces in adapted_matrices(model, ()):
        found |= dict.fromkeys(("gate_proj", "up_proj") if pieces == 2 else (matrix.name,))
    return tuple(found)


def adapted_matrices(model: Model, targets: tuple[str, ...]) -> Iterator[tuple[LayerGroup, Matrix, int]]:
    """
    Matrices that adapters change, the layers they stand in, and how many matrices each was merged from.

    No targets stand for every linear layer. Routed experts and matrices that every rank holds whole carry none.
    """
    for group in model.groups:
        for matrix in layer_matrices(group, group.hidden_size or model.hidden_size):
            if matrix.split in {"experts", "whole"} and matrix.name != "q_a_proj":
                continue
            if is_target(matrix.name, targets):
                yield group, matrix, 2 if "gate_up" in matrix.name else 1


def _sides(matrix: Matrix, pieces: int, layout: Layout) -> tuple[float, float]:
    """Values of A and of B on one rank, for each unit of rank: one of them is cut, the other whole."""
    cut = matrix.split == "inputs"
    return pieces * matrix.inputs / (layout.tp if cut else 1), matrix.outputs / (1 if cut else layout.tp)


def adapter_bytes(model: Model, *, rank: int, targets: tuple[str, ...] = (), layout: Layout | None = None) -> float:
    """One adapter on one rank of a replica. [bytes]"""
    at = layout or Layout()
    values = sum(
        group.count * sum(_sides(matrix, pieces, at)) for group, matrix, pieces in adapted_matrices(model, targets)
    )
    return BYTES * rank * values / at.pp


def adapter_work(
    model: Model, *, rank: int, targets: tuple[str, ...], layout: Layout, rows: float, distinct: float
) -> Work:
    """
    What adapters add to a step of so many rows: for each product of the layers, one kernel into the rank and one out.

    Each reads its half of the `distinct` adapters that the step's sequences are for, and the rows; the second adds
    into the output in place. Layers of all pipeline stages are listed, as in every step.
    """
    merged: dict[tuple[int, str], tuple[float, float, float, float, float]] = {}
    for place, (group, matrix, pieces) in enumerate(adapted_matrices(model, targets)):
        inner, outer = _sides(matrix, pieces, layout)
        key = (id(group), _SAME_INPUT.get(matrix.name, matrix.name))
        key = key if key in merged or key[1] == matrix.name else (place, matrix.name)
        count, into, out, read, ranks = merged.get(key, (float(group.count), 0.0, 0.0, inner / pieces, 0.0))
        merged[key] = count, into + inner, out + outer, read, ranks + pieces * rank
    found = []
    for count, into, out, read, ranks in merged.values():
        found.append(
            Operator(
                kind="elementwise",
                name="adapters: into the rank",
                count=count,
                read_bytes=BYTES * (distinct * rank * into + rows * read),
                write_bytes=2.0 * BYTES * rows * ranks,
            )
        )
        found.append(
            Operator(
                kind="elementwise",
                name="adapters: out of the rank",
                count=count,
                read_bytes=BYTES * (distinct * rank * out + rows * out) + 2.0 * BYTES * rows * ranks,
                write_bytes=BYTES * rows * out,
            )
        )
    return tuple(found)


@lru_cache(maxsize=64)
def popularity(count: int, skew: float) -> tuple[tuple[float, float], ...]:
    """
    Classes of adapters that are asked for alike: how many, and the share of requests for each of them.

    The first 128 are classes of their own, later ones widen by 5 %, so that a million are about 300 classes.
    """
    weights = [(1.0, float(i) ** -skew) for i in range(1, min(count, _EXACT) + 1)]
    low = _EXACT + 1
    while low <= count:
        high = min(count, max(low, int(low * _WIDER)))
        members = float(high - low + 1)
        # The mean weight of a class: the integral between its edges, exact to 1e-5 so far down.
        first, last = low - 0.5, high + 0.5
        if abs(skew - 1.0) < 1e-9:
            whole = math.log(last / first)
        else:
            whole = (last ** (1.0 - skew) - first ** (1.0 - skew)) / (1.0 - skew)
        weights.append((members, whole / members))
        low = high + 1
    total = sum(members * weight for members, weight in weights)
    return tuple((members, weight / total) for members, weight in weights)


@lru_cache(maxsize=4096)
def distinct_adapters(*, count: int, skew: float, sequences: float) -> float:
    """
    Different adapters among sequences that each draw one by Zipf's law, on average.

    D(n) = sum over i of 1 - (1 - p_i)^n with p_i in proportion to i^-s: each adapter is there unless all n missed it.

    Parameters
    ----------
    count : int
        Adapters there are, at least 1. [adapters]
    skew : float
        s, exponent of Zipf's law; 0 = all alike. [-]
    sequences : float
        n, sequences that draw. [requests]

    Returns
    -------
    float
        At most the smaller of `count` and `sequences`, from one sequence on. [adapters]

    Valid
    -----
    Requests for different adapters arrive independently.

    Source
    ------
    Occupancy of urns with unequal chances; S-LoRA (arXiv 2311.03285) draws adapters by a power law in its workloads.

    Examples
    --------
    >>> f"{distinct_adapters(count=64, skew=0.0, sequences=64):.1f}"
    '40.6'
    >>> f"{distinct_adapters(count=64, skew=1.0, sequences=64):.1f}"
    '27.8'
    """
    found = 0.0
    for members, share in popularity(count, skew):
        found += members * (1.0 if share >= 1.0 else -math.expm1(sequences * math.log1p(-share)))
    return min(found, max(1.0, sequences))


@lru_cache(maxsize=1024)
def lru_miss_rate(*, count: int, skew: float, slots: int) -> float:
    """
    Share of requests whose adapter is not in one of the slots, where the one used longest ago makes room.

    Che's approximation: an adapter stays for a time T after its last request, the same for all, and T is such that the
    slots are full: sum of 1 - exp(-p_i T) = slots. A request misses with sum of p_i exp(-p_i T).

    Parameters
    ----------
    count : int
        Adapters there are. [adapters]
    skew : float
        Exponent of Zipf's law; 0 = all alike. [-]
    slots : int
        Adapters that are kept. [adapters]

    Returns
    -------
    float
        0 where all are kept; 1 - slots / count where all are asked for alike. [-]

    Valid
    -----
    Independent requests; within a few percent from about ten slots on (Fricker, Robert, Roberts 2012).

    Source
    ------
    Che, Tung, Wang, Hierarchical web caching systems (IEEE JSAC 20, 2002); arXiv 1202.3974 on why it is exact enough.

    Examples
    --------
    >>> f"{lru_miss_rate(count=100, skew=0.0, slots=25):.2f} {lru_miss_rate(count=100, skew=1.0, slots=25):.2f}"
    '0.75 0.38'
    """
    if slots >= count:
        return 0.0
    classes = popularity(count, skew)

    def held(age: float) -> float:
        return sum(-members * math.expm1(-share * age) for members, share in classes)

    low, high = 0.0, 1.0
    while held(high) < slots:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if held(middle) < slots else (low, middle)
    return sum(members * share * math.exp(-share * high) for members, share in classes)
