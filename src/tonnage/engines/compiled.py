"""One device or a few under a compiler: torch.compile, TorchScript, Thunder, nanoGPT."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import Keeps, SoftwareSpec

SOFTWARE: Final = SoftwareSpec(
    name="compiled",
    words=("thunder", "nanogpt", "compile", "torchscript"),
    precedence=3,
    example="torch.compile",
    usual=(("pretrain_alone", 0),),
    keeps=Keeps(rms_norm=2, expanded_kv=False, gated=4, plain=2, logits=8, source="fused by a compiler"),
    native_attention=True,
)
