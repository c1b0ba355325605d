"""DeepSpeed, alone or with Megatron: ZeRO's stages, gradients in 16 bits, exchange that nothing hides."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import Keeps, SoftwareSpec

SOFTWARE: Final = SoftwareSpec(
    name="deepspeed",
    words=("megatron-deepspeed", "deepspeed"),
    precedence=0,  # before Megatron, whose name Megatron-DeepSpeed contains
    example="deepspeed",
    keeps=Keeps(rms_norm=2, expanded_kv=False, gated=4, plain=2, logits=10, source="Megatron-DeepSpeed kernels"),
    mixed_precision="partitioned",
    contiguous_gradients=True,
    zeroes_gradients=True,
    hosts_gradients=True,
    bucket_values=5e8,  # reduce_bucket_size of its documentation
    bucket_copies=4.5,  # its and Transformers' documentation, where exchange and compute overlap
    keeps_handed_on=True,
    hides_reduction=False,
    selective="attention",
    model_parallel=True,
    tensor_parallel=True,
    sequence_parallel=False,
    shardings=("zero1",),
    searched_shardings=("zero1",),  # same traffic as none, less memory
)
