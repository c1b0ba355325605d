"""A GGUF file of a tiny Llama with random weights, whose vocabulary is the bytes."""

from pathlib import Path

import gguf
import numpy as np


def write(path: Path, shape: dict, *, feed_forward: int, context: int) -> None:
    """`shape` by the plan's names; `feed_forward` and `context` in elements and tokens."""
    width, heads, groups = shape["hidden_size"], shape["num_attention_heads"], shape["num_query_groups"]
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in plain] + [chr(256 + place) for place in range(256 - len(plain))]
    tokens = ["<s>", "</s>", *letters, "Ġt"]
    out = gguf.GGUFWriter(str(path), "llama")
    out.add_context_length(context)
    out.add_embedding_length(width)
    out.add_block_count(shape["num_layers"])
    out.add_feed_forward_length(feed_forward)
    out.add_head_count(heads)
    out.add_head_count_kv(groups)
    out.add_rope_dimension_count(width // heads)
    out.add_rope_freq_base(shape["rotary_base"])
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(tokens) - 2))
    out.add_token_merges(["Ġ t"])
    out.add_bos_token_id(0)
    out.add_eos_token_id(1)
    out.add_add_bos_token(False)
    draw = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (draw.standard_normal((rows, columns)) * 0.05).astype(np.float32)

    head = matrix(len(tokens), width)
    head[:2] = head[96:] = 0.0  # tokens without a text of their own
    out.add_tensor("token_embd.weight", matrix(len(tokens), width))
    out.add_tensor("output_norm.weight", np.ones(width, np.float32))
    out.add_tensor("output.weight", head)
    narrow = groups * width // heads
    sizes = {
        "attn_q": (width, width),
        "attn_k": (narrow, width),
        "attn_v": (narrow, width),
        "attn_output": (width, width),
    }
    sizes |= {"ffn_gate": (feed_forward, width), "ffn_up": (feed_forward, width), "ffn_down": (width, feed_forward)}
    for layer in range(shape["num_layers"]):
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, np.float32))
        for name, (rows, columns) in sizes.items():
            out.add_tensor(f"blk.{layer}.{name}.weight", matrix(rows, columns))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
