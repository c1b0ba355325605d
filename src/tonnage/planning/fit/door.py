"""The door of `tonnage fit`: text that people write becomes a `FitRequest`, contradictions become sentences.

The fields are one table for command line, HTTP and files, as for plans (`door.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.domain.fit import FitRequest, Goal
from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.precision import FORMATS, number_format
from tonnage.engines.registry import engine_name
from tonnage.errors import BadRequest, UnknownName
from tonnage.physics.optimizers import optimizer
from tonnage.planning.door import Field, read_fields

__all__ = ["FIT_FIELDS", "fit_request"]

METHODS: Final = ("full", "lora", "qlora", "dora")
CACHES: Final = ("fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "gguf-q8_0", "gguf-q4_0")
"""Formats an engine keeps a cache in."""

FIT_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="model", reads="text", help="catalogue id, Hugging Face id, path, or a bare size such as 13B"),
    Field(name="accelerator", reads="list", help="accelerators to try; none = all usual ones, smallest first"),
    Field(name="serve", reads="flag", help="memory for serving (the default)"),
    Field(name="train", reads="flag", help="memory for training from scratch"),
    Field(name="finetune", reads="text", help="memory for fine-tuning: full, lora, qlora, dora", choices=METHODS),
    Field(name="context", reads="tokens", help="prompt and output of one request: 8192, 128k", high=1e9),
    Field(name="concurrency", reads="integer", help="requests resident at once", high=1e7),
    Field(name="batch", reads="integer",
          help="training: sequences per accelerator and step; networks of images or audio: samples of a batch",
          high=1e6),
    Field(name="seq_len", reads="tokens", help="training: tokens of one sequence", high=1e9),
    Field(name="resolution", reads="integer", help="images: pixels of a side", high=65536),
    Field(name="precision", reads="text", help="weights: bf16, fp8, int8, awq, nvfp4, gguf-q4_k_m, exl2-4.65bpw …"),
    Field(name="kv", reads="text", help="KV cache: bf16, fp8, int8, int4", choices=CACHES),
    Field(name="tp", reads="integer", help="tensor-parallel ranks", high=1024),
    Field(name="pp", reads="integer", help="pipeline stages", high=1024),
    Field(name="dp", reads="integer", help="data-parallel attention (serving) or data-parallel ranks", high=100_000),
    Field(name="ep", reads="integer", help="expert-parallel ranks", high=1024),
    Field(name="count", reads="integer", help="training: accelerators of the job", high=100_000),
    Field(name="engine", reads="text", help="vllm, sglang, trtllm, lmdeploy, llamacpp, hf, exllamav2 …"),
    Field(name="engine_version", reads="text", help="release or month: 0.19.0, 2025-07"),
    Field(name="optimizer", reads="text", help="training: adamw, adamw-8bit, adafactor, lion, muon, sgd …"),
    Field(name="recompute", reads="text", help="training: activation checkpointing",
          choices=("none", "selective", "full")),
    Field(name="sharding", reads="text", help="training: what data-parallel ranks share",
          choices=("none", "zero1", "zero2", "zero3", "fsdp", "hsdp")),
    Field(name="lora_rank", reads="integer", help="rank of the adapters", high=65536),
    Field(name="shared_prefix", reads="tokens", help="leading tokens that all requests share (prefix cache)", high=1e9),
    Field(name="kv_offload", reads="bytes", help="cache that may lie in host memory, per accelerator", high=1e14),
    Field(name="extend_context", reads="flag", help="the context may exceed the model's own (RoPE scaling)"),
    Field(name="solve", reads="text", help="find the largest that fits",
          choices=("context", "concurrency", "batch", "seq-len", "model")),
)  # fmt: skip
"""Every field of a fit request."""

SERVING_ONLY: Final = ("context", "concurrency", "kv", "engine", "engine_version", "shared_prefix", "kv_offload")
TRAINING_ONLY: Final = ("seq_len", "optimizer", "recompute", "sharding", "lora_rank", "count")
INSTEAD: Final = {
    "seq_len": "context", "count": "tp", "context": "seq-len", "concurrency": "batch",
    "kv": "precision",
}  # fmt: skip
"""What a field of the other kind of job probably meant."""


def fit_request(values: Mapping[str, Any]) -> FitRequest:
    """
    A fit request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range, or fields that contradict.
    """
    given = read_fields(values, FIT_FIELDS)
    _choose(given)
    goal = _goal(given)
    _belongs(given, goal)
    solve = given.get("solve")
    if "model" not in given and solve != "model":
        raise BadRequest("model is missing: name one, for example 'meta-llama/Llama-3.1-8B-Instruct' or '13B'")
    _check_solve(given, goal)
    if "precision" in given:
        _storable(given["precision"])
    if "optimizer" in given:
        optimizer(given["optimizer"])
    return FitRequest(
        model=given.get("model", ""),
        goal=goal,
        accelerators=given.get("accelerator", ()),
        context=_tokens(given, "context"),
        concurrency=given.get("concurrency"),
        batch=given.get("batch"),
        seq_len=_tokens(given, "seq_len"),
        resolution=given.get("resolution"),
        precision=number_format(given["precision"]).name if "precision" in given else None,
        kv=given.get("kv"),
        tp=given.get("tp"),
        pp=given.get("pp"),
        dp=given.get("dp"),
        ep=given.get("ep"),
        count=given.get("count"),
        engine=engine_name(given.get("engine", SERVING_ENGINE)),
        engine_version=given.get("engine_version"),
        method=given.get("finetune", "full"),
        optimizer=given.get("optimizer", "adamw"),
        recompute=given.get("recompute"),
        sharding=given.get("sharding"),
        lora_rank=given.get("lora_rank", 16),
        shared_prefix=_tokens(given, "shared_prefix") or 0,
        kv_offload_bytes=given.get("kv_offload"),
        extend_context=given.get("extend_context", False),
        solve=solve,
    )


def _choose(given: dict[str, Any]) -> None:
    """Texts that must be one of a few, in the table's spelling."""
    if "kv" in given:
        given["kv"] = number_format(given["kv"]).name
    for field in FIT_FIELDS:
        if field.choices and field.name in given and given[field.name] not in field.choices:
            raise UnknownName(field.name.replace("_", "-"), given[field.name], known=field.choices)


def _goal(given: Mapping[str, Any]) -> Goal:
    goals = [name for name in ("serve", "train", "finetune") if given.get(name)]
    if len(goals) > 1:
        raise BadRequest(f"--{goals[0]} and --{goals[1]} contradict; one kind of job is answered at a time")
    return "finetune" if "finetune" in goals else "train" if "train" in goals else "serve"


def _belongs(given: Mapping[str, Any], goal: Goal) -> None:
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
    solve = given.get("solve")
    if solve is None:
        return
    if "accelerator" not in given:
        raise BadRequest(f"--solve {solve} needs an --accelerator to fill")
    fitting = ("context", "concurrency", "batch", "model") if goal == "serve" else ("batch", "seq-len")
    if solve not in fitting:
        raise BadRequest(f"--solve {solve} makes no sense for {_word(goal)}; choose {' or '.join(fitting)}")
    if solve.replace("-", "_") in given:
        raise BadRequest(f"--{solve} is given and asked for at once; drop one of --{solve} and --solve {solve}")


def _storable(name: str) -> None:
    found = number_format(name)
    if found.name in {"tf32", "fp64"}:
        raise BadRequest(f"precision: weights are not stored as {found.name}; give one of {', '.join(FORMATS)}")


def _tokens(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if value != int(value):
        raise BadRequest(f"{name.replace('_', '-')}: {value:g} is no whole number of tokens")
    return int(value)
