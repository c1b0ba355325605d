"""Ray Serve: a config of its LLM application, which runs vLLM; Ray places the ranks over its own cluster."""

from __future__ import annotations

import math

from tonnage.export.kit import BadRequest, Deployment, Fields, Target, server
from tonnage.export.targets.vllm import settings

TARGET = Target(
    title="Ray Serve LLM",
    version="2.60",
    files=("serve.yaml",),
    start="serve deploy serve.yaml",
    engines=("vllm",),
)
"""Source: ray.serve.llm.LLMConfig of the 2.60.0 wheel; docs.ray.io/en/latest/serve/llm; ray.util.accelerators."""


def export(d: Deployment) -> str:
    """The text of `serve.yaml`: a fixed number of replicas of one model, with what vLLM takes as engine arguments."""
    made = server(d)
    if d.layout.dp > 1:  # build_openai_app places tp x pp accelerators a replica, whatever data_parallel_size says
        raise BadRequest(
            f"Ray Serve in this file gives a replica tp x pp accelerators, none for the other {d.layout.dp - 1} of its"
            f" {d.layout.dp} data-parallel ranks; export to vllm or kubernetes, or choose another option"
        )
    config: Fields = {
        "model_loading_config": {"model_id": d.name, "model_source": d.model},
        "deployment_config": {
            "autoscaling_config": {
                "min_replicas": d.replicas,
                "max_replicas": d.replicas,
                "target_ongoing_requests": max(1, math.floor(d.concurrency)),
            }
        },
        "engine_kwargs": {name: value for name, value in settings(d).items() if name != "distributed_executor_backend"},
    }
    ray_name = d.spelled.ray
    if ray_name:
        config["accelerator_type"] = ray_name
    document = {
        "applications": [
            {
                "name": d.name,
                "route_prefix": "/",
                "import_path": "ray.serve.llm:build_openai_app",
                "args": {"llm_configs": [config]},
            }
        ],
        "http_options": {"host": "0.0.0.0", "port": d.port},
    }
    lines = [*made.notes, "Ray workers read HF_TOKEN from their own environment; it never stands here."]
    if not ray_name:
        lines.append(f"Ray has no name for {d.accelerator}: it places ranks on any accelerator of the cluster.")
    return TARGET.yaml(lines, document, beside=f" and vLLM {made.version}")
