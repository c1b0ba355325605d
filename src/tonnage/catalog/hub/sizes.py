"""What does a bare size such as "13B" mean? A dense decoder of that size, of the shape such decoders have today.

Depth, width and heads are interpolated between known decoders (GPT-2, Qwen2.5, Llama 3.2 and 3.1); the feed-forward
width is then chosen so that the total is the size asked for. A mixture whose total and active sizes are published, and
nothing else, gets the depth and width of mixtures of its active size, and experts that meet both totals. The model says
in `assumed` what it is: its weights and the work of a token follow from what was published, its cache does not.
"""

from __future__ import annotations

import math
import re
from typing import Final

from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe
from tonnage.errors import BadRequest, echo

_SIZE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,4})?)\s*([mMbBtT])")
_MIXTURE: Final = re.compile(r"\d{1,4}\s*[xX×]\s*\d{1,5}(?:\.\d+)?\s*[mMbB]")
_UNITS: Final = {"m": 1e6, "b": 1e9, "t": 1e12}
_SMALLEST, _LARGEST = 20e6, 5e12

_SHAPES: Final = (
    (20e6, 6, 320), (0.1e9, 12, 768), (0.494e9, 24, 896), (1.236e9, 16, 2048), (3.213e9, 28, 3072), (8.03e9, 32, 4096),
    (14.77e9, 48, 5120), (32.76e9, 64, 5120), (70.55e9, 80, 8192), (405.9e9, 126, 16384), (1000e9, 160, 22528),
)  # fmt: skip
"""Parameters, layers and width: a toy, GPT-2, Qwen2.5 0.5B, 14B and 32B, Llama 3.2 and 3.1; the last by trend."""

_TIED_BELOW: Final = 4e9
"""Decoders below this share the embedding with the head (Llama 3.2, Qwen3)."""


def bare_size(text: str) -> float | None:
    """
    Parameters that a bare size names, or None when the text is no size.

    Examples
    --------
    >>> bare_size("13B"), bare_size("350m"), bare_size("Llama-3.1-8B")
    (13000000000.0, 350000000.0, None)
    """
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else float(match.group(1)) * _UNITS[match.group(2).lower()]


def read_size(text: str) -> Model | None:
    """
    The decoder a bare size stands for, or None when the text is no size.

    Raises
    ------
    BadRequest
        A size no decoder has, or a mixture ("8x7B"), whose shape no size tells.
    """
    size = bare_size(text)
    if size is not None:
        return decoder_of_size(size, name=text.strip())
    if _MIXTURE.fullmatch(text.strip()):
        raise BadRequest(
            f"model: '{echo(text)}' is a mixture of experts, and its size alone tells no shape; "
            "name one, such as 'mistralai/Mixtral-8x7B-v0.1', or give its config.json"
        )
    return None


def decoder_of_size(size: float, *, name: str) -> Model:
    """A dense decoder with that many parameters, to 1 %."""
    if not _SMALLEST <= size <= _LARGEST:
        raise BadRequest(f"model: '{echo(name)}' is no size of a decoder; expected 20M to 5T, such as '13B'")
    layers, width = _depth_and_width(size)
    head_dim = 128 if width >= 2048 else 64
    heads = width // head_dim
    kv_heads = max(divisor for divisor in (1, 2, 4, 8) if heads % divisor == 0)
    vocabulary = 128_256 if size >= 0.8e9 else 32_000
    tied = size < _TIED_BELOW
    # Total = (1 or 2) V D + L (2 D N H + 2 D K H + 3 D F + 2 D) + D, solved for F.
    outside = vocabulary * width * (1 if tied else 2) + width
    mixer = 2 * width * heads * head_dim + 2 * width * kv_heads * head_dim + 2 * width
    each = (size - outside) / layers - mixer
    inner = max(round(each / (3 * width) / 16) * 16, 64)
    group = LayerGroup(
        count=layers,
        mixer=Attention(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim),
        feed_forward=Mlp(intermediate_size=inner),
    )
    shape = f"{layers} layers of width {width}, feed-forward {inner}, {heads} heads, {kv_heads} key-value heads"
    return Model(
        id=name,
        family="generic",
        kind="llm",
        hidden_size=width,
        vocab_size=vocabulary,
        layers=(group,),
        tie_word_embeddings=tied,
        max_context=131_072,
        source="interpolated between known dense decoders",
        assumed=(f"bare size '{name}': a dense decoder of that size with {shape}, vocabulary {vocabulary:,}",),
    )


_MIXTURES: Final = (
    (0.5e9, 16, 1280), (1.3e9, 16, 2048), (3.3e9, 48, 2048), (6.6e9, 36, 3072), (12e9, 46, 4096), (22e9, 80, 4096),
    (37e9, 61, 7168), (95e9, 92, 8192), (200e9, 120, 12288),
)  # fmt: skip
"""Active parameters, layers and width: small OCR models, OLMoE, Qwen3-30B-A3B, between, GLM-4.5-Air, Qwen3-235B-A22B
and Hy3, DeepSeek-V3, Qwen3.8-2.4T; the last by trend."""


def mixture_of_size(total: float, active: float, *, name: str) -> Model:
    """
    A mixture of experts with that many parameters in all, to 1 %, and for each token, to 3 %.

    About eight experts are chosen and one is shared, as in most mixtures since DeepSeek-V3; their width follows from
    what a token uses beyond attention and vocabulary, their number from the total.
    """
    if not _SMALLEST <= active < total <= _LARGEST:
        raise BadRequest(
            f"model: '{echo(name)}' has no sizes of a mixture; expected active parameters below the total, 20M to 5T"
        )
    layers, width = _depth_and_width(active, _MIXTURES)
    vocabulary, head_dim, kv_heads = 151_936, 128, 8 if width >= 3072 else 4
    heads = max(width // head_dim, kv_heads)
    outside = 2.0 * vocabulary * width + width
    mixer = 2 * width * heads * head_dim + 2 * width * kv_heads * head_dim + 2 * width
    used, held = (active - outside) / layers - mixer, (total - outside) / layers - mixer
    if used < 0.1 * active / layers:
        raise BadRequest(
            f"model: '{echo(name)}': {active:.3g} active parameters are too few for a mixture of {total:.3g}"
        )
    attention = Attention(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim)
    groups = _mixture_layers(used / (3 * width), held / (3 * width), layers=layers)
    layout = tuple(LayerGroup(count=count, mixer=attention, feed_forward=experts) for count, experts in groups if count)
    return Model(
        id=name,
        family="generic",
        kind="llm-moe",
        hidden_size=width,
        vocab_size=vocabulary,
        layers=layout,
        max_context=131_072,
        source="interpolated between known mixtures",
    )


def _mixture_layers(used: float, held: float, *, layers: int) -> tuple[tuple[int, Moe], tuple[int, Moe]]:
    """
    How many layers have which experts, for the width that a token uses and the width that a layer holds.

    Widths and numbers split over eight ranks as kernels like them: routed experts in steps of 128 to 512, eights of
    them. The shared one takes what whole experts leave of `used`, and some layers hold eight more to meet `held`.
    """
    even = used / 9
    step = 512 if even >= 1536 else 256 if even >= 640 else 128
    inner = max(round(even / step) * step, 128)
    chosen = max(round(used / inner) - 1, 1)
    shared = max(round((used - chosen * inner) / 128) * 128, 128)
    count = max((held - shared) / inner, chosen)
    few = math.floor(count / 8) * 8
    more = round((count - few) / 8 * layers)
    made = [
        Moe(
            num_experts=max(number, chosen),
            num_experts_per_tok=chosen,
            moe_intermediate_size=inner,
            shared_intermediate_size=shared,
        )
        for number in (few, few + 8)
    ]
    return (layers - more, made[0]), (more, made[1])


def _depth_and_width(size: float, shapes: tuple[tuple[float, int, int], ...] = _SHAPES) -> tuple[int, int]:
    """Layers and width between the two nearest known decoders, the width a multiple of the head's."""
    points = [(math.log(parameters), math.log(layers), math.log(width)) for parameters, layers, width in shapes]
    x = math.log(size)
    upper = next((number for number, point in enumerate(points) if point[0] >= x), len(points) - 1)
    high = max(upper, 1)
    low = high - 1
    share = (x - points[low][0]) / (points[high][0] - points[low][0])
    layers = round(math.exp(points[low][1] + share * (points[high][1] - points[low][1])))
    width = math.exp(points[low][2] + share * (points[high][2] - points[low][2]))
    step = 1024 if width >= 4096 else 512 if width >= 2048 else 128
    return max(layers, 4), max(round(width / step) * step, 128)
