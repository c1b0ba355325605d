"""What an optimizer keeps and moves: bytes of state per parameter, traffic and arithmetic of one step.

An optimizer is a row: how many values it keeps per parameter and in which format. States follow the
32-bit master copy where one is kept, else the weights' own format (pure 16-bit training keeps 16-bit
states). 8-bit optimizers keep quantised states whatever the weights are. Muon keeps one momentum for
matrices and runs Newton-Schulz iterations on it; embeddings, head and norms stay with Adam.
"""

from __future__ import annotations

from typing import Final

from tonnage.errors import UnknownName
from tonnage.record import Record


class Optimizer(Record, kw_only=True):
    """One optimizer. `states` are values kept per parameter; `bits` their width when it is the optimizer's own."""

    name: str
    states: float
    bits: float | None = None
    """Width of one state when the optimizer quantises it; absent = master copy's or weights' own. [bit]"""
    passes: float = 1.0
    """Times the step reads the gradient: a norm over each layer (LAMB) or factored moments read it twice."""
    orthogonal: bool = False
    """Newton-Schulz iterations on matrices (Muon)."""
    source: str = ""


_BLOCK_SCALE: Final = 32 / 256
"""Bits per value of one fp32 scale per block of 256 (bitsandbytes)."""

_ROWS: Final = (
    Optimizer(name="adamw", states=2, source="arXiv 1711.05101"),
    Optimizer(name="adam", states=2, source="arXiv 1412.6980"),
    Optimizer(name="adamw-8bit", states=2, bits=8 + _BLOCK_SCALE, source="arXiv 2110.02861, blocks of 256"),
    Optimizer(name="adamw-4bit", states=2, bits=4 + 32 / 128, source="arXiv 2309.01507, blocks of 128"),
    Optimizer(name="sgd", states=1, source="momentum buffer; PyTorch SGD(momentum > 0)"),
    Optimizer(name="sgd-plain", states=0, source="PyTorch SGD(momentum = 0)"),
    Optimizer(name="adafactor", states=0.01, passes=2, source="arXiv 1804.04235: a row and a column sum per matrix"),
    Optimizer(name="lion", states=1, source="arXiv 2302.06675"),
    Optimizer(name="lion-8bit", states=1, bits=8 + _BLOCK_SCALE, source="arXiv 2302.06675 with arXiv 2110.02861"),
    Optimizer(name="muon", states=1, orthogonal=True, source="arXiv 2502.16982"),
    Optimizer(name="lamb", states=2, passes=2, source="arXiv 1904.00962"),
    Optimizer(name="rmsprop", states=2, source="PyTorch RMSprop with momentum, as EfficientNet recipes use it"),
    Optimizer(name="adagrad", states=1, source="JMLR 12 (2011)"),
    Optimizer(name="adan", states=3, source="arXiv 2208.06677"),
    Optimizer(name="sophia", states=2, source="arXiv 2305.14342"),
    Optimizer(name="shampoo", states=2, passes=2, source="arXiv 1802.09568: two preconditioners of a square matrix"),
    Optimizer(name="adam-mini", states=1, source="arXiv 2406.16793: one second moment per block"),
    Optimizer(
        name="galore-adamw", states=0.5, source="arXiv 2403.03507 at a quarter of the rank: two projected moments"
    ),
)

OPTIMIZERS: Final[dict[str, Optimizer]] = {row.name: row for row in _ROWS}
"""Every known optimizer by name."""

_ALIASES: Final = {
    "adam8bit": "adamw-8bit", "adamw8bit": "adamw-8bit", "adam-8bit": "adamw-8bit", "pagedadamw": "adamw",
    "pagedadamw8bit": "adamw-8bit", "pagedadamw32bit": "adamw", "momentum": "sgd", "nlamb": "lamb",
    "adamwtorchfused": "adamw", "adamwtorch": "adamw", "fusedadam": "adamw", "distributedadam": "adamw",
    "decoupledadamw": "adamw", "fusedlamb": "lamb", "jitlamb": "lamb", "lion8bit": "lion-8bit",
}  # fmt: skip


def optimizer(name: str) -> Optimizer:
    """
    The optimizer of that name, whatever its spelling ("Adam 8-bit", "paged_adamw_8bit").

    Raises
    ------
    UnknownName
        No such optimizer.
    """
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    plain = key.replace("-", "")
    found = OPTIMIZERS.get(_ALIASES.get(plain, _ALIASES.get(key, key)))
    found = found or next((row for row in _ROWS if row.name.replace("-", "") == plain), None)
    if found is None:
        raise UnknownName("optimizer", name, known=OPTIMIZERS)
    return found


def state_bytes_per_parameter(*, states: float, state_bits: float) -> float:
    """
    Bytes of optimizer state that one trained parameter carries.

    Parameters
    ----------
    states : number
        Values kept per parameter: 2 for Adam, 1 for momentum, Lion and Muon. [-]
    state_bits : number
        Width of one of them, scales included. [bit]

    Returns
    -------
    number
        State per parameter, without any master copy. [bytes/parameter]

    Valid
    -----
    Element-wise optimizers; factored moments (Adafactor) enter as a small fraction of one value.

    Source
    ------
    arXiv 1910.02054, section 3.1: Adam keeps 4 + 4 bytes beside the 4-byte master copy.

    Examples
    --------
    >>> state_bytes_per_parameter(states=2, state_bits=32)
    8.0
    """
    return states * state_bits / 8


def step_bytes(*, weight_bytes: float, grad_bytes: float, master_bytes: float, state_bytes: float) -> float:
    """
    Memory traffic of one optimizer step per parameter held.

    b = g + 2 (m + o) + w (1 or 2): the gradient is read, master copy and states are read and written,
    the weights are written, and read as well when there is no master copy.

    Parameters
    ----------
    weight_bytes : number
        w, of the weights the forward pass reads. [bytes]
    grad_bytes : number
        g, of the gradient, times the passes over it. [bytes]
    master_bytes : number
        m, of a master copy apart from the weights; 0 = none. [bytes]
    state_bytes : number
        o, of the optimizer's own states. [bytes]

    Returns
    -------
    number
        Bytes read and written per parameter. [bytes]

    Valid
    -----
    One fused pass over the parameters; an unfused optimizer moves every intermediate again.

    Source
    ------
    Counting; arXiv 1910.02054 gives the sizes.

    Examples
    --------
    >>> step_bytes(weight_bytes=2, grad_bytes=4, master_bytes=4, state_bytes=8)
    30
    """
    return grad_bytes + 2 * (master_bytes + state_bytes) + weight_bytes * (1 if master_bytes else 2)


def newton_schulz_flop(*, rows: float, columns: float, iterations: float = 5) -> float:
    """
    Arithmetic of Muon's Newton-Schulz orthogonalisation of one matrix.

    F = i (4 a^2 b + 2 a^3) with a = min(rows, columns): X X^T, its square, and the product with X.

    Parameters
    ----------
    rows : number
        Rows of the matrix. [-]
    columns : number
        Columns of the matrix. [-]
    iterations : number
        i, iterations; 5 in the reference implementation. [-]

    Returns
    -------
    number
        Work of one matrix and step. [FLOP]

    Valid
    -----
    Dense matrices, the quintic iteration.

    Source
    ------
    arXiv 2502.16982, algorithm 1.

    Examples
    --------
    >>> newton_schulz_flop(rows=1, columns=2, iterations=1)
    10
    """
    short, long = min(rows, columns), max(rows, columns)
    return iterations * (4 * short * short * long + 2 * short**3)
