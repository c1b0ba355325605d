"""
Read torchtitan's scripts with its own configuration manager, and hold degrees, batches and network against the plan.

Triton's kernels are compiled for accelerators and never called here, so that a stand-in takes their place.
"""

import json
import sys
from pathlib import Path
from unittest.mock import MagicMock

import recorded

# This file's own name would shadow the package.
sys.path.pop(0)

import torch._inductor.compile_fx  # noqa: F401 - asks whether there is a Triton: before the stand-in

for name in ("triton", "triton.language"):
    sys.modules[name] = MagicMock(__version__="3.4.0")

from torchtitan.config import ConfigManager  # noqa: E402 - behind the stand-in
from torchtitan.distributed import activation_checkpoint  # noqa: E402

RECOMPUTES = {"full": activation_checkpoint.FullAC.Config, "selective": activation_checkpoint.SelectiveAC.Config}

for path in map(Path, sys.argv[1:]):
    _, words = recorded.started(path)
    read = ConfigManager().parse_args(words[words.index("torchtitan.train") + 1 :])
    cut, network = read.parallelism, read.model_spec.model
    found = {
        "tp": cut.tensor_parallel_degree,
        "pp": cut.pipeline_parallel_degree,
        "cp": cut.context_parallel_degree,
        "ep": cut.expert_parallel_degree,
        "dp": cut.data_parallel_replicate_degree * cut.data_parallel_shard_degree,
        "micro_batch": cut.pipeline_parallel_microbatch_size
        if cut.pipeline_parallel_degree > 1
        else read.training.local_batch_size,
        "global_batch": read.training.global_batch_size,
        "seq_len": read.training.seq_len,
        "steps": read.training.steps,
        "save_steps": read.checkpoint.interval,
        "num_layers": len(network.layers),
        "hidden_size": network.dim,
    }
    expected = json.loads(path.with_name("expected.json").read_text(encoding="utf-8"))
    wrong = {name: (expected[name], value) for name, value in found.items() if expected[name] != value}
    if not isinstance(read.activation_checkpoint, RECOMPUTES.get(expected["recompute"], type(None))):
        wrong["recompute"] = (expected["recompute"], read.activation_checkpoint)
    if wrong:
        sys.exit(f"{path}: planned and read differ: {wrong}")
    print(f"ok: {path}: {len(network.layers)} layers, {len(found) + 1} settings as planned")
