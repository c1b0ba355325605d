"""Read DeepSpeed's files with DeepSpeed's own model of them, and hold batch and ZeRO's stage against the plan."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

# This file's own name would shadow the package.
sys.path.pop(0)

from deepspeed.runtime import config

STAGES = {"zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3, "hsdp": 3, "none": 0}

for path in map(Path, sys.argv[1:]):
    expected = json.loads(path.with_name("expected.json").read_text(encoding="utf-8"))
    # On as many ranks as planned: it asserts that they, micro-batch and accumulation make the batch.
    config.dist = SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda ranks=expected["dp"]: ranks)
    read = config.DeepSpeedConfig(str(path))
    found = {
        "micro_batch": read.train_micro_batch_size_per_gpu,
        "accumulation": read.gradient_accumulation_steps,
        "global_batch": read.train_batch_size,
    }
    wrong = {name: (expected[name], value) for name, value in found.items() if expected[name] != value}
    if STAGES[expected["sharding"]] != read.zero_optimization_stage:
        wrong["sharding"] = (expected["sharding"], read.zero_optimization_stage)
    if wrong:
        sys.exit(f"{path}: planned and read differ: {wrong}")
    print(f"ok: {path}: stage {read.zero_optimization_stage}, {expected['dp']} ranks")
