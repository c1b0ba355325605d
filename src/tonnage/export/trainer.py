"""What the configurations of Hugging Face's Trainer and its relatives (axolotl, TRL) mean together, read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tonnage.export.job import Job
from tonnage.export.target import Target

OPTIMIZER_NAMES: Final = {
    "adamw": "adamw_torch_fused",
    "adamw-8bit": "adamw_bnb_8bit",
    "adafactor": "adafactor",
    "lion": "lion_32bit",
    "sgd": "sgd",
}
"""Our optimizers by transformers' names (transformers.training_args.OptimizerNames, 5.23.0)."""
SHARDED_8BIT: Final = "adamw_torch_8bit"
"""
Adam in eight bits where parameters are sharded by FSDP2: bitsandbytes' does not know DTensor, torchao's does.

Source: axolotl 0.19.0, axolotl/utils/schemas/validation.py refuses the former.
"""

LEARNING_RATE: Final = {True: 0.0002, False: 0.00002}
"""
Where to start with adapters, and without.

Source: axolotl's examples for Llama 3 (lora-8b.yml, fft-8b.yaml) and TRL's for supervised fine-tuning ("SFT", "PEFT").
"""


def optimizer_of(made: Job, target: Target, *, among: Mapping[str, str]) -> str:
    """A target's name of the run's optimizer."""
    if made.sharded and made.optimizer == "adamw-8bit":
        return SHARDED_8BIT
    return target.choose("optimizer", made.optimizer, among=among)


def optimizer_called(name: str) -> str:
    """Our name of an optimizer: fused, paged and framework variants hold the same states."""
    folded = name.lower().removeprefix("paged_").replace("-", "_")
    if "8bit" in folded:
        return f"{folded.partition('_')[0]}-8bit" if not folded.startswith("adamw") else "adamw-8bit"
    known = {
        "ademamix": "ademamix",
        "adafactor": "adafactor",
        "muon": "muon",
        "sgd": "sgd",
        "lion": "lion",
        "adam": "adamw",
    }
    return next((ours for word, ours in known.items() if folded.startswith(word)), folded)


def read_switch(text: str) -> bool:
    """A switch that may also name a way: bf16: auto, gradient_checkpointing: offload."""
    return text.strip().lower() not in {"false", "no", "off", "0", "none", "null", ""}


def settle_trainer(found: dict[str, Any]) -> dict[str, Any]:
    """
    Method, precision, recomputation and sharding of several settings.

    Adapters in four bits are QLoRA whatever the configuration calls them; DeepSpeed's stage is read from the name of
    its file, as its own examples name them (zero3.json), where the file itself is not there.
    """
    adapter, four, dora = found.pop("adapter", ""), found.pop("four_bits", False), found.pop("dora", False)
    adapter = adapter if isinstance(adapter, str) and read_switch(adapter) else "lora" if adapter is True else ""
    found["method"] = "full" if not adapter else "qlora" if four or adapter == "qlora" else "dora" if dora else "lora"
    if not adapter:
        found.pop("lora_rank", None)
    half, brain = found.pop("fp16", False), found.pop("bf16", True)
    found["precision"] = "fp16" if half and not brain else "bf16" if brain else "fp32"
    found["recompute"] = "full" if found.pop("recomputes", False) else "none"
    stage = re.search(r"(?:zero|stage)_?-?([0123])", str(found.pop("stage_file", "")).lower())
    sharded = str(found.pop("fsdp", "")).lower()
    reshards = found.pop("reshards", True)
    if stage:
        found["sharding"] = "none" if stage[1] == "0" else f"zero{stage[1]}"
    elif read_switch(sharded):
        hybrid, partly = "hybrid" in sharded or found.get("replicated", 1) > 1, "grad_op" in sharded or not reshards
        found["sharding"] = "hsdp" if hybrid else "zero2" if partly else "fsdp"
    found.pop("replicated", None)
    return found
