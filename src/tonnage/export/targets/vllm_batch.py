"""vLLM offline: a script that answers a file of requests in parts, and takes up where an interrupted run stopped."""

from __future__ import annotations

from tonnage.domain.batch_plan import BatchPlan
from tonnage.export.kit import Deployment, Files, Target, batch_files, version_of
from tonnage.export.targets.vllm import TARGET as ENGINE
from tonnage.export.targets.vllm import settings

TARGET = Target(
    title="vLLM offline",
    version=ENGINE.version,
    files=("batch.sh", "batch.py", "engine.json"),
    start="INPUT=requests.jsonl OUTPUT=answers bash batch.sh, on every machine",
    kinds=("batch",),
)
"""Source: vllm.LLM, vllm.engine.arg_utils.EngineArgs, 0.32.0."""


def export(d: Deployment) -> Files:
    """`batch.sh`, which starts the replicas of one machine; `batch.py` and `engine.json`."""
    assert isinstance(d.plan, BatchPlan)
    here, ranks = min(d.replicas, d.replicas_per_node), d.layout.ranks
    notes = [
        *d.lines,
        f"{d.plan.request.items:,.0f} requests by {d.replicas} replicas, {here} on each of {d.instances} machines:",
        "MACHINE is 0, 1, ... on each of them.",
        "OUTPUT is a folder that outlives the machines: parts that are there are not computed again.",
        "Tokens are read from the environment: export HF_TOKEN before starting a gated model.",
    ]
    body = f""": "${{INPUT:?a file of JSON lines with prompt or messages}}" "${{OUTPUT:?a folder for the answers}}"
cd "$(dirname "$0")"
for copy in $(seq 0 {here - 1}); do
  first=$((copy * {ranks}))
  CUDA_VISIBLE_DEVICES="$(seq -s, "$first" $((first + {ranks - 1})))" \\
    SHARD=$((${{MACHINE:-0}} * {here} + copy)) SHARDS={d.replicas} python3 batch.py &
  pids[copy]=$!
done
for pid in "${{pids[@]}}"; do wait "$pid"; done
"""
    script = TARGET.script(notes, body, version=version_of(d, ENGINE))
    return {"batch.sh": script, **batch_files(d, settings=settings(d))}
