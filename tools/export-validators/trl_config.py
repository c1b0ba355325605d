"""Read TRL's configurations with its own parser and argument classes, and hold the batch against the plan."""

import json
import sys
from pathlib import Path

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser

PLANNED = {
    "max_length": "seq_len", "per_device_train_batch_size": "micro_batch",
    "gradient_accumulation_steps": "accumulation", "max_steps": "steps", "save_steps": "save_steps",
}  # fmt: skip
"""TRL's name -> the plan's."""

for path in map(Path, sys.argv[1:]):
    # Of a processor, as there is nothing else here: its checks of a number format ask for an accelerator.
    script, read, model = TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config(
        ["--config", str(path), "--use_cpu"], fail_with_unknown_args=True
    )
    expected = json.loads(path.with_name("expected.json").read_text(encoding="utf-8"))
    wrong = {
        name: (expected[ours], getattr(read, name))
        for name, ours in PLANNED.items()
        if getattr(read, name) != expected[ours]
    }
    if model.use_peft and model.lora_r != expected["lora_rank"]:
        wrong["lora_r"] = (expected["lora_rank"], model.lora_r)
    if model.use_peft != (expected["method"] in ("lora", "qlora", "dora")) or model.load_in_4bit != (
        expected["method"] == "qlora"
    ):
        wrong["method"] = (expected["method"], model.use_peft, model.load_in_4bit)
    if wrong:
        sys.exit(f"{path}: planned and read differ: {wrong}")
    print(f"ok: {path}: {read.optim}, {len(PLANNED)} settings as planned")
