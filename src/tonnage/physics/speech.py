"""
What does a speech recogniser compute for a window of audio? Encoder once, decoder token by token.

Whisper cuts audio into windows of 30 s: 3,000 mel frames, halved by a convolution of stride 2 to 1,500 encoder
tokens, whatever is said. The decoder writes up to 448 tokens, each over what it wrote before and over the 1,500.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, Model
from tonnage.domain.precision import Precision
from tonnage.physics.mixers import cross_attention_work
from tonnage.physics.shares import Tokens, gemm, share
from tonnage.physics.transformer import encode_work, step_work
from tonnage.physics.work import Operator, Work

WINDOW_S: Final = 30.0
"""Audio of one window. [s]"""
WINDOW_TOKENS: Final = 1500
"""Encoder tokens of one window. [tokens]"""
_FRAMES: Final = 3000
_KERNEL: Final = 3
_MEL_BINS: Final = 128


def encoder_work(model: Model, *, windows: float, precision: Precision) -> Work:
    """Both convolutions, the encoder's layers, and the keys and values that all decoder steps read."""
    at = share(hidden=model.hidden_size, layout=Layout(), precision=precision, encoder=True)
    rows = windows * WINDOW_TOKENS
    stem = (
        gemm("mel convolution", at, m=windows * _FRAMES, n=at.hidden, k=_KERNEL * _MEL_BINS),
        gemm("strided convolution", at, m=rows, n=at.hidden, k=_KERNEL * at.hidden),
    )
    encoder = msgspec.structs.replace(model, layers=model.encoder, encoder=(), vocab_size=0)
    body = encode_work(encoder, sequences=windows, length=WINDOW_TOKENS, precision=precision, layout=Layout())
    memory = [
        gemm(
            "cross key/value", at, m=rows, n=2.0 * look.num_key_value_heads * look.head_dim, k=at.hidden,
            count=float(group.count),
        )
        for group in model.layers
        if (look := group.cross_attention) is not None
    ]  # fmt: skip
    return (*stem, *(op for op in body if op.kind != "embedding"), *memory)


def decoder_step_work(
    model: Model, *, windows: float, context: float, precision: Precision, beams: float = 1.0
) -> Work:
    """
    One decoder step over `windows` sequences that hold `context` tokens each, and their windows.

    Every beam is a sequence of its own; the beams of a window read its keys and values once (CTranslate2 packs them).
    """
    alone = msgspec.structs.replace(
        model, encoder=(), layers=tuple(msgspec.structs.replace(group, cross_attention=None) for group in model.layers)
    )
    tokens = Tokens(decodes=windows, context=context, emitted=windows)
    written = msgspec.structs.replace(tokens, decodes=windows * beams, emitted=windows * beams)
    own = step_work(alone, written, precision=precision, layout=Layout())
    at = share(hidden=model.hidden_size, layout=Layout(), precision=precision)
    looks = [(group.cross_attention, group.count) for group in model.layers]
    crossed: list[Operator] = []
    for look, count in looks:
        if isinstance(look, Attention):
            crossed += cross_attention_work(look, at, tokens=tokens, source=float(WINDOW_TOKENS), count=float(count))
    return (*own, *crossed)
