"""Ray Data: a script that answers JSON lines with vLLM replicas as stages of a data set; Ray places them."""

from __future__ import annotations

import json

from tonnage.export.kit import Deployment, Target, head
from tonnage.export.targets.vllm import settings

TARGET = Target(
    title="Ray Data LLM",
    version="2.60",
    files=("batch.py",),
    start="INPUT=s3://... OUTPUT=s3://... ray job submit --working-dir . -- python batch.py",
    kinds=("batch",),
)
"""Source: ray.data.llm of the 2.60.0 wheel; docs.ray.io/en/latest/data/working-with-llms.html."""


def export(d: Deployment) -> str:
    """`batch.py`."""
    lines = [*d.lines, "Ray takes up lost tasks by itself; a run that ends is started anew from its first block."]
    engine = ascii(json.dumps(settings(d), sort_keys=True))
    body = f"""
import json
import os

import ray
from ray.data.llm import build_processor, vLLMEngineProcessorConfig

config = vLLMEngineProcessorConfig(
    model_source={d.model!a},
    engine_kwargs=json.loads({engine}),
    concurrency={d.replicas},
    batch_size={max(1, round(d.concurrency))},
)
processor = build_processor(
    config,
    preprocess=lambda row: {{"messages": row["messages"], "sampling_params": {{"max_tokens": row.get("max_tokens")}}}},
    postprocess=lambda row: {{"id": row.get("id"), "text": row["generated_text"]}},
)
processor(ray.data.read_json(os.environ["INPUT"], lines=True)).write_json(os.environ["OUTPUT"])
"""
    return head(f"{TARGET.title} {TARGET.version} and vLLM", d.engine.version or "", lines=lines) + body
