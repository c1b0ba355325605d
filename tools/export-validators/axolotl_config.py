"""Read axolotl's files with its own validation, as on a node of eight H100, and hold the batch against the plan."""

import json
import sys
from pathlib import Path

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

import yaml
from axolotl.utils.config import validate_config
from axolotl.utils.dict import DictDefault

NODE = {"bf16": True, "fp8": True, "n_gpu": 8, "n_node": 1, "compute_capability": "sm_90"}
PLANNED = {"sequence_len": "seq_len", "micro_batch_size": "micro_batch", "gradient_accumulation_steps": "accumulation",
           "max_steps": "steps", "save_steps": "save_steps"}  # fmt: skip
"""Axolotl's name -> the plan's."""

for path in map(Path, sys.argv[1:]):
    given = DictDefault(yaml.safe_load(path.read_text(encoding="utf-8")))
    read = validate_config(given, capabilities=NODE, env_capabilities={"torch_version": "2.13.0"})
    expected = json.loads(path.with_name("expected.json").read_text(encoding="utf-8"))
    wrong = {name: (expected[ours], read[name]) for name, ours in PLANNED.items() if read[name] != expected[ours]}
    if expected["method"] in ("lora", "qlora"):
        wrong |= (
            {} if (read.adapter, read.lora_r) == (expected["method"], expected["lora_rank"]) else {"lora": read.lora_r}
        )
    if wrong:
        sys.exit(f"{path}: planned and read differ: {wrong}")
    print(f"ok: {path}: {read.optimizer}, {read.sequence_len} tokens, {len(PLANNED)} settings as planned")
