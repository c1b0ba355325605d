"""Vision transformers, alone or as the tower of a vision-language model, and composites of tower and decoder.

A composite's language part is read by its own adapter; the tower is a `Tower` with its layers and its exact count.
Sources: the reference implementation of each `model_type` (Hugging Face transformers), checked in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, cast

from msgspec.structs import replace

from tonnage.catalog.hub.fields import (
    Adapter,
    Config,
    equal_heads,
    first_given,
    flag,
    hidden_size,
    integer,
    integers,
    layer,
    layer_count,
    optional_integer,
    section,
)
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Tower


def _block(
    width: int, heads: int, inner: int, *, gated: bool = False, bias: bool = True, norm_bias: bool = True
) -> LayerGroup:
    """One layer of a vision transformer."""
    look = equal_heads(heads, max(width // heads, 1), bias=bias)
    feed = Mlp(intermediate_size=inner, gated=gated, bias=bias)
    return layer(look, feed, norm_bias=norm_bias, hidden_size=width)


def blocks_parameters(group: LayerGroup) -> float:
    """
    Parameters of a tower's plain layers: attention of equal heads, one feed-forward, two norms.

    Facts may not import formulas; a test holds this count equal to that of `physics.parameters`.
    """
    look, feed, width = group.mixer, group.feed_forward, group.hidden_size or 0
    if not isinstance(look, Attention) or not isinstance(feed, Mlp):
        return 0.0
    inner, matrices = look.num_attention_heads * look.head_dim, 3 if feed.gated else 2
    each = 4 * width * inner + matrices * width * feed.intermediate_size
    if look.bias:
        each += 3 * inner + width
    if feed.bias:
        each += (matrices - 1) * feed.intermediate_size + width
    if look.qk_norm:
        each += 2 * look.head_dim
    each += group.norms * width * (2 if group.norm_bias else 1)
    return float(group.count * (each + group.extra_parameters))


def _images(layers: tuple[LayerGroup, ...], width: int, tokens: int, *, extra: float, **changes: Any) -> Model:
    """A network of images around these layers, with learned positions and norms with biases."""
    facts: dict[str, Any] = {"kind": "vision", "max_context": tokens, **changes}
    return Model(
        id="",
        family="",
        hidden_size=width,
        layers=layers,
        has_head=False,
        norm_bias=True,
        learned_positions=tokens,
        extra_parameters=float(extra),
        **facts,
    )


def _patches(c: Config) -> int:
    size, patch = integer(c, "image_size", default=224), integer(c, "patch_size", default=16)
    return (size // patch) ** 2


def _vit(c: Config) -> Model:
    """ViT and DeiT for classification: a class token, learned positions, a linear head."""
    width, patch = hidden_size(c), integer(c, "patch_size", default=16)
    block = _block(width, integer(c, "num_attention_heads"), integer(c, "intermediate_size"))
    tokens = _patches(c) + 1
    classes = integer(c, "num_labels", default=1000, low=0)
    extra = 3 * patch**2 * width + width + width + (width + 1) * classes
    return _images((replace(block, count=layer_count(c)),), width, tokens, extra=extra)


def _dinov2(c: Config) -> Model:
    """A class and a mask token, a scale on each sub-layer; the giant has a gated feed-forward."""
    width, patch = hidden_size(c), integer(c, "patch_size", default=14)
    inner = integer(c, "mlp_ratio", default=4) * width
    gated = flag(c, "use_swiglu_ffn")
    if gated:
        inner = (int(inner * 2 / 3) + 7) // 8 * 8
    block = _block(width, integer(c, "num_attention_heads"), inner, gated=gated)
    layers = replace(block, count=layer_count(c), hidden_size=None, extra_parameters=2.0 * width)
    tokens = (integer(c, "image_size", default=518) // patch) ** 2 + 1
    extra = 3 * patch**2 * width + 3 * width
    return _images((layers,), width, tokens, extra=extra)


def _sam(c: Config) -> Model:
    """SAM's image encoder: relative positions in each layer, windows in most; neck and mask decoder in the rest."""
    vision = section(c, "vision_config") or c
    width, heads = hidden_size(vision), integer(vision, "num_attention_heads")
    head, side = (
        width // heads,
        integer(vision, "image_size", default=1024) // integer(vision, "patch_size", default=16),
    )
    block = _block(width, heads, integer(vision, "mlp_dim", "intermediate_size"))
    window = integer(vision, "window_size", default=14)
    full, count = len(integers(vision, "global_attn_indexes") or (7, 15, 23, 31)), layer_count(vision)
    groups = []
    for number, reach, seen in ((full, side, None), (count - full, window, window**2)):
        mixer = equal_heads(heads, head, window=seen)
        tables = float(2 * (2 * reach - 1) * head)
        groups.append(
            LayerGroup(
                count=number, mixer=mixer, feed_forward=block.feed_forward, norm_bias=True, extra_parameters=tables
            )
        )
    channels = integer(vision, "output_channels", default=256)
    neck = channels * width + channels**2 * 9 + 4 * channels
    patch = 3 * integer(vision, "patch_size", default=16) ** 2 * width + width
    tower = Tower(name="mask decoder and prompt encoder", parameters=4_064_560.0)
    return _images(tuple(groups), width, side**2, extra=neck + patch, final_norms=0, towers=(tower,))


def _clip(c: Config) -> Model:
    """Two encoders that meet in one space: the vision one as layers, the text one as encoder of another width."""
    vision = section(c, "vision_config") or Config(c.file, {}, "vision_config.")
    words = section(c, "text_config") or Config(c.file, {}, "text_config.")
    meet = integer(c, "projection_dim", default=512)
    width, narrow = integer(vision, "hidden_size", default=768), integer(words, "hidden_size", default=512)
    patch = integer(vision, "patch_size", default=32)
    look = _block(
        width, integer(vision, "num_attention_heads", default=12), integer(vision, "intermediate_size", default=3072)
    )
    text_block = _block(
        narrow, integer(words, "num_attention_heads", default=8), integer(words, "intermediate_size", default=2048)
    )
    layers = replace(look, count=integer(vision, "num_hidden_layers", default=12))
    encoder = replace(text_block, count=integer(words, "num_hidden_layers", default=12))
    vocabulary, context = (
        integer(words, "vocab_size", default=49408),
        integer(words, "max_position_embeddings", default=77),
    )
    tokens = (integer(vision, "image_size", default=224) // patch) ** 2 + 1
    extra = 3 * patch**2 * width + width + meet * (width + narrow) + 1
    extra += vocabulary * narrow + context * narrow + 2 * narrow  # text embedding, positions and last norm
    more = {"kind": "vision-text", "encoder": (encoder,), "final_norms": 2, "max_context": context}
    return _images((layers,), width, tokens, extra=extra, **more)


VISION: Final[dict[str, tuple[str, Adapter]]] = {
    "vit": ("ViT", _vit),
    "deit": ("ViT", _vit),
    "dinov2": ("DINOv2", _dinov2),
    "sam": ("SAM", _sam),
    "clip": ("CLIP", _clip),
}
"""Family and adapter of vision models by `model_type`."""


def _as_tower(*layers: LayerGroup, rest: float, patch: int, tokens: int | None = None, **rule: Any) -> Tower:
    """
    A tower of these layers and `rest`, its parameters outside them.

    `rule` says what becomes of an image's size, in fields of `Tower`: as the model's own processor has it.
    """
    return Tower(
        name="vision",
        parameters=sum(blocks_parameters(group) for group in layers) + rest,
        layers=layers,
        hidden_size=layers[0].hidden_size,
        patch_size=patch,
        tokens_per_input=tokens,
        **rule,
    )


def _usual_blocks(
    v: Config, *, width: int = 1024, inner: int = 4096, count: int = 24, patch: int = 14, **block: bool
) -> tuple[LayerGroup, int, int]:
    """Layers of a tower in the usual field names, their width and the side of a patch; what the file may leave out."""
    own = integer(v, "hidden_size", default=width)
    heads, wide = integer(v, "num_attention_heads", default=16), integer(v, "intermediate_size", default=inner)
    layers = replace(_block(own, heads, wide, **block), count=integer(v, "num_hidden_layers", default=count))
    return layers, own, integer(v, "patch_size", default=patch)


def _own_size(unit_px: int, least_units: float, most_units: float) -> dict[str, Any]:
    """Bounds of images that keep their size, in squares of `unit_px` pixels."""
    return {"least_px": least_units * unit_px**2, "most_px": most_units * unit_px**2}


def _two_layers(inputs: int, inner: int, outputs: int) -> int:
    """Two linear layers with biases."""
    return inputs * inner + inner + inner * outputs + outputs


def _qwen3_vl(v: Config, c: Config, width: int) -> Tower:
    """Qwen3-VL and Qwen3.5: learned positions, a merger of four patches, deepstack mergers of the same size."""
    own, patch = integer(v, "hidden_size"), integer(v, "patch_size", default=16)
    block = _block(own, integer(v, "num_heads"), integer(v, "intermediate_size"))
    layers = replace(block, count=integer(v, "depth"))
    merged = own * integer(v, "spatial_merge_size", default=2) ** 2
    mergers = 1 + len(integers(v, "deepstack_visual_indexes") or ())
    rest = 3 * integer(v, "temporal_patch_size", default=2) * patch**2 * own + own
    rest += integer(v, "num_position_embeddings", default=2304) * own
    rest += mergers * _two_layers(merged, merged, integer(v, "out_hidden_size", default=width))
    rest += 2 * own + (mergers - 1) * 2 * merged
    merge = integer(v, "spatial_merge_size", default=2)
    # size of the published preprocessor_config.json: shortest_edge 65,536 and longest_edge 16,777,216 pixels
    bounds = _own_size(patch * merge, 64.0, 16384.0)
    return _as_tower(layers, rest=float(rest), patch=patch, merge=merge, outputs=mergers, **bounds)


def _qwen2_vl(v: Config, c: Config, width: int) -> Tower:
    """Qwen2-VL (LayerNorm, plain) and Qwen2.5-VL (RMSNorm, gated, windows in most layers)."""
    newer = first_given(v, "fullatt_block_indexes") is not None or first_given(v, "out_hidden_size") is not None
    own = integer(v, "hidden_size") if newer else integer(v, "embed_dim")
    patch, heads = integer(v, "patch_size", "spatial_patch_size", default=14), integer(v, "num_heads", default=16)
    inner = integer(v, "intermediate_size") if newer else integer(v, "mlp_ratio", default=4) * own
    block = _block(own, heads, inner, gated=newer, norm_bias=not newer)
    depth = integer(v, "depth", default=32)
    full = len(integers(v, "fullatt_block_indexes") or (7, 15, 23, 31)) if newer else depth
    layers: tuple[LayerGroup, ...] = (replace(block, count=full),)
    if depth > full:
        near = (integer(v, "window_size", default=112) // patch) ** 2
        look = replace(cast(Attention, block.mixer), window=near)
        layers = (*layers, replace(block, mixer=look, count=depth - full))
    merged = own * integer(v, "spatial_merge_size", default=2) ** 2
    out = integer(v, "out_hidden_size", default=width) if newer else integer(v, "hidden_size", default=width)
    rest = 3 * integer(v, "temporal_patch_size", default=2) * patch**2 * own + _two_layers(merged, merged, out)
    merge = integer(v, "spatial_merge_size", default=2)
    # min_pixels 3,136 and max_pixels 12,845,056 of the published preprocessor_config.json
    bounds = _own_size(patch * merge, 4.0, 16384.0)
    return _as_tower(*layers, rest=float(rest + own * (1 if newer else 2)), patch=patch, merge=merge, **bounds)


def _siglip(v: Config, c: Config, width: int) -> Tower:
    """SigLIP: learned positions, a last LayerNorm; then the projector of Gemma 3, PaliGemma or Idefics 3."""
    layers, own, patch = _usual_blocks(v, width=1152, inner=4304, count=27)
    rest = 3 * patch**2 * own + own + (integer(v, "image_size", default=896) // patch) ** 2 * own + 2 * own
    rest += own * width + own
    side = integer(v, "image_size", default=896)
    tokens = optional_integer(c, "mm_tokens_per_image", low=1)
    merge = 1 if tokens is None else max(1, round(side / patch / math.sqrt(tokens)))
    return _as_tower(layers, rest=float(rest), patch=patch, tokens=tokens, tile_px=side, merge=merge)


def _llava(v: Config, c: Config, width: int) -> Tower:
    """CLIP's vision encoder and a projector of two layers."""
    layers, own, patch = _usual_blocks(v)
    tokens = (integer(v, "image_size", default=336) // patch) ** 2
    rest = 3 * patch**2 * own + own + (tokens + 1) * own + 4 * own + _two_layers(own, width, width)
    return _as_tower(layers, rest=float(rest), patch=patch, tokens=tokens, tile_px=math.isqrt(tokens) * patch, merge=1)


def _internvl(v: Config, c: Config, width: int) -> Tower:
    """InternViT: a class token, a scale on each sub-layer; pixels shuffled four to one before two layers."""
    block, own, patch = _usual_blocks(v)
    normed = 2 * own if flag(v, "qk_normalization") else 0
    layers = replace(block, extra_parameters=float(2 * own + normed))
    side = integer(v, "image_size", default=448) // patch
    rest = 3 * patch**2 * own + own + (side**2 + 1) * own + own
    rest += 8 * own + _two_layers(4 * own, width, width)
    rule = {"tile_px": side * patch, "max_tiles": integer(c, "max_dynamic_patch", default=12)}
    return _as_tower(layers, rest=float(rest), patch=patch, tokens=side**2 // 4, **rule)


def _pixtral(v: Config, c: Config, width: int) -> Tower:
    """Pixtral: gated, rotary, RMSNorm, no biases; Mistral 3 merges four patches before the projector."""
    layers, own, patch = _usual_blocks(v, patch=16, gated=True, bias=False, norm_bias=False)
    merge = integer(c, "spatial_merge_size", default=1)
    merger = (own * merge**2) * own + own if merge > 1 else 0
    projector = own * width + width * width
    if flag(c, "multimodal_projector_bias", default=merge == 1):
        projector += 2 * width
    rest = float(3 * patch**2 * own + own + merger + projector)
    # The processor shrinks the longer side to the encoder's own; a square of it is the most.
    most = float(integer(v, "image_size", default=1024) ** 2)
    return _as_tower(layers, rest=rest, patch=patch, merge=merge, most_px=most)


def _llama4_tower(v: Config, c: Config, width: int) -> Tower:
    """Llama 4: a class token, learned positions, a pixel-shuffle MLP and one linear projector."""
    layers, own, patch = _usual_blocks(v, width=1408, inner=5632, count=34)
    side = integer(v, "image_size", default=336) // patch
    inner, out = integer(v, "projector_input_dim", default=4096), integer(v, "projector_output_dim", default=4096)
    rest = 3 * patch**2 * own + own + (side**2 + 1) * own + 4 * own
    rest += 4 * own * inner + inner * out + integer(v, "vision_output_dim", default=out) * width
    # max_patches 16 of the published processor
    rule: dict[str, Any] = {"tile_px": side * patch, "max_tiles": 16, "tiling": "canvas"}
    return _as_tower(layers, rest=float(rest), patch=patch, tokens=side**2 // 4, **rule)


def _moonvit(v: Config, c: Config, width: int) -> Tower:
    """MoonViT of Kimi K2.5 and K3: learned positions of a 64 x 64 grid, a merger of four patches."""
    own, patch = integer(v, "vt_hidden_size", "hidden_size"), integer(v, "patch_size", default=14)
    heads, inner = integer(v, "vt_num_attention_heads"), integer(v, "vt_intermediate_size")
    biased = flag(v, "linear_bias", default=True)
    wide = integer(v, "qkv_hidden_size", default=own)
    look = equal_heads(heads, max(wide // heads, 1), bias=biased)
    norm_bias = first_given(v, "norm_type") != "rmsnorm"
    feed = Mlp(intermediate_size=inner, gated=False, bias=biased)
    layers = LayerGroup(
        count=integer(v, "vt_num_hidden_layers"), mixer=look, feed_forward=feed, norm_bias=norm_bias, hidden_size=own
    )
    grid = integer(v, "init_pos_emb_height", default=64) * integer(v, "init_pos_emb_width", default=64)
    rest = 3 * patch**2 * own + own + grid * own + (2 if norm_bias else 1) * own
    rest += _two_layers(4 * own, 4 * own, width) + 2 * own
    return _as_tower(layers, rest=float(rest), patch=patch, most_px=float(grid * patch**2))


def _gemma4_tower(v: Config, c: Config, width: int) -> Tower:
    """Gemma 4: gated, four norms and query and key norms in each layer; positions for each axis."""
    own, heads = integer(v, "hidden_size"), integer(v, "num_attention_heads")
    look = equal_heads(heads, integer(v, "head_dim"), bias=False, qk_norm=True)
    feed = Mlp(intermediate_size=integer(v, "intermediate_size"))
    layers = LayerGroup(count=integer(v, "num_hidden_layers"), mixer=look, feed_forward=feed, norms=4, hidden_size=own)
    patch = integer(v, "patch_size", default=16)
    rest = 3 * patch**2 * own + 2 * integer(v, "position_embedding_size", default=10240) * own + own * width
    tokens = optional_integer(c, "vision_soft_tokens_per_image", low=1)
    merge = integer(v, "pooling_kernel_size", default=3)
    return _as_tower(layers, rest=float(rest), patch=patch, tokens=tokens, merge=merge)


TOWERS: Final[dict[str, Callable[[Config, Config, int], Tower]]] = {
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_vl,
    "gemma3": _siglip,
    "paligemma": _siglip,
    "gemma4": _gemma4_tower,
    "llava": _llava,
    "llava_next": _llava,
    "internvl": _internvl,
    "internvl_chat": _internvl,
    "mistral3": _pixtral,
    "pixtral": _pixtral,
    "llama4": _llama4_tower,
    "kimi_k25": _moonvit,
    "kimi_k3": _moonvit,
}
"""
Tower by the `model_type` of the composite: read from its vision_config, its whole config, and the width of its language
part, which projectors end in.
"""


def tower(model_type: str, v: Config, *, c: Config, width: int) -> Tower | None:
    """The tower of a composite, or None when its kind is not known."""
    read = TOWERS.get(model_type)
    return None if read is None else read(v, c, width)
