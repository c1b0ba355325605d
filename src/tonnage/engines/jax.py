"""JAX and XLA: MaxText, Pax, T5X."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import Keeps, SoftwareSpec

SOFTWARE: Final = SoftwareSpec(
    name="jax",
    words=("maxtext", "paxml", "pathways", "jax", "t5x"),
    precedence=4,
    example="maxtext",
    usual=(("tpu", 0),),
    keeps=Keeps(rms_norm=2, expanded_kv=False, gated=3, plain=2, logits=6, source="XLA with fused element-wise work"),
    gathered_units=1,
    tensor_parallel=True,
    async_tp=True,  # XLA decomposes gathers and scatters beside products (doi.org/10.1145/3567955.3567959)
    context_parallel=True,
    expert_parallel=True,
    shardings=("fsdp",),
    searched_shardings=("fsdp",),
    native_attention=True,
)
