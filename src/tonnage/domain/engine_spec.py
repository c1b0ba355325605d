"""What Tonnage may know of a serving engine: defaults, scheduler, memory rule, kernels and names, as one record.

The records themselves are rows of tables in `tonnage.engines`; formulas, simulation and planning take them as
arguments and never look at a name. Whatever is absent in a record is how most engines do it.

What an engine adds to its kernels (`Overheads`) is a few numbers, shared by every model and accelerator it runs on. The
parts of a step are multiplied by them; host work runs beside the accelerator or before it:

    T_step = max(T_gpu, T_host hidden) + T_host exposed

Values are fitted by `tools/calibration/serving.py` and live in the catalogue by engine and year.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Any, Final, Literal

from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.precision import number_format
from tonnage.record import Record, SparseRecord
from tonnage.units import GiB


class Series(Record, kw_only=True, forbid_unknown_fields=True):
    """Where a page states one of our numbers."""

    names: tuple[str, ...]
    """Spelled as on the page; an earlier one wins."""
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    over: Literal["sum", "mean", "most"] = "sum"
    """How the values of several labels become one."""
    where: tuple[tuple[str, str], ...] = ()
    """Labels that must have these values."""
    scale: float = 1.0


class ServerMetrics(Record, kw_only=True, forbid_unknown_fields=True):
    """The metrics page of one server."""

    name: str
    """Of the server, in readings and verdicts."""
    series: Mapping[str, Series]
    """Our names to its own."""
    labels: tuple[tuple[str, str, str], ...] = ()
    """Series, label, and what the label's text is."""
    around: bool = False
    """It stands around an engine that may have a page of its own: the engine names the reading, its numbers count."""
    queue_advice: str
    """How one gets to see its queue."""
    cache_advice: str
    """Settings that make more room in its cache."""
    scaled_by: str | None = None
    """Gauge of requests in flight that an autoscaler can take; absent = the page is not there by itself."""
    turned_on: str = ""
    """What it takes to have the page; empty = it is there."""
    cache_unstated: str | None = None
    """Why its cache cannot be seen, and what bounds it; absent = it is seen where its queue is."""


Release = tuple[int, ...]

LIBRARY_BYTES: Final = 1.1 * GiB
"""BLAS workspaces and loaded kernels of engines that allocate by need, beside the context, from what the device showed
beyond weights and cache (two 7B models, seven engines, and three GPT sizes on A100; the median of all). [bytes]"""


class Default(Record, kw_only=True, forbid_unknown_fields=True):
    """One setting an engine chooses by itself, and where that is written."""

    field: str
    value: Any = None
    """Of max_model_len: what it takes where the model's own context is not known; absent = none."""
    source: str
    since: Release = ()
    """Release from which it does; of several that a release reached the last row counts."""
    capped: bool = False
    """Of max_model_len: a longer context of the model is not taken."""


class Starting(Record, kw_only=True):
    """What an engine looks at when it chooses: its release, the device, the model, the degrees, and who asks."""

    engine: Engine
    release: Release
    accelerator: Accelerator
    model: Model
    layout: Layout
    offline: bool
    """The library's own batch class rather than the API server."""

    @property
    def memory_gib(self) -> float:
        """Memory a process sees. [GiB]"""
        return self.accelerator.visible_memory_bytes / GiB


class MemoryRule(Record, kw_only=True, forbid_unknown_fields=True):
    """
    How an engine divides the memory of an accelerator.

    - total: a share of all memory, less weights, profiled activations and what is not PyTorch's, is cache (vLLM);
    - reserve: what is free after loading, less a share of what was free before, is cache (SGLang);
    - free: a share of what is free after loading and one profiled step is cache (TensorRT-LLM and its like);
    - need: no pool, memory is taken as the batch or the context asks for it (Transformers);
    - cells: the cache of all slots, whose sum max_model_len is, and the buffer of one graph are allocated at the start
      (llama.cpp).
    """

    kind: Literal["total", "reserve", "free", "need", "cells"]
    fraction: float = 0.9
    """The share, where no setting says another. [-]"""
    setting: str = ""
    """The engine's own word for that share."""
    kept_bytes: float | None = None
    """Of kind free: this is kept instead of a share. [bytes]"""
    windows_since: Release = (0,)
    """Release from which the cache of a sliding window is freed behind it."""
    torch_alone_since: Release = (0,)
    """Of kind total: release from which little is held beyond PyTorch (vLLM's V1 engine)."""
    graphs_since: Release | None = None
    """Of kind total: release from which captured graphs count against the share."""
    all_reduce_held: tuple[Release, Release] | None = None
    """Of kind total: releases from the first, before the second, keep the outputs of every all-reduce."""
    library_bytes: float = LIBRARY_BYTES
    """Of kind need: workspaces and kernels beside the context. [bytes]"""
    activation_buffers: float = 1.0
    """Of kind need: activation buffers over the peak of one layer. [-]"""
    whole_context: bool = False
    """Of kind need: the cache of max_model_len is allocated at the start."""
    few_outputs_since: Release = (0,)
    """Of kind cells: release whose graph has room for one row of logits a slot, and not for one a token."""
    most_slots: int = 1
    """Of kind cells: slots that it can be started with."""
    context_bytes: Mapping[str, float] = {}
    """Of kind cells: driver's context and kernels by vendor; none on others' parts and processors. [bytes]"""


class Scheduling(Record, kw_only=True, forbid_unknown_fields=True):
    """How an engine batches requests: who joins a step, what is kept for answers, and who goes back when room ends."""

    separate_prompts: bool = False
    """Prompts have steps of their own, unless the engine is told to mix."""
    separate_whole_prompts: bool = False
    """The same only where prompts are not cut into pieces."""
    mixes_whole_prompts: bool = False
    """Prompts share steps with decodes whether or not they are cut."""
    watermark: float = 0.0
    """Share of the blocks left free at admission where whole prompts have steps of their own. [-]"""
    answer_share: tuple[float, float, float] | None = None
    """Share of an answer's rest that admission keeps room for: at the start, at least, and less with every step."""
    returns: Literal["last", "least"] = "last"
    """Who goes back to the queue when blocks run out: who came last, or whose answer is shortest."""
    reserves_output: bool = False
    """Admission takes the blocks of the whole answer, so that nobody goes back."""
    whole_batches: bool = False
    """A batch runs to its end before the next starts."""
    queues_batches: bool = False
    """A batch beyond the seats waits in the engine's queue, and its prompts come in steps of the token budget."""
    answers_together: bool = False
    """All prompts that seats admit are computed, in passes of the budget, before any of them has its first token."""
    runs_alone: bool = False
    """A compiled scheduler with an offline run of its own, where no client reads along and host time is not seen."""


class EngineSpec(Record, kw_only=True, forbid_unknown_fields=True):
    """One serving engine."""

    name: str
    """In requests, answers and tables of measurements."""
    title: str
    """As its authors write it."""
    defaults: tuple[Default, ...] = ()
    """Settings it chooses itself, by release."""
    starts_as: str | None = None
    """Engine whose defaults hold for it, rows and rule, read at its own release; absent = its own."""
    rule: bool = False
    """Further settings follow from device, model and layout: `defaults` in the module of its name."""
    memory: MemoryRule
    scheduling: Scheduling = Scheduling()
    aliases: tuple[str, ...] = ()
    """Other spellings, in lower case."""
    beside_experts: str | None = None
    """Format of the other weights in its files of models whose experts are published in 4 bits; absent = 16 bits."""
    planned: int | None = None
    """Place among the engines that plans consider, best measured first; absent = fit and predict alone know it."""
    releases: tuple[tuple[str, str], ...] = ()
    """Month in which a release, line or build appeared, and which; oldest first."""
    pinned: str = ""
    """The release that is meant where none is named, whose flags exported files are written in; empty = the newest."""
    words: tuple[tuple[str, Release], ...] = ()
    """Words a version may start with, and the least release each stands for."""
    versions_below: Release | None = None
    """Numbers from here on are another product's and say nothing about the release."""
    versions_from: Release | None = None
    """So are lower ones: of a server around the engine."""
    kernels: str | None = None
    """Family of kernels it runs, as the grids are filed; absent = its own name."""
    timed_as: str | None = None
    """Engine whose measured overheads stand for its own."""
    stands_for: tuple[str, ...] = ()
    """Engines nobody described whose overheads are like this one's."""
    layered: bool = False
    """A model is spread over devices by its layers, which take turns: memory of all, speed of one."""
    piped_since: Release | None = None
    """Release from which pieces of a prompt follow each other through devices that take turns."""
    one_call_since: Release | None = None
    """Release from which decodes and prompts of a step attend in one call."""
    fused_attention_since: Release | None = None
    """Release from which own kernels attend without keeping the scores of prompts in memory."""
    batches_captured_since: Release | None = None
    """Release from which a decode step of several sequences is one captured graph, too; absent = all of them."""
    vectored_experts_since: Release | None = None
    """Release from which a few tokens, and not one alone, pass routed experts as vectors."""
    ahead_since: Release | None = None
    """First release whose host prepares a step beside the last one, whatever the settings say."""
    two_batches_since: Release | None = None
    """Release from which one half of a step's rows computes while the other is exchanged between nodes."""
    balanced_since: Release | None = None
    """Release from which wide expert parallelism, as planned and exported, keeps copies of busy experts."""
    eager: Mapping[str, float] | None = None
    """It runs a model's Python line by line, each matrix by itself; further launches of a product by weight format."""
    vendors: tuple[str, ...] | None = None
    """Vendors whose accelerators it runs on; absent = anywhere."""
    vendors_by_document: tuple[str, ...] = ()
    """Others on whose accelerators its documents run it, with no format there known to us: asked for, never planned."""
    least_capability: float | None = None
    """Lowest CUDA compute capability it supports (installation page of the project)."""
    fp8_cache: bool = True
    """It can keep its cache in FP8."""
    quantises: tuple[str, ...] = ()
    """Weight formats that it makes of a 16-bit checkpoint while loading; any other must be stored so."""
    quantises_whole: bool = False
    """It does so once all weights are loaded, which then lie in memory as they are stored."""
    hands_over_caches: bool = False
    """Workers of its own read prompts and hand the cache to workers that write answers (disaggregated serving)."""
    deals_images: bool = False
    """Tensor-parallel ranks can each encode whole images (data-parallel vision encoder)."""
    encodes_apart: bool = False
    """Workers of its own encode images and hand over what they make of them (disaggregated encoder)."""
    drafts: bool = False
    """It drafts with a model's own layers (multi-token prediction) or a layer trained for it."""
    serves_adapters: bool = False
    """Many LoRA adapters share one base model, in slots of its memory, others of them on the host."""
    adapter_ranks: tuple[int, ...] = ()
    """Ranks that a slot may have, rising; a smaller adapter takes the next. Empty = any."""
    bench_tool: str | None = None
    """Measuring tool that comes with it and measures it alone, as imported measurements call it."""
    own_settings: Mapping[str, str] = {}
    """Its own names of settings that a case may state, with "_" for "-", and ours; "layout.tp" is said elsewhere."""
    own_switches: Mapping[str, str] = {}
    """Its own options that turn one of our settings off."""
    single_user: bool = False
    """People run it for themselves, one request at a time."""
    vision_from: float | None = None
    """CUDA compute capability from which image networks are planned on it, edge parts always; absent = not planned."""
    network_mode: str = ""
    """How it runs whole networks unasked, as the modes of fitted runtimes are called."""
    network_mode_before: tuple[int, str] | None = None
    """Year before which it ran them otherwise, and how."""

    @property
    def kernel_family(self) -> str:
        """Whose kernels it runs."""
        return self.kernels or self.name

    @property
    def overheads_of(self) -> str:
        """Under whose name its overheads are filed."""
        return self.timed_as or self.name

    def loads(self, weights: str, *, stored: str) -> bool:
        """Whether it runs weights in one format from a checkpoint stored in another."""
        made, kept = number_format(weights), number_format(stored)
        return made.name == kept.name or (kept.bits >= 16 and (made.bits >= 16 or made.name in self.quantises))

    def attends_in_one_call(self, release: Release | None) -> bool:
        """Whether this release gives decodes and prompts of a step to one call; no release stands for the newest."""
        return self.one_call_since is not None and (release is None or release >= self.one_call_since)

    def captures_batches(self, release: Release | None) -> bool:
        """Whether this release captures decode steps of several sequences; no release stands for the newest."""
        since = self.batches_captured_since
        return since is None or release is None or release >= since

    def vectors_experts(self, release: Release | None) -> bool:
        """Whether this release passes a few tokens through routed experts as vectors."""
        since = self.vectored_experts_since
        return since is not None and (release is None or release >= since)

    def runs_ahead(self, release: Release | None) -> bool:
        """Whether this release's host prepares a step beside the last one without being asked."""
        return self.ahead_since is not None and (release is None or release >= self.ahead_since)

    def overlaps_two_batches(self, release: Release | None) -> bool:
        """Whether this release computes half of a step beside the exchange of the other."""
        return self.two_batches_since is not None and (release is None or release >= self.two_batches_since)

    def balances_experts(self, release: Release | None) -> bool:
        """Whether this release's wide expert parallelism is planned with copies of busy experts."""
        return self.balanced_since is not None and (release is None or release >= self.balanced_since)

    def fuses_attention(self, release: Release | None) -> bool:
        """Whether this release attends without scores in memory."""
        since = self.fused_attention_since
        return since is not None and (release is None or release >= since)


class ResolvedEngine(Record, kw_only=True):
    """An engine as it will run: what is known of it, which release, and its settings."""

    spec: EngineSpec
    settings: Engine
    release: Release
    """A release beyond all others stands for the newest."""


class Overheads(SparseRecord, kw_only=True):
    """Time an engine adds to the sum of its kernels; the defaults add nothing."""

    step_s: float = 0.0
    """Host work of one step that the accelerator waits for. [s]"""
    sequence_s: float = 0.0
    """The same, for each running sequence. [s]"""
    rank_s: float = 0.0
    """Added to a step by each doubling of tensor-parallel ranks: processes that are told the step one by one. [s]"""
    overlapped: float = 0.0
    """Of `sequence_s`, hidden beside the accelerator where the engine schedules ahead of it. [-]"""
    hidden_s: float = 0.0
    """Host work of one step that overlaps with the accelerator. [s]"""
    launch_s: float = 0.0
    """The same for each kernel, where Python launches them one by one, and each expert of a mixture apart. [s]"""
    kernel_s: float = 0.0
    """Added to each kernel of a decode step: launches that no graph captured. [s]"""
    prefill_launch_s: float = 0.0
    """Host work of a step that carries prompts, for each kernel: no graph captured it, and it overlaps. [s]"""
    prefill_mixer_s: float = 0.0
    """Further host work of such a step for each layer whose mixer is latent or linear: many small launches. [s]"""
    prefill_kernel_s: float = 0.0
    """Added to each kernel of a step that carries prompts. [s]"""
    request_s: float = 0.0
    """Added to the first token of a request: reading, tokenising, first answer. [s]"""
    reading_s: float = 0.0
    """The same for each token of its prompt, before any step holds it: received, tokenised, handed over. [s]"""
    ahead: float = 0.0
    """Steps that a request waits because they were prepared before it came. [steps]"""
    prompt_s: float = 0.0
    """Host work per prompt that enters a step. [s]"""
    memory: float = 1.0
    """Factor on products bound by memory. [-]"""
    compute: float = 1.0
    """Factor on products bound by arithmetic. [-]"""
    experts: float = 1.0
    """Further factor on products of routed experts bound by memory. [-]"""
    experts_compute: float = 1.0
    """The same for those bound by arithmetic. [-]"""
    attention: float = 1.0
    """Factor on decode attention. [-]"""
    prefill_attention: float = 1.0
    touch: float = 1.0
    """Factor on element-wise passes: below 1 where the engine fuses them. [-]"""
    collective: float = 1.0
    """Factor on collectives inside a node. [-]"""
    narrow: float = 1.0
    """Further factor on products in 8 or 4 bits with quantised activations. [-]"""
    weight_only: float = 1.0
    """Further factor on products with weights of fewer bits than activations. [-]"""
    reach_bytes_per_s: float = 0.0
    """What one multiprocessor keeps in flight in the engine's own kernels (prompts too); 0 = none. [bytes/s]"""
    bubble: float = 0.0
    """Of a decode step, lost per further pipeline stage. [-]"""


def with_async_scheduling(overheads: Overheads, scheduled: bool | None, *, ranks: int = 1) -> Overheads:
    """
    The same engine on so many tensor-parallel ranks; scheduled ahead, its host prepares a step beside the last one.

    What a step costs its host then hides beside the accelerator, which waits only where the host takes longer. What
    ranks add is a delay, not work: the next step is told while this one runs (gpt-oss-120b on eight H200 steps in 3.6
    ms, where eight ranks not scheduled ahead add 3). Of what a running sequence costs, scheduling hides and streaming
    stays. None counts as not scheduled ahead.

    Examples
    --------
    >>> known = Overheads(step_s=1e-3, rank_s=0.5e-3, sequence_s=3e-5, overlapped=0.5)
    >>> with_async_scheduling(known, False, ranks=4).step_s
    0.002
    >>> found = with_async_scheduling(known, True, ranks=4)
    >>> found.step_s, found.hidden_s, found.sequence_s
    (0.0, 0.001, 1.5e-05)
    """
    if scheduled:
        return replace(
            overheads,
            step_s=0.0,
            rank_s=0.0,
            overlapped=0.0,
            hidden_s=overheads.hidden_s + overheads.step_s,
            sequence_s=overheads.sequence_s * (1.0 - overheads.overlapped),
        )
    waited_s = overheads.step_s + overheads.rank_s * log2(ranks)
    return replace(overheads, step_s=waited_s, rank_s=0.0, overlapped=0.0)


def with_prompt_read(overheads: Overheads, prompt_tokens: float, *, ahead: float) -> Overheads:
    """
    The same with what reading a prompt of that length adds to its first token, behind so many prepared steps.

    Examples
    --------
    >>> with_prompt_read(Overheads(request_s=0.002, reading_s=8e-6), 1000.0, ahead=1.0).request_s
    0.01
    """
    read_s = overheads.request_s + overheads.reading_s * prompt_tokens
    return replace(overheads, request_s=read_s, reading_s=0.0, ahead=ahead)


def captured_batch(batch: float, limit: float = 512.0) -> float:
    """
    Batch that a decode step is padded to: sizes of captured graphs are 1, 2, 4, 8 and multiples of 8.

    Above the largest captured size the step runs as it is.

    Examples
    --------
    >>> captured_batch(3), captured_batch(33), captured_batch(1000)
    (4.0, 40.0, 1000.0)
    """
    if batch > limit:
        return float(batch)
    for size in (1.0, 2.0, 4.0, 8.0):
        if batch <= size:
            return size
    return float(-(-batch // 8) * 8)
