"""Writers of tiny weight files, by the letter of their formats."""

import json
import struct
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}  # fmt: skip
WIDTHS = {"BF16": 2, "F32": 4, "F8_E4M3": 1}


def llama_tensors(layers: int = 2) -> dict[str, list[int]]:
    """Names and shapes of the tensors of CONFIG."""
    found = {"model.embed_tokens.weight": [100, 64], "model.norm.weight": [64], "lm_head.weight": [100, 64]}
    for number in range(layers):
        at = f"model.layers.{number}"
        found |= {
            f"{at}.self_attn.q_proj.weight": [64, 64], f"{at}.self_attn.k_proj.weight": [32, 64],
            f"{at}.self_attn.v_proj.weight": [32, 64], f"{at}.self_attn.o_proj.weight": [64, 64],
            f"{at}.mlp.gate_proj.weight": [128, 64], f"{at}.mlp.up_proj.weight": [128, 64],
            f"{at}.mlp.down_proj.weight": [64, 128], f"{at}.input_layernorm.weight": [64],
            f"{at}.post_attention_layernorm.weight": [64],
        }  # fmt: skip
    return found


def write_safetensors(path: Path, tensors: dict[str, list[int]], dtype: str = "BF16") -> int:
    """Write a file of zeros; returns the bytes of its tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in tensors.items():
        values = 1
        for side in shape:
            values *= side
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + values * WIDTHS[dtype]]}
        at += values * WIDTHS[dtype]
    content = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content + bytes(at))
    return at


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def setting(name: str, value: Any) -> bytes:
    """One typed setting: whole numbers as u32, texts, and lists of them."""
    if isinstance(value, list):
        kind = 8 if value and isinstance(value[0], str) else 4
        items = b"".join(text(v) if kind == 8 else struct.pack("<I", v) for v in value)
        return text(name) + struct.pack("<IIQ", 9, kind, len(value)) + items
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    return text(name) + struct.pack("<II", 4, value)


def gguf_bytes(settings: dict[str, Any], tensors: dict[str, tuple[list[int], int]], *, version: int = 3) -> bytes:
    """A GGUF file; tensors map a name to its sides and the number of its type (0 = f32, 1 = f16, 12 = q4_k)."""
    sizes = {0: (1, 4), 1: (1, 2), 8: (32, 34), 12: (256, 144), 39: (32, 17)}
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(settings))
    head += b"".join(setting(name, value) for name, value in settings.items())
    at = 0
    for name, (shape, kind) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", side) for side in shape)
        head += struct.pack("<IQ", kind, at)
        values = 1
        for side in shape:
            values *= side
        block, size = sizes.get(kind, (1, 4))
        at += -(-(values // block * size) // 32) * 32
    return head + bytes(-len(head) % 32) + bytes(at)


LLAMA_GGUF: dict[str, Any] = {
    "general.architecture": "llama", "general.name": "tiny", "general.file_type": 15, "llama.block_count": 2,
    "llama.embedding_length": 256, "llama.feed_forward_length": 512, "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2, "llama.context_length": 2048, "tokenizer.ggml.tokens": ["a", "b"],
}  # fmt: skip


def llama_gguf_tensors(kind: int = 12, vocabulary: int = 100) -> dict[str, tuple[list[int], int]]:
    found: dict[str, tuple[list[int], int]] = {
        "token_embd.weight": ([256, vocabulary], kind), "output_norm.weight": ([256], 0),
        "output.weight": ([256, vocabulary], kind),
    }  # fmt: skip
    for number in range(2):
        at = f"blk.{number}"
        found |= {
            f"{at}.attn_norm.weight": ([256], 0), f"{at}.ffn_norm.weight": ([256], 0),
            f"{at}.attn_q.weight": ([256, 256], kind), f"{at}.attn_k.weight": ([256, 128], kind),
            f"{at}.attn_v.weight": ([256, 128], kind), f"{at}.attn_output.weight": ([256, 256], kind),
            f"{at}.ffn_gate.weight": ([256, 512], kind), f"{at}.ffn_up.weight": ([256, 512], kind),
            f"{at}.ffn_down.weight": ([512, 256], kind),
        }  # fmt: skip
    return found
