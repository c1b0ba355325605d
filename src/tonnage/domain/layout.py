"""
How a model is arranged over accelerators, which engine settings run it, and what runs where a request names no engine.

The two defaults are the only names of engines outside `tonnage.engines`.
"""

from __future__ import annotations

import sys
from typing import Annotated, Final, Literal

import msgspec

from tonnage.domain.requests.field import Group, layout_field
from tonnage.domain.requests.groups import Adapters
from tonnage.record import SparseRecord

SERVING_ENGINE: Final = "vllm"
"""Of models that decode text."""

NETWORK_ENGINE: Final = "pytorch"
"""Of networks that take whole batches."""


class Layout(SparseRecord, kw_only=True):
    """
    Parallel degrees of one serving replica (ranks: tp x pp x dp accelerators).

    `dp` is attention data parallelism inside the replica (DP attention), `ep` the expert-parallel
    degree: ep = 1 shards every expert over the tp x dp ranks, ep > 1 gives whole experts to ranks.
    """

    tp: Annotated[int, layout_field("tensor-parallel ranks of one replica")] = 1
    pp: Annotated[int, layout_field("pipeline stages")] = 1
    dp: Annotated[int, layout_field("data-parallel attention")] = 1
    ep: Annotated[int, layout_field("expert-parallel ranks")] = 1

    @property
    def ranks(self) -> int:
        """Accelerators of one replica. [accelerators]"""
        return self.tp * self.pp * self.dp

    def degrees(self) -> list[str]:
        """Those above one, as they are written: ["tp2", "pp4"]."""
        return _above_one(self, ("tp", "pp", "dp", "ep"))


class Disaggregation(SparseRecord, kw_only=True):
    """Separate prefill and decode workers, with their own layouts and counts."""

    prefill_workers: Annotated[int, layout_field("workers that only read prompts")]
    prefill: Annotated[Layout, Group(name="prefill")]
    decode_workers: Annotated[int, layout_field("workers that only write answers")]
    decode: Annotated[Layout, Group(name="decode")]

    @property
    def ranks(self) -> tuple[int, int]:
        """Accelerators of all workers of each kind."""
        return self.prefill_workers * self.prefill.ranks, self.decode_workers * self.decode.ranks


class Engine(SparseRecord, kw_only=True):
    """
    Serving engine, version and the settings a user can give; absent = the engine's own default.

    Absent settings are filled by `tonnage.engines.registry`, which knows each engine's defaults by
    version and accelerator.
    """

    name: str = SERVING_ENGINE
    version: str | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    memory_fraction: float | None = None
    """vLLM gpu_memory_utilization (of total); SGLang mem_fraction_static, TensorRT-LLM (of free)."""
    max_model_len: int | None = None
    block_tokens: int | None = None
    chunked_prefill: bool | None = None
    prefix_caching: bool | None = None
    cuda_graphs: bool | None = None
    speculative_tokens: int | None = None
    speculative_acceptance: float | None = None
    draft_model: str | None = None
    """A draft's own checkpoint (EAGLE-3); absent = the model's own layers draft."""
    kv_offload_bytes: float | None = None
    kv_unified: bool | None = None
    """Slots share the cells of the whole context, and no slot has a part of its own (llama.cpp)."""
    receive_interval: int | None = None
    """Decode steps between two looks at what has arrived (SGLang scheduler_recv_interval). [steps]"""
    batch_wait_steps: int | None = None
    """Most decode steps that a prompt waits for others (TensorRT-LLM batch_wait_timeout_iters or, with attention data
    parallelism, attention_dp_config.timeout_iters). [steps]"""
    mixed_chunk: bool | None = None
    """Prompts share steps with decodes where an engine gives them steps of their own (SGLang enable_mixed_chunk)."""
    async_scheduling: bool | None = None
    """The host prepares the next step while the accelerator runs this one (vLLM async_scheduling)."""
    mm_encoder_tp_mode: Literal["weights", "data"] | None = None
    """A vision encoder on tensor-parallel ranks: its weights divided, or whole images dealt out (vLLM)."""
    adapters: Adapters | None = None
    """LoRA adapters that share the weights (vLLM max_loras, SGLang max_loras_per_batch)."""

    def __post_init__(self) -> None:
        """The default's own name is left out of files: one that was read from a file must be the same object."""
        msgspec.structs.force_setattr(self, "name", sys.intern(self.name))


class PoolWorkers(SparseRecord, kw_only=True):
    """Workers of a unit of disaggregated serving, each of the configuration's layout but for the encoders."""

    prefill: int
    """0 = the decode workers compute prompts as well."""
    decode: int
    encode: int = 0
    """Accelerators that encode images and do nothing else."""

    @property
    def label(self) -> str:
        """As the field writes it: "1P3D", "1E2PD", "1E1P2D"."""
        rest = f"{self.prefill}P{self.decode}D" if self.prefill else f"{self.decode}PD"
        return f"{self.encode}E{rest}" if self.encode else rest


Schedule = Literal["1f1b", "zb-h1", "zb-h2", "dualpipe"]

Sharding = Literal["none", "zero1", "zero2", "zero3", "fsdp", "hsdp"]


class TrainLayout(SparseRecord, kw_only=True):
    """Parallel degrees of a training job; the data-parallel degree is what the others leave of the count."""

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int | None = None
    """Ranks that cut one expert; absent = whole experts where they are spread over ranks, else the tensor degree."""
    dp: int = 1
    sharding: Sharding = "none"
    sequence_parallel: bool | None = None
    """Megatron's activation sharding inside the TP group; absent = on when tp > 1."""
    schedule: Schedule = "1f1b"
    """Order of work in a pipeline; interleaving is `vpp`."""
    async_tp: bool = False
    """Products cut into pieces, so that the exchange of one runs beside the next."""

    @property
    def zero_stage(self) -> int:
        """What data-parallel ranks share, as ZeRO counts: 1 the optimizer, 2 gradients, 3 the weights as well."""
        return {"none": 0, "zero1": 1, "zero2": 2}.get(self.sharding, 3)

    @property
    def expert_tp(self) -> int:
        """Ranks that cut one expert. [accelerators]"""
        return self.etp or (self.tp if self.ep == 1 else 1)

    @property
    def expert_copies(self) -> int:
        """Ranks of a stage that hold the same experts and share their gradients. [accelerators]"""
        return max(1, self.dp * self.cp * self.tp // (self.ep * self.expert_tp))

    @property
    def ranks(self) -> int:
        """Accelerators of the job. [accelerators]"""
        return self.tp * self.pp * self.cp * self.dp

    def degrees(self) -> list[str]:
        """Those above one, as they are written: ["tp8", "vpp2", "dp4"]."""
        return _above_one(self, ("tp", "pp", "vpp", "cp", "ep", "dp"))

    @property
    def label(self) -> str:
        """In a few words, as the field writes them: "TP8 PP16 DP128 ZeRO-1"."""
        named = [*self.degrees(), *([self.sharding] if self.sharding != "none" else [])]
        return " ".join(named).upper().replace("ZERO", "ZeRO-") or "single accelerator"


def _above_one(layout: Layout | TrainLayout, names: tuple[str, ...]) -> list[str]:
    return [f"{name}{n}" for name in names if (n := getattr(layout, name)) > 1]
