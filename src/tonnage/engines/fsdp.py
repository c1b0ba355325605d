"""PyTorch FSDP with fused kernels: torchtitan, Composer and their like."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import Keeps, SoftwareSpec

SOFTWARE: Final = SoftwareSpec(
    name="fsdp",
    words=("composer", "foundry", "titan", "fsdp"),
    precedence=2,
    example="torchtitan",
    usual=(("pretrain", 0),),
    keeps=Keeps(rms_norm=2, expanded_kv=False, gated=4, plain=2, logits=6, source="fused norms, attention and loss"),
    reduces_copies=True,
    tensor_parallel=True,
    context_parallel=True,
    shardings=("fsdp",),
    searched_shardings=("zero2", "fsdp", "hsdp"),
)
