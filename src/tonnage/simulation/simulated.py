"""
What a simulation is given and what it hands back: columns of numbers, and what an engine does for a load.

Step times come as arrays by whole numbers of sequences and rows (`StepArrays`), a scheduler as a few
limits (`Limits`, made by `policies`), requests as columns. Named tuples of arrays, because compiled
code takes them as they are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tonnage.domain.efficiency import Rung
from tonnage.domain.engine_spec import captured_batch
from tonnage.record import SparseRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tonnage.simulation.steps import StepTable

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
else:
    Floats = Ints = Any


class StepArrays(NamedTuple):
    """Step times of one replica by sequences and rows; everything a step costs is an index and a product."""

    decode_s: Floats
    """A decode-only step by sequences, at no context: products, head, fixed part of attention. [s]"""
    context_s: Floats
    """Added for each token of context in the batch, by sequences. [s/token]"""
    attend_s: Floats
    """The fixed part of decode attention alone, by sequences. [s]"""
    mixed_s: Floats
    """Products of a step that carries prompts, by rows. [s]"""
    head_s: Floats
    """The head, by sequences that emit a token. [s]"""
    chunk_s: float
    """Prefill attention: once a step. [s]"""
    chunk_token_s: float
    """For each prompt token. [s]"""
    chunk_square_s: float
    """For each prompt token and each token before it. [s]"""
    host_s: float
    """Host work the accelerator waits for, once a step. [s]"""
    host_sequence_s: float
    host_prompt_s: float
    hidden_s: float
    """Host work that overlaps: no step is shorter. [s]"""
    ranks: float = 1.0
    """Data-parallel ranks in step with each other: the one with most prompt tokens ends a step. [ranks]"""
    uneven: float = 0.0
    """sqrt(2 g ln g) of g ranks: k prompts leave the fullest with 1 + uneven / sqrt(k) times an even share. [-]"""
    mixed_attention: float = 1.0
    """On `context_s` in a step that carries prompts. [-]"""
    first: float = 1.0
    """Factor on what a request sees of its first token beyond what steps say, as measured; no step has it. [-]"""

    def paced(self, pace: float, first: float) -> StepArrays:
        """The same replica with all its times longer by a factor, and first tokens by a further one."""
        times = {name: getattr(self, name) * pace for name in self._fields if name.endswith("_s")}
        return self._replace(**times, first=first)


class Limits(NamedTuple):
    """One scheduler: its limits and its rules. `policies` fills it for each engine."""

    max_num_seqs: int
    budget: int
    """Tokens of a step. [tokens]"""
    block_tokens: int
    num_blocks: int
    mixed: bool = True
    """Prompts share steps with decodes; else they come first, in steps of their own, admitted whole."""
    chunked: bool = True
    """A prompt may be cut to the budget."""
    threshold: int = 0
    """Longest piece of a prompt in one step; 0 = the budget. [tokens]"""
    whole_prompt: bool = False
    """Admit only when all blocks of the prompt are free, not only those of its first piece."""
    watermark: int = 0
    """Blocks that admission leaves free. [blocks]"""
    reserve_output: bool = False
    """All blocks of prompt and answer are taken at admission, so nothing is ever preempted."""
    victim: int = 0
    """Who is preempted: 0 the last running, 1 the worst (priority, arrival), 2 who has said least."""
    ranked: bool = False
    """Waiting requests are ordered by (priority, arrival)."""
    ratio: float = 0.0
    """Share of the running requests' remaining output that admission keeps room for, at the start; 0 = none."""
    ratio_least: float = 0.0
    ratio_decay: float = 0.0
    """Lost per decode step."""
    speculative: int = 0
    """Draft tokens verified per sequence and step. [tokens]"""
    acceptance: float = 0.0
    """Chance that a draft token is accepted when all before it were."""
    cached_again: bool = True
    """A preempted request finds its cached prefix again."""
    gather: int = 0
    """Requests of a batch that starts together and whose seats are computed until all have ended; 0 = anybody joins
    at any step. [requests]"""
    gather_s: float = 0.0
    """How long the first of a batch waits for the others; 0 = it starts with whoever is there. [s]"""
    ahead: bool = False
    """The host prepares a step while the one before runs: who comes during a step joins the next but one."""
    host_blocks: int = 0
    """Blocks of host memory: what is preempted, and prefixes that lost their place, are recalled from there."""
    recall_token_s: float = 0.0
    """Moving the cache of a token between host and accelerator, while the step computes. [s/token]"""


class ReplicaArrays(NamedTuple):
    """One replica as the simulator takes it."""

    table: StepArrays
    limits: Limits
    delivery_s: float = 0.0
    """Part of every first token and of no step: reading the request, and a prompt's way through a pipeline. [s]"""
    rung: Rung = "own"


class Requests(NamedTuple):
    """Requests as columns, in the order they are sent."""

    sent_s: Floats
    """When a client sends it; in a closed loop, filled in as the simulation runs. [s]"""
    prompt: Ints
    output: Ints
    cached: Ints
    """Leading prompt tokens whose cache is there at admission. [tokens]"""
    priority: Ints
    """Lower goes first."""
    think_s: Floats
    """Closed loop: seconds between the end of a request and the next one of its client."""
    offsets: Ints
    """Where each request's block ids begin in `blocks`; one entry when there are none."""
    blocks: Ints
    """Ids of the full blocks of each request: equal ids hold equal tokens."""
    num_ids: int
    """Different ids."""

    def pick(self, chosen: Any) -> Requests:
        """Those that an index, a mask or a slice chooses; names of their blocks stay those of all."""
        names = ("sent_s", "prompt", "output", "cached", "priority", "think_s")
        return self._replace(**{name: getattr(self, name)[chosen] for name in names})


def requests_of(
    sent_s: Floats,
    prompt: Ints,
    *,
    output: Ints,
    cached: Ints | None = None,
    priority: Ints | None = None,
    think_s: Floats | None = None,
    blocks: tuple[Ints, Ints] | None = None,
) -> Requests:
    """Requests from columns; absent ones are filled with nothing cached, equal priority, no thinking, no ids."""
    import numpy as np

    n = len(prompt)
    offsets, ids = blocks if blocks is not None else (np.zeros(1, np.int64), np.zeros(0, np.int64))
    return Requests(
        sent_s=np.ascontiguousarray(sent_s, np.float64),
        prompt=np.ascontiguousarray(prompt, np.int64),
        output=np.ascontiguousarray(output, np.int64),
        cached=np.zeros(n, np.int64) if cached is None else np.ascontiguousarray(cached, np.int64),
        priority=np.zeros(n, np.int64) if priority is None else np.ascontiguousarray(priority, np.int64),
        think_s=np.zeros(n) if think_s is None else np.ascontiguousarray(think_s, np.float64),
        offsets=np.ascontiguousarray(offsets, np.int64),
        blocks=np.ascontiguousarray(ids, np.int64),
        num_ids=int(ids.max()) + 1 if len(ids) else 0,
    )


def step_arrays(table: StepTable, *, max_num_seqs: int, budget: int) -> StepArrays:
    """
    The step table of a replica at every whole number of sequences and rows.

    Decodes of data-parallel ranks are taken as evenly spread. Prompts are not divided: a step ends with the rank that
    got most of them (`ranks`, `uneven`), as in `StepTable.mixed_step_s`.
    """
    import numpy as np

    o, layout = table.overheads, table.layout
    ranks = layout.dp * layout.pp
    verified = 1 + (round(table.speculation.tokens) if table.speculation else 0)
    stalled = 1.0 + o.bubble * (layout.pp - 1)
    batch = np.arange(max_num_seqs + 1, dtype=np.float64)
    each = np.maximum(1.0, batch / ranks)
    padded = _round_to_capture(each) if table.graphs else each
    fixed, slope = _affine(table, each)
    emitted = np.arange(max_num_seqs * verified + budget + 1, dtype=np.float64) / ranks
    head = _at(table.rows, table.head_s, np.maximum(1.0, emitted))
    own = _at(table.rows, table.head_s, each * verified)
    unpadded = _at(table.rows, table.dense_s, each * verified) + own
    if table.drafting_s is not None:
        drafted = table.drafting_s[0] + table.drafting_s[1] * each
    else:
        drafted = (verified - 1) * ((unpadded - own) / table.layers + _at(table.rows, table.head_s, each))
    return StepArrays(
        decode_s=(_at(table.rows, table.dense_s, padded * verified) + own + fixed) * stalled + drafted,
        context_s=slope * stalled / np.maximum(1.0, batch),
        attend_s=fixed * stalled + (stalled - 1.0) * unpadded + drafted,
        mixed_s=_at(table.rows, table.mixed_s, np.maximum(1.0, emitted)),
        head_s=head,
        chunk_s=table.chunk_s[0],
        chunk_token_s=table.chunk_s[1] / ranks,
        chunk_square_s=table.chunk_s[2] / ranks,
        host_s=o.step_s,
        host_sequence_s=o.sequence_s / layout.dp,
        host_prompt_s=o.prompt_s / ranks,
        hidden_s=table.hidden_s,
        ranks=float(layout.dp),
        uneven=math.sqrt(2.0 * layout.dp * math.log(layout.dp)),
        mixed_attention=table.mixed_attention,
    )


def _round_to_capture(batch: Floats) -> Floats:
    import numpy as np

    sizes = {float(b): captured_batch(float(b)) for b in np.unique(batch)}
    return np.array([sizes[float(b)] for b in batch])


def _at(xs: tuple[float, ...], ys: tuple[float, ...], x: Floats) -> Floats:
    """`StepTable`'s reading of a table at many points: log-log, flat below, proportional above."""
    import numpy as np

    if min(ys) > 0.0:
        found = np.exp(np.interp(np.log(x), np.log(xs), np.log(ys)))
    else:
        found = np.interp(np.log(x), np.log(xs), ys)
    beyond = x > xs[-1]
    found[beyond] = ys[-1] * x[beyond] / xs[-1]
    return found


def _affine(table: StepTable, batch: Floats) -> tuple[Floats, Floats]:
    """Decode attention of batches on a rank: at no context, and for each token of it, as `steps.affine_at` reads it."""
    import numpy as np

    xs = np.array(table.batches)
    over = np.maximum(1.0, batch / xs[-1])
    fixed, slope = (np.interp(batch, xs, [pair[i] for pair in table.attention_s]) * over for i in (0, 1))
    return fixed, slope


Tail = tuple[float | None, float | None, float | None]
"""Median, 95th and 99th percentile; None = not known. [s]"""


class Served(SparseRecord, kw_only=True):
    """Mean latencies of one replica under a load, and what it completes per second."""

    ttft_s: float
    tpot_s: float
    e2e_s: float
    requests_per_s: float
    running: float
    """Requests decoding together, on average. [requests]"""
    ttft_tail_s: Tail | None = None
    """Where the traffic has a distribution. [s]"""
    tpot_tail_s: Tail | None = None
    saturated: bool = False
    """The load is as much as the replica takes, or more."""
