"""
What must be resident, and does it fit: the question of `tonnage fit`, its answer, how what people write is read.

One `FitRow` is one accelerator type in one arrangement: the memory of its fullest rank opened into parts, the limit
those parts share, and the largest context, concurrency or batch that stays under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from tonnage.catalog.standings import CHAT, Task
from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.precision import FORMATS, number_format
from tonnage.domain.requests.common import ModelName
from tonnage.domain.requests.field import (
    Field,
    accelerator_field,
    engine_field,
    layout_field,
    search_field,
    training_field,
)
from tonnage.errors import BadRequest
from tonnage.record import Record, SparseRecord

Goal = Literal["serve", "train", "finetune"]
Solve = Literal["context", "concurrency", "batch", "seq-len", "model"]


class FitRequest(SparseRecord, kw_only=True):
    """What is asked. Absent = chosen, and said so in the answer."""

    model: ModelName = ""
    goal: Annotated[
        Goal,
        Field("memory for serving, where nothing else is asked", "flag", name="serve"),
        Field("memory for training from scratch", "flag", name="train"),
    ] = "serve"
    accelerators: Annotated[
        tuple[str, ...],
        accelerator_field(
            "accelerators to try; none = all usual ones, smallest first",
            name="accelerator",
            short="-a",
            known="names of accelerators",
        ),
    ] = ()
    """Empty = all of the usual segments, each with the smallest count that holds it."""
    context: Annotated[int | None, Field("prompt and output of one request: 8192, 128k", "tokens", high=1e9)] = None
    """Prompt and output of one request. [tokens]"""
    concurrency: Annotated[int | None, Field("requests resident at once", high=1e7)] = None
    batch: Annotated[
        int | None,
        Field(
            "training: sequences per accelerator and step; networks of images or audio: samples of a batch", high=1e6
        ),
    ] = None
    """Sequences or samples per accelerator and step (training); samples of a batch through a network."""
    seq_len: Annotated[int | None, Field("training: tokens of one sequence", "tokens", high=1e9)] = None
    resolution: Annotated[int | None, Field("images: pixels of a side", high=65536)] = None
    """Of images. [pixels of a side]"""
    precision: Annotated[
        str | None, engine_field("weights: bf16, fp8, int8, awq, nvfp4, gguf-q4_k_m, exl2-4.65bpw …", known="formats")
    ] = None
    kv: Annotated[
        str | None,
        engine_field(
            "KV cache: bf16, fp8, int8, int4",
            choices=("fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "gguf-q8_0", "gguf-q4_0"),
        ),
    ] = None
    """Formats an engine keeps a cache in."""
    tp: Annotated[int | None, layout_field("tensor-parallel ranks", high=1024)] = None
    pp: Annotated[int | None, layout_field("pipeline stages", high=1024)] = None
    dp: Annotated[
        int | None, layout_field("data-parallel attention (serving) or data-parallel ranks", high=100_000)
    ] = None
    ep: Annotated[int | None, layout_field("expert-parallel ranks", high=1024)] = None
    count: Annotated[int | None, layout_field("training: accelerators of the job", high=100_000)] = None
    """Accelerators of a training job."""
    engine: Annotated[
        str, engine_field("vllm, sglang, trtllm, lmdeploy, llamacpp, hf, exllamav2 …", known="engines")
    ] = SERVING_ENGINE
    engine_version: Annotated[str | None, engine_field("release or month: 0.19.0, 2025-07")] = None
    method: Annotated[
        str,
        Field(
            "memory for fine-tuning: full, lora, qlora, dora",
            name="finetune",
            choices=("full", "lora", "qlora", "dora"),
        ),
    ] = "full"
    """Of fine-tuning: full, lora, qlora, dora."""
    optimizer: Annotated[
        str, training_field("training: adamw, adamw-8bit, adafactor, lion, muon, sgd …", known="optimizers")
    ] = "adamw"
    recompute: Annotated[
        str | None, training_field("training: activation checkpointing", choices=("none", "selective", "full"))
    ] = None
    sharding: Annotated[
        str | None,
        training_field(
            "training: what data-parallel ranks share", choices=("none", "zero1", "zero2", "zero3", "fsdp", "hsdp")
        ),
    ] = None
    lora_rank: Annotated[int, training_field("rank of the adapters", high=65536)] = 16
    shared_prefix: Annotated[
        int, Field("leading tokens that all requests share (prefix cache)", "tokens", high=1e9)
    ] = 0
    """Leading tokens all requests share. [tokens]"""
    kv_offload_bytes: Annotated[
        float | None, Field("cache that may lie in host memory, per accelerator", "bytes", name="kv_offload", high=1e14)
    ] = None
    """Cache that may lie in host memory. [bytes]"""
    extend_context: Annotated[bool, Field("the context may exceed the model's own (RoPE scaling)")] = False
    """A context beyond the model's own is meant."""
    solve: Annotated[Solve | None, search_field("find the largest that fits")] = None
    task: Annotated[
        Task, search_field("which model is the best: for chat, code, agent or reasoning, by a published score of it")
    ] = CHAT
    """By which `solve` = model ranks."""


__all__ = ["FitRequest", "Goal", "Solve"]

FIT_SCHEMA = "tonnage.fit/1"


class Rule(SparseRecord, kw_only=True):
    """A rule of thumb beside the real number, of all accelerators of the job together. [bytes]"""

    name: str
    rule_bytes: float
    real_bytes: float
    why: str
    """What the rule leaves out or overstates."""

    @property
    def off(self) -> float:
        """Rule over real, less one: -0.3 = the rule is 30 % too low. [-]"""
        return self.rule_bytes / self.real_bytes - 1.0


class Largest(SparseRecord, kw_only=True):
    """The largest x that still fits, and what stops it."""

    what: str
    """context, concurrency, batch, seq-len, model."""
    value: float
    unit: str
    binds: str
    """memory, or the model's own limit."""
    given: str = ""
    """What was held fixed."""
    name: str | None = None
    """Of the model, when a model was looked for."""


class FitRow(SparseRecord, kw_only=True):
    """One accelerator type in one arrangement."""

    accelerator: str
    name: str
    count: int
    layout: dict[str, Any]
    precision: dict[str, Any]
    verdict: Verdict
    total_bytes: float
    """Memory a process sees on one accelerator. [bytes]"""
    limit_bytes: float
    """What the engine or framework may use of it. [bytes]"""
    memory: Quantity
    """Needed on the fullest accelerator. [bytes]"""
    kv_tokens: float | None = None
    """Cache the engine would keep. [tokens]"""
    largest: tuple[Largest, ...] = ()
    remedies: tuple[str, ...] = ()
    """What would make it fit, each tried."""
    engine: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def free_bytes(self) -> float:
        """Limit less need; negative = short by that much. [bytes]"""
        return self.limit_bytes - self.memory.value


class FitAnswer(Record, kw_only=True):
    """The answer of `tonnage fit`."""

    sentence: str
    fits: bool
    goal: Goal
    model: str
    parameters: float
    active_parameters: float
    rows: tuple[FitRow, ...]
    rules: tuple[Rule, ...]
    request: FitRequest
    schema: str = FIT_SCHEMA
    version: str = ""
    assumed: tuple[str, ...] = ()
    """Everything that was not said and had to be chosen."""
    too_small: int = 0
    """Accelerator types left out because no count looked at holds the model."""


SERVING_ONLY: Final = ("context", "concurrency", "kv", "engine", "engine_version", "shared_prefix", "kv_offload")
TRAINING_ONLY: Final = ("seq_len", "optimizer", "recompute", "sharding", "lora_rank", "count")
INSTEAD: Final = {
    "seq_len": "context",
    "count": "tp",
    "context": "seq-len",
    "concurrency": "batch",
    "kv": "precision",
}
"""What a field of the other kind of job probably meant."""


def fit_request(values: Mapping[str, Any]) -> FitRequest:
    """
    A fit request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range, or fields that contradict.
    """
    given = read_fields(values, FitRequest)
    goal = _goal(given)
    _check_fields(given, goal)
    if given.get("solve") != "model":
        need_model(given)
    _check_solve(given, goal)
    if "precision" in given:
        _check_storable(given["precision"])
    return build(FitRequest, given, goal=goal)


def _goal(given: Mapping[str, Any]) -> Goal:
    """The kind of job from its flags, serving without any; two flags contradict each other."""
    goals = [name for name in ("serve", "train", "finetune") if given.get(name)]
    if len(goals) > 1:
        raise BadRequest(f"--{goals[0]} and --{goals[1]} contradict; one kind of job is answered at a time")
    return "finetune" if "finetune" in goals else "train" if "train" in goals else "serve"


def _check_fields(given: Mapping[str, Any], goal: Goal) -> None:
    """No field is given that only the other kind of job has; the refusal names the one that was probably meant."""
    foreign = SERVING_ONLY if goal != "serve" else TRAINING_ONLY
    job = "serving" if goal != "serve" else "training"
    for name in foreign:
        if name in given:
            flag = name.replace("_", "-")
            instead = INSTEAD.get(name)
            hint = f"; for {'training' if goal != 'serve' else 'serving'} give --{instead}" if instead else ""
            how = "" if goal != "serve" else " (or say --train, or --finetune lora)"
            raise BadRequest(f"{flag} belongs to {job}, and this asks about {_word(goal)}{hint}{how}")
    if goal == "train" and "lora_rank" in given:
        raise BadRequest("lora-rank belongs to adapters; say --finetune lora")


def _word(goal: Goal) -> str:
    return {"serve": "serving", "train": "training", "finetune": "fine-tuning"}[goal]


def _check_solve(given: Mapping[str, Any], goal: Goal) -> None:
    """What is solved for suits the kind of job, is not given as well, and has an accelerator to fill."""
    solve = given.get("solve")
    if "task" in given and solve != "model":
        raise BadRequest("task ranks models, and one is named here; drop it, or ask --solve model")
    if solve is None:
        return
    if "accelerator" not in given:
        raise BadRequest(f"--solve {solve} needs an --accelerator to fill")
    fitting = ("context", "concurrency", "batch", "model") if goal == "serve" else ("batch", "seq-len", "model")
    if solve not in fitting:
        raise BadRequest(f"--solve {solve} makes no sense for {_word(goal)}; choose {' or '.join(fitting)}")
    if solve.replace("-", "_") in given:
        raise BadRequest(f"--{solve} is given and asked for at once; drop one of --{solve} and --solve {solve}")


def _check_storable(name: str) -> None:
    found = number_format(name)
    if found.name in {"tf32", "fp64"}:
        raise BadRequest(f"precision: weights are not stored as {found.name}; give one of {', '.join(FORMATS)}")
