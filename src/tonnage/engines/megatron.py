"""Megatron-LM and NeMo: layers, tensors and experts split, gradients accumulated in 32 bits, an optimizer shared."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import Keeps, SoftwareSpec

SOFTWARE: Final = SoftwareSpec(
    name="megatron",
    words=("megatron", "nemo"),
    precedence=1,
    example="megatron",
    usual=(("pretrain", 0), ("finetune_whole", 1)),
    keeps=Keeps(
        rms_norm=2, expanded_kv=False, gated=3, plain=2, logits=10, source="arXiv 2205.05198, section 4; fused SwiGLU"
    ),
    mixed_precision="accumulated",
    contiguous_gradients=True,
    zeroes_gradients=True,
    selective="attention",
    model_parallel=True,
    tensor_parallel=True,
    context_parallel=True,
    expert_parallel=True,
    spreads_experts=True,
    interleaves=True,
    shardings=("zero1",),
    searched_shardings=("zero1",),  # same traffic as none, less memory
    recomputed_all_until=2022,  # selective recompute came with arXiv 2205.05198
    selective_since=2024,
    fused_loss_since=2024,
    # "CuTeDSL fused grouped GEMM, and full iteration CUDA graphs": Megatron-Bridge 0.5.1, in June 2026's container.
    fused_experts_since="26.06",
    native_attention=True,
    adapted=("q_proj", "k_proj", "v_proj"),  # NeMo's recipes adapt the merged query, key and value
)
