"""
What llama.cpp says it allocates for a model: rows of measurements/own/llamacpp_memory.csv.

A GGUF file of a published shape with a few of its layers has a header and no contents (a sparse file); llama.cpp maps
it, allocates cache and buffers as for any model and logs their sizes. Nothing is computed.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from tools.own.table import Row

from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Model, Moe, StateSpace


class Shape(NamedTuple):
    """A model of the catalogue, as llama.cpp calls its architecture."""

    architecture: str
    model: str
    layers: tuple[int, ...]
    """Of each group."""


SHAPES: Final = (
    Shape("llama", "meta-llama/Meta-Llama-3.1-8B", (4,)),
    Shape("llama", "mistralai/Mixtral-8x7B-v0.1", (2,)),
    Shape("qwen2", "Qwen/Qwen2.5-7B", (4,)),
    Shape("qwen3", "Qwen/Qwen3-8B", (4,)),
    Shape("qwen3moe", "Qwen/Qwen3-30B-A3B", (4,)),
    Shape("qwen3next", "Qwen/Qwen3-Next-80B-A3B-Instruct", (3, 1)),
    Shape("gemma2", "google/gemma-2-9b", (2, 2)),
    Shape("gemma3", "google/gemma-3-12b-it", (10, 2)),
    Shape("gemma4", "google/gemma-4-31B-it", (5, 1)),
    Shape("cohere2", "CohereForAI/c4ai-command-r7b-12-2024", (3, 1)),
    Shape("gpt-oss", "openai/gpt-oss-20b", (2, 2)),
    Shape("deepseek2", "deepseek-ai/DeepSeek-V2", (1, 2)),
    Shape("glm4moe", "zai-org/GLM-4.5-Air", (1, 2)),
    Shape("phi3", "microsoft/Phi-3-mini-4k-instruct", (4,)),
    Shape("granite", "ibm-granite/granite-3.1-8b-base", (4,)),
    Shape("granitehybrid", "ibm-granite/granite-4.0-h-tiny", (9, 1)),
    Shape("olmo2", "allenai/OLMo-2-1124-7B", (4,)),
    Shape("mamba2", "state-spaces/mamba2-2.7b", (4,)),
    Shape("lfm2", "LiquidAI/LFM2-1.2B", (4, 4)),
)
_FUSED: Final = {"kv": "fp16", "flash_attention": 1, "kv_unified": 0}
STARTS: Final = (
    {"n_ctx": 4096, "n_parallel": 1, "n_ubatch": 512, **_FUSED},
    {"n_ctx": 16384, "n_parallel": 4, "n_ubatch": 1024, **_FUSED},
    {"n_ctx": 32768, "n_parallel": 1, "n_ubatch": 128, **_FUSED, "kv": "gguf-q8_0"},
    {"n_ctx": 4096, "n_parallel": 1, "n_ubatch": 512, **_FUSED, "flash_attention": 0},
    {"n_ctx": 16384, "n_parallel": 4, "n_ubatch": 1024, **_FUSED, "kv_unified": 1},
)
SAID: Final = {"model": "model", "kv": "KV", "rs": "RS", "compute": "compute", "output": "output"}


def allocated() -> Iterator[Row]:
    """Each shape under each start."""
    release = version("xllamacpp").rpartition(".")[2]
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shape.gguf"
            write_shape(path, shape)
            for start in STARTS:
                sizes = {f"{name}_mib": size for name, size in said(path, start).items()}
                layers = " ".join(map(str, shape.layers))
                yield {"release": f"b{release}", "model": shape.model, "layers": layers, **start, **sizes}


def said(path: Path, start: dict[str, Any]) -> dict[str, float]:
    """Sizes of buffers as the log has them, several of one name added. [MiB]"""
    command = [sys.executable, "-c", _START, str(path), json.dumps(start)]
    log = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    text = log.stdout + log.stderr
    found = {
        name: sum(map(float, re.findall(rf"\S +{word} buffer size = +([\d.]+) MiB\n", text)))
        for name, word in SAID.items()
    }
    if not found["compute"]:
        raise RuntimeError(f"{path}: llama.cpp did not start: {text[-2000:]}")
    return found


_START: Final = """
import json, os, sys, xllamacpp as x
asked, given = json.loads(sys.argv[2]), x.CommonParams()
given.model.path, given.port, given.hostnames = sys.argv[1], 0, ["127.0.0.1"]
given.warmup = given.fit_params = False
given.no_extra_bufts, given.cache_ram_mib, given.verbosity = True, 0, 5
given.n_ctx, given.n_parallel, given.n_ubatch = asked["n_ctx"], asked["n_parallel"], asked["n_ubatch"]
given.kv_unified = bool(asked["kv_unified"])
kind = x.ggml_type.GGML_TYPE_Q8_0 if asked["kv"] == "gguf-q8_0" else x.ggml_type.GGML_TYPE_F16
given.cache_type_k = given.cache_type_v = kind
how = "ENABLED" if asked["flash_attention"] else "DISABLED"
given.flash_attn_type = getattr(x.llama_flash_attn_type, "LLAMA_FLASH_ATTN_TYPE_" + how)
server = x.Server(given)
sys.stdout.flush()
os._exit(0)
"""


def write_shape(path: Path, shape: Shape) -> None:
    """The header of a GGUF file in 16 bits, experts published in MXFP4 in that, and room for its tensors."""
    import gguf

    whole = resolve(shape.model)
    groups = tuple(replace(g, count=n) for g, n in zip(whole.layers, shape.layers, strict=True))
    model, arch = replace(whole, layers=groups), shape.architecture
    layers = in_order(groups)
    kinds = {16: gguf.GGMLQuantizationType.F16, 32: gguf.GGMLQuantizationType.F32, 4: gguf.GGMLQuantizationType.MXFP4}
    out = gguf.GGUFWriter(str(path), arch)
    for name, value in settings(arch, model, layers):
        if isinstance(value, list):
            out.add_array(f"{arch}.{name}", value)
        else:
            (out.add_float32 if isinstance(value, float) else out.add_uint32)(f"{arch}.{name}", value)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([f"t{number}" for number in range(model.vocab_size)])
    out.add_token_types([gguf.TokenType.NORMAL] * model.vocab_size)
    out.add_token_merges(["t 1"])
    out.add_bos_token_id(0)
    out.add_eos_token_id(1)
    size = 0
    for name, bits, sides in tensors(arch, model, layers):
        block, width = gguf.GGML_QUANT_SIZES[kinds[bits]]
        held = math.prod(sides) // block * width
        out.tensors[-1][name] = gguf.gguf_writer.TensorInfo(shape=sides[::-1], dtype=kinds[bits], nbytes=held)
        size += -(-held // 32) * 32
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    out.close()
    with path.open("r+b") as file:
        file.truncate(-(-path.stat().st_size // 32) * 32 + size)


def in_order(groups: tuple[LayerGroup, ...]) -> list[LayerGroup]:
    """Layers as llama.cpp expects them: dense ones before mixtures, else the layers that see everything last of each
    turn."""
    if len(groups) == 1 or not all(isinstance(g.feed_forward, type(groups[0].feed_forward)) for g in groups):
        return [group for group in groups for _ in range(group.count)]
    few, many = sorted(groups, key=lambda g: (isinstance(g.mixer, Attention) and not g.mixer.window, -g.count))[::-1]
    turn = (few.count + many.count) // few.count
    return [few if number % turn == turn - 1 else many for number in range(few.count + many.count)]


def settings(arch: str, model: Model, layers: list[LayerGroup]) -> Iterator[tuple[str, Any]]:
    """What the architecture reads, without its name in front."""
    yield from {"context_length": model.max_context or 131072, "block_count": len(layers)}.items()
    yield from {"embedding_length": model.hidden_size, "attention.layer_norm_rms_epsilon": 1e-5}.items()
    yield from {"attention.layer_norm_epsilon": 1e-5, "logit_scale": 1.0}.items()
    mixers = [group.mixer for group in layers]
    yield from _attention_settings(arch, mixers)
    feeds = [group.feed_forward for group in layers]
    moe = next((feed for feed in feeds if isinstance(feed, Moe)), None)
    dense = [feed for feed in feeds if feed is not None and not isinstance(feed, Moe)]
    yield "feed_forward_length", dense[0].intermediate_size if dense else moe.moe_intermediate_size if moe else 0
    if moe is not None:
        yield from {"expert_count": moe.num_experts, "expert_used_count": moe.num_experts_per_tok}.items()
        yield from {"expert_feed_forward_length": moe.moe_intermediate_size}.items()
        yield "leading_dense_block_count", len(dense)
        if moe.shared_intermediate_size:
            yield "expert_shared_feed_forward_length", moe.shared_intermediate_size
            yield "expert_shared_count", moe.shared_intermediate_size // moe.moe_intermediate_size
    for state in itertools.islice((m for m in mixers if isinstance(m, StateSpace)), 1):
        if state.kind == "short_conv":
            yield "shortconv.l_cache", state.conv_kernel
            continue
        yield from {"ssm.conv_kernel": state.conv_kernel, "ssm.inner_size": state.num_heads * state.head_dim}.items()
        yield from {"ssm.state_size": state.state_size, "ssm.time_step_rank": state.num_heads}.items()
        yield "ssm.group_count", state.num_groups


def _attention_settings(arch: str, mixers: list[Any]) -> Iterator[tuple[str, Any]]:
    latent = next((m for m in mixers if isinstance(m, LatentAttention)), None)
    if latent is not None:
        yield from {"attention.head_count": latent.num_attention_heads, "attention.head_count_kv": 1}.items()
        yield from {
            "attention.kv_lora_rank": latent.kv_lora_rank,
            "attention.value_length": latent.kv_lora_rank,
        }.items()
        yield "attention.key_length", latent.kv_lora_rank + latent.qk_rope_head_dim
        yield "attention.key_length_mla", latent.qk_nope_head_dim + latent.qk_rope_head_dim
        yield "attention.value_length_mla", latent.v_head_dim
        yield "rope.dimension_count", latent.qk_rope_head_dim
        yield "attention.q_lora_rank", latent.q_lora_rank or 0
    every = [m for m in mixers if isinstance(m, Attention)]
    if not every:
        yield from () if latent else (("attention.head_count", 0),)
        return
    yield "attention.head_count", max(m.num_attention_heads for m in every)
    kept = [m.num_key_value_heads if isinstance(m, Attention) else 0 for m in mixers]
    yield "attention.head_count_kv", kept if len(set(kept)) > 1 and arch != "qwen3next" else max(kept)
    wide = next((m for m in every if m.window is None), every[0])
    for name in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        yield name, wide.head_dim
    narrow = next((m for m in every if m.window), None)
    if narrow is not None and narrow is not wide:
        yield "attention.sliding_window", narrow.window
        if arch == "gemma4":
            for name in ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"):
                yield name, narrow.head_dim
            yield "attention.sliding_window_pattern", [bool(m.window) for m in every]
            yield from {"embedding_length_per_layer_input": 0, "attention.shared_kv_layers": 0}.items()


def tensors(arch: str, model: Model, layers: list[LayerGroup]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Name, bits and sides of every tensor, the innermost side first: matrices in 16 bits, vectors in 32."""
    width = model.hidden_size
    yield "token_embd.weight", 16, (width, model.vocab_size)
    yield "token_embd_norm.weight" if arch == "lfm2" else "output_norm.weight", 32, (width,)
    if not model.tie_word_embeddings:
        yield "output.weight", 16, (width, model.vocab_size)
    rotated = next((g.mixer for g in layers if isinstance(g.mixer, Attention) and not g.mixer.window), None)
    if arch == "gemma4" and rotated is not None:
        yield "rope_freqs.weight", 32, (rotated.head_dim // 2,)
    experts = 4 if model.experts_dtype == "mxfp4" else 16
    for number, group in enumerate(layers):
        of_layer = (_norms(arch, width), _mixer(arch, group.mixer, width), _feed_forward(arch, group, width, experts))
        for name, bits, sides in itertools.chain.from_iterable(of_layer):
            kind = "" if name.endswith(".bias") or name in {"ssm_a", "ssm_d"} else ".weight"
            yield f"blk.{number}.{name}{kind}", bits or (16 if len(sides) > 1 else 32), sides


Parts = Iterator[tuple[str, int, tuple[int, ...]]]


def _norms(arch: str, width: int) -> Parts:
    before = () if arch == "olmo2" else ("attn_norm",)
    second = {"gpt-oss": "post_attention_norm", "qwen3next": "post_attention_norm", "glm4moe": "post_attention_norm"}
    after = {"olmo2": (), "cohere2": (), "mamba2": ()}.get(arch, (second.get(arch, "ffn_norm"),))
    around = ("post_attention_norm", "post_ffw_norm") if arch in {"gemma2", "gemma3", "gemma4", "olmo2"} else ()
    yield from ((name, 0, (width,)) for name in (*before, *after, *around))


def _mixer(arch: str, mixer: Any, width: int) -> Parts:
    match mixer:
        case Attention():
            query, key = mixer.num_attention_heads * mixer.head_dim, mixer.num_key_value_heads * mixer.head_dim
            if arch == "phi3":
                yield "attn_qkv", 0, (width, query + 2 * key)
            else:
                yield "attn_q", 0, (width, query * (2 if mixer.gated else 1))
                yield "attn_k", 0, (width, key)
                yield from () if mixer.key_is_value else (("attn_v", 0, (width, key)),)
            yield "attn_output", 0, (query, width)
            if mixer.bias:
                yield from ((f"attn_{n}.bias", 0, (side,)) for n, side in (("q", query), ("k", key), ("v", key)))
            yield from (("attn_output.bias", 0, (width,)),) if mixer.output_bias else ()
            if mixer.qk_norm or mixer.qk_norm_all_heads:
                sides = (query, key) if mixer.qk_norm_all_heads else (mixer.head_dim, mixer.head_dim)
                yield from ((f"attn_{n}_norm", 0, (side,)) for n, side in zip("qk", sides, strict=True))
            yield from (("attn_sinks", 0, (mixer.num_attention_heads,)),) if mixer.sinks else ()
        case LatentAttention():
            heads, rank, rope = mixer.num_attention_heads, mixer.kv_lora_rank, mixer.qk_rope_head_dim
            inner = mixer.q_lora_rank or 0
            yield from (("attn_q_a", 0, (width, inner)), ("attn_q_a_norm", 0, (inner,)))
            yield "attn_q_b", 0, (inner, heads * (mixer.qk_nope_head_dim + rope))
            yield from (("attn_kv_a_mqa", 0, (width, rank + rope)), ("attn_kv_a_norm", 0, (rank,)))
            yield "attn_k_b", 0, (mixer.qk_nope_head_dim, rank, heads)
            yield "attn_v_b", 0, (rank, mixer.v_head_dim, heads)
            yield "attn_output", 0, (heads * mixer.v_head_dim, width)
        case StateSpace():
            yield from _states(mixer, width)


def _states(mixer: StateSpace, width: int) -> Parts:
    inner, kernel, heads = mixer.num_heads * mixer.head_dim, mixer.conv_kernel, mixer.num_heads
    channels = inner + 2 * mixer.num_groups * mixer.state_size
    if mixer.kind == "short_conv":
        yield "shortconv.conv", 32, (kernel, width)
        yield from (("shortconv.in_proj", 0, (width, 3 * width)), ("shortconv.out_proj", 0, (width, width)))
        return
    yield from (("ssm_conv1d", 32, (kernel, channels)), ("ssm_dt.bias", 0, (heads,)), ("ssm_out", 0, (inner, width)))
    if mixer.kind == "mamba2":
        yield "ssm_in", 0, (width, inner + channels + heads)
        yield from (("ssm_conv1d.bias", 0, (channels,)), ("ssm_a", 32, (1, heads)), ("ssm_d", 32, (1, heads)))
        yield "ssm_norm", 32, (inner // mixer.num_groups, mixer.num_groups)
    else:
        yield from (("attn_qkv", 0, (width, channels)), ("attn_gate", 0, (width, inner)), ("ssm_a", 0, (heads,)))
        yield from (("ssm_ba", 0, (width, 2 * heads)), ("ssm_norm", 0, (mixer.head_dim,)))


def _feed_forward(arch: str, group: LayerGroup, width: int, experts: int) -> Parts:
    feed = group.feed_forward
    if isinstance(feed, Moe):
        count, inner, shared = feed.num_experts, feed.moe_intermediate_size, feed.shared_intermediate_size
        yield "ffn_gate_inp", 32, (width, count)
        sides = {"gate": (width, inner), "up": (width, inner), "down": (inner, width)}
        yield from ((f"ffn_{name}_exps", experts, (*pair, count)) for name, pair in sides.items())
        if feed.bias:
            yield "ffn_gate_inp.bias", 0, (count,)
            yield from ((f"ffn_{name}_exps.bias", 32, (pair[1], count)) for name, pair in sides.items())
        yield from (("exp_probs_b.bias", 0, (count,)),) if arch == "glm4moe" else ()
        if shared:
            yield from (("ffn_gate_shexp", 0, (width, shared)), ("ffn_up_shexp", 0, (width, shared)))
            yield "ffn_down_shexp", 0, (shared, width)
        yield from (("ffn_gate_inp_shexp", 32, (width,)),) if feed.shared_gate else ()
    elif feed is not None:
        inner = feed.intermediate_size
        yield from () if arch == "phi3" else (("ffn_gate", 0, (width, inner)),)
        yield "ffn_up", 0, (width, inner * (2 if arch == "phi3" else 1))
        yield "ffn_down", 0, (inner, width)
