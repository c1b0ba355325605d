"""A training configuration with nothing left open, and the measured constants that time it.

`TrainSetup` is what a `TrainCase` becomes once every absent degree, batch and format has been
chosen: physics and engine work on it alone. `TrainCoefficients` holds the few numbers that are
fitted on published runs and shared by every model; they come from a dated file.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tonnage.nouns.layout import TrainLayout

__all__ = ["Method", "Recompute", "Software", "TrainCoefficients", "TrainSetup"]

Method = Literal["pretrain", "full", "lora", "qlora", "dora"]

Recompute = Literal["none", "selective", "full"]

Software = Literal["megatron", "deepspeed", "fsdp", "eager", "compiled", "jax"]
"""Families of training software that keep and fuse the same things; a framework belongs to one."""


class TrainSetup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One optimizer step, fully said."""

    method: Method = "pretrain"
    layout: TrainLayout = TrainLayout()
    accelerators_per_node: int = 8
    micro_batch: int = 1
    """Sequences (or samples) per data-parallel rank and micro-step."""
    num_micro_batches: int = 1
    """Micro-steps per optimizer step and data-parallel rank."""
    seq_len: int = 1
    precision: str = "bf16"
    """What the products are computed in: fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4."""
    weights: str = "bf16"
    """Format of the weights that the forward pass reads."""
    master_weights: bool = True
    """A 32-bit copy of the weights is kept (or the weights themselves are 32 bits)."""
    recompute: Recompute = "none"
    optimizer: str = "adamw"
    grads_kept: bool = True
    flash_attention: bool = True
    software: Software = "megatron"
    fused_loss: bool = False
    """The loss is computed in chunks and logits of all tokens are never held together."""
    lora_rank: int = 16
    lora_targets: tuple[str, ...] = ()
    """Matrices with adapters; empty = every linear layer."""
    trainable_parameters: float | None = None
    """Adapter parameters where the case states them. [parameters]"""
    image_px: int | None = None
    inter_bytes_per_s: float | None = None
    """Network between nodes, per accelerator, one direction; absent = the coefficients' modest default. [bytes/s]"""
    intra: str | None = None
    """Link inside the node where it is not the accelerator's own: pcie, none."""

    @property
    def sequence_parallel(self) -> bool:
        """Whether Megatron's activation sharding is on inside the TP group."""
        stated = self.layout.sequence_parallel
        return stated if stated is not None else self.layout.tp > 1

    @property
    def adapter(self) -> bool:
        """Whether base weights are frozen and only adapters learn."""
        return self.method in {"lora", "qlora", "dora"}

    @property
    def global_batch(self) -> int:
        """Sequences per optimizer step over all ranks."""
        return self.micro_batch * self.num_micro_batches * self.layout.dp
