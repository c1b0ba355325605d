"""Plans to export: small, written out, independent of what the planner chooses today."""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.domain.answer import Quantity
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import PLAN_SCHEMA, Bill, Capacity, Configuration, Provenance, ServeOption, ServePlan
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Lengths, Slo
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import FleetDay, Valleys

ENGINE = Engine(
    name="vllm",
    max_num_seqs=256,
    max_num_batched_tokens=8192,
    memory_fraction=0.9,
    max_model_len=32768,
    block_tokens=16,
    chunked_prefill=True,
    prefix_caching=True,
    cuda_graphs=True,
)

BILL = Bill(
    provider="gcp",
    instance_type="a3-highgpu-8g",
    region="us-central1",
    term="on-demand",
    instances=1,
    accelerators_per_instance=8,
    usd_per_instance_hour=80.0,
    lines=(Quantity(name="1 x a3-highgpu-8g", value=80.0),),
    as_of="2026-11-01",
)


def plan(model: str = "meta-llama/Llama-3.1-70B-Instruct", *, checkpoint: str = "bf16", **changes: Any) -> ServePlan:
    """A plan with one option; `changes` go to the option, its bill, configuration, layout, precision or engine."""
    layout = taken(Layout(tp=2), changes)
    precision = taken(Precision(weights="fp8", kv="fp8", activations="fp8"), changes)
    engine = taken(ENGINE, changes)
    configuration = Configuration(
        accelerator=changes.pop("accelerator", "h100-sxm5-80gb"), layout=layout, precision=precision, engine=engine
    )
    bill = taken(BILL, changes)
    day, slo = changes.pop("day", None), changes.pop("slo", Slo())
    facts = {name: changes.pop(name) for name in ("named", "pools", "stored_bytes") if name in changes}
    option = taken(option_of(configuration, bill), changes)
    assert not changes, f"no such field: {changes}"
    return ServePlan(
        schema=PLAN_SCHEMA,
        feasible=True,
        sentence="Rent.",
        request=Serve(model=model, lengths=Lengths(prompt_tokens=1000, output_tokens=200), rate_per_s=4.0, slo=slo),
        model={"id": model, "checkpoint": checkpoint, **facts},
        options=(option,),
        day=day,
        provenance=Provenance(version="0.1.0", catalogue={}, made="2026-11-21"),
    )


def option_of(configuration: Configuration, bill: Bill) -> ServeOption:
    """Three replicas of a configuration."""
    return ServeOption(
        configuration=configuration,
        replicas=3,
        accelerators=3 * configuration.layout.ranks,
        capacity=Capacity(
            max_rate_per_s=Quantity(value=6.0, unit="1/s"),
            concurrency=23.7,
            ttft_s=Quantity(value=0.5, unit="s"),
            tpot_s=Quantity(value=0.03, unit="s"),
            ttft_mean_s=0.3,
            tpot_mean_s=0.02,
            binds="kv",
            binds_text="the KV cache is full",
        ),
        memory=Quantity(value=7e10, unit="bytes"),
        kv_tokens=200_000.0,
        bill=bill,
        cost=Quantity(value=80.0, unit="USD/h"),
        headroom=0.3,
        usd_per_month=58_400.0,
        usd_per_million_output_tokens=2.0,
        basis="calibrated",
    )


def taken(noun: Any, changes: dict[str, Any]) -> Any:
    """The noun with those of the changes that are its fields, which are taken away."""
    mine = {name: changes.pop(name) for name in noun.__struct_fields__ if name in changes}
    return msgspec.structs.replace(noun, **mine)


ZERO = FleetDay(
    shape="bursts",
    source="",
    period_s=3600.0,
    interval_s=60.0,
    rates_per_s=(1.0, 0.0),
    replicas=(1, 0),
    usable_per_s=4.2,
    cold_start=Quantity(value=95.0, unit="s"),
    ways=(),
    wasted_share=0.8,
    best="scale-to-zero",
    valleys=Valleys(replica_hours_per_day=0.0, requests_per_day=0.0, output_tokens_per_day=0.0, usd_per_day=0.0),
)
"""Requests come in bursts, and everything is off between them."""
TWO_NODES = {"tp": 8, "pp": 2, "max_model_len": 131072, "replicas": 2, "instances": 4}
"""Changes that make a replica span two instances."""

WATCHED = {"slo": Slo(ttft_s=0.8, tpot_s=0.05, e2e_s=20.0)}
"""Objectives, for what watches them."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm": ("vllm", {}),
    "vllm-two-nodes": ("vllm", TWO_NODES),
    "vllm-experts": ("vllm", {"model": "deepseek-ai/DeepSeek-V3", "checkpoint": "fp8_block", "weights": "fp8_block",
                              "kv": "bf16", "tp": 1, "dp": 8, "ep": 8}),
    "sglang": ("sglang", {"name": "sglang", "block_tokens": 1, "tp": 1, "dp": 4, "ep": 4}),
    "sglang-two-nodes": ("sglang", {"name": "sglang", **TWO_NODES}),
    "trtllm": ("trtllm", {"name": "trtllm", "named": "nvidia/Llama-3.1-70B-Instruct-FP8"}),
    "llamacpp": ("llamacpp", {"name": "llamacpp", "weights": "gguf-q4_k_m", "kv": "gguf-q8_0", "max_num_seqs": 4,
                              "named": "bartowski/Meta-Llama-3.1-70B-Instruct-GGUF", "accelerator": "rtx-4090",
                              "max_num_batched_tokens": 2048}),
    "compose": ("compose", {}),
    "compose-amd": ("compose", {"accelerator": "mi300x", "tp": 4}),
    "budget": ("budget", {"provider": "aws", "instance_type": "p5.48xlarge"}),
    "kubernetes": ("kubernetes", {}),
    "kubernetes-spot-eks": ("kubernetes", {"term": "spot", "provider": "aws", "instance_type": "p5.48xlarge"}),
    "kubernetes-two-nodes": ("kubernetes", TWO_NODES),
    "kubernetes-zero": ("kubernetes", {"day": ZERO}),
    "skypilot": ("skypilot", {"term": "spot"}),
    "skypilot-two-nodes": ("skypilot", TWO_NODES),
    "dstack": ("dstack", {"accelerator": "a100-sxm4-80gb"}),
    "slurm": ("slurm", {"term": "spot"}),
    "slurm-two-nodes": ("slurm", TWO_NODES),
    "ray-serve": ("ray-serve", {}),
    "terraform": ("terraform", {}),
    "dynamo": ("dynamo", {}),
    "dynamo-pools": ("dynamo", {"pools": {"prefill_workers": 2, "decode_workers": 6}, "stored_bytes": 1.4e11}),
    "kserve": ("kserve", {"term": "spot", "provider": "aws", "instance_type": "p5.48xlarge"}),
    "karpenter": ("karpenter", {"term": "spot", "provider": "aws", "instance_type": "p5.48xlarge"}),
    "prometheus": ("prometheus", WATCHED),
    "prometheus-sglang": ("prometheus", {**WATCHED, "name": "sglang"}),
    "prometheus-trtllm": ("prometheus", {**WATCHED, "name": "trtllm"}),
    "prometheus-llamacpp": ("prometheus", {**WATCHED, "name": "llamacpp"}),
    "grafana": ("grafana", WATCHED),
    "grafana-llamacpp": ("grafana", {**WATCHED, "name": "llamacpp"}),
    "llm-d": ("llm-d", {"pools": {"prefill_workers": 2, "decode_workers": 6}}),
}  # fmt: skip
"""Golden file -> target and what differs from the plain plan."""
