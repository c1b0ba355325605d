"""Colossal-AI's low-level ZeRO around Transformers models, as its chat recipes use it."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import Keeps, SoftwareSpec

SOFTWARE: Final = SoftwareSpec(
    name="colossalai",
    words=("colossal", "coati"),
    precedence=6,
    example="colossalai",
    timed_as="deepspeed",
    keeps=Keeps(
        rms_norm=8,
        expanded_kv=True,
        gated=4,
        plain=2,
        logits=16,
        logits_passed=10,
        source="coati/models/utils.py: logits and log-softmax in 32 bits, the gradient of each; a reference's pass"
        " leaves its logits in 16 and 32 bits and its log-softmax until the loss is differentiated",
    ),
    mixed_precision="partitioned",
    widens_at_step=True,
    bucket_values=12e6,  # reduce_bucket_size_in_m of LowLevelZeroPlugin
    bucket_copies=2.0,
    tries_selective=False,
    shardings=("zero2",),
    searched_shardings=("zero2",),
)
