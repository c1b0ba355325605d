"""A tiny Llama of random weights, its tokenizer and its data, in the places where exported files look for theirs."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }} {{ m['content'] }}</s>{% endfor %}"
"""Of a conversation, as TRL and axolotl render it."""
ROWS = 400


def config(expected: dict) -> LlamaConfig:
    """The planned shape, as a checkpoint's config.json says it."""
    return LlamaConfig(
        vocab_size=258,
        num_hidden_layers=expected["num_layers"],
        hidden_size=expected["hidden_size"],
        num_attention_heads=expected["num_attention_heads"],
        num_key_value_heads=expected["num_query_groups"],
        intermediate_size=expected["ffn_hidden_size"],
        max_position_embeddings=2 * expected["seq_len"],
        rope_parameters={"rope_type": "default", "rope_theta": expected["rotary_base"]},
        bos_token_id=0,
        eos_token_id=1,
    )


def write(folder: Path, expected: dict) -> None:
    """Checkpoint, tokenizer and data below `folder`."""
    checkpoint, data = folder / "tonnage" / "tiny", folder / "your-name" / "your-data"
    LlamaForCausalLM(config(expected)).save_pretrained(checkpoint)
    alphabet = {letter: 2 + place for place, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bytes_only = Tokenizer(models.BPE(vocab={"<s>": 0, "</s>": 1, **alphabet}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=bytes_only, bos_token="<s>", eos_token="</s>", pad_token="</s>", chat_template=TEMPLATE
    ).save_pretrained(checkpoint)
    data.mkdir(parents=True)
    turns = [
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": "As many as were planned, and every one of them as long as that. " * 3},
    ]
    row = json.dumps({"messages": turns})
    (data / "train.jsonl").write_text(f"{row}\n" * ROWS, encoding="utf-8")


def shape_of(config: dict) -> dict:
    """A started model's description by the plan's names."""
    rope = config.get("rope_parameters") or {"rope_theta": config.get("rope_theta")}
    return {
        "num_layers": config["num_hidden_layers"],
        "hidden_size": config["hidden_size"],
        "num_attention_heads": config["num_attention_heads"],
        "num_query_groups": config["num_key_value_heads"],
        "ffn_hidden_size": config["intermediate_size"],
        "rotary_base": rope["rope_theta"],
    }
