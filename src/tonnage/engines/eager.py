"""PyTorch line by line: Transformers, PEFT, TRL, Axolotl, Lightning."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import Keeps, SoftwareSpec

SOFTWARE: Final = SoftwareSpec(
    name="eager",
    words=("pytorch", "hf", "transformers", "peft", "trl", "axolotl", "accelerate", "lightning"),
    precedence=5,
    example="hf",
    usual=(("finetune", 0), ("finetune_whole", 0)),
    keeps=Keeps(
        rms_norm=8,
        expanded_kv=True,
        gated=4,
        plain=2,
        logits=8,
        # A prepared model answers in 32 bits, the trainer divides that by the temperature, and each has a gradient.
        logits_drawn=16,
        source="one PyTorch call per line; of drawn answers accelerate/utils/operations.py (convert_to_fp32) and"
        " trl/trainer/grpo_trainer.py (_get_per_token_logps)",
    ),
    kernel_by_kernel=True,
    zeroes_gradients=True,  # loops that were written for accumulation
    reduces_copies=True,
    tries_selective=False,
    plain_scripts=True,
)
