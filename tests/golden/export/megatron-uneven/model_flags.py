"""
The model's own config.json against the planned widths: prints the flags that the plan does not hold, or stops.

    python3 model_flags.py MODEL num_hidden_layers=32 hidden_size=4096 ...

MODEL is a folder, or an id on the Hugging Face Hub. A width that differs, another activation, and positions that
Megatron-LM would compute otherwise end with one sentence.
"""

import json
import os
import sys

MOE = {"num_experts": ("num_experts", "num_local_experts")}


def config(model: str) -> dict:
    path = os.path.join(model, "config.json")
    if not os.path.isdir(model):
        from huggingface_hub import hf_hub_download

        path = hf_hub_download(model, "config.json")
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    return found.get("text_config", found)


def flags(found: dict, planned: dict[str, int]) -> list[str]:
    for name, value in planned.items():
        stated = next((found[key] for key in MOE.get(name, (name,)) if found.get(key) is not None), None)
        if stated is None and name == "num_key_value_heads":
            stated = found.get("num_attention_heads")
        if stated is None and name == "head_dim":
            stated = found["hidden_size"] // found["num_attention_heads"]
        if stated is not None and int(stated) != value:
            raise SystemExit(f"config.json says {name} {stated}, the plan {value}: export from the model that is trained")
    if found.get("hidden_act", "silu") not in ("silu", "swish"):
        raise SystemExit(f"config.json says hidden_act {found['hidden_act']}; these flags are of silu")
    rope = found.get("rope_parameters") or found.get("rope_scaling") or {}
    base = rope.get("rope_theta") or found.get("rope_theta")
    if not base:
        raise SystemExit("config.json states no rope_theta, and Megatron-LM would take 10,000: add it to ROTARY")
    told = ["--rotary-base", f"{float(base):.0f}"]
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "llama3":
        told += ["--use-rope-scaling", "--rope-scaling-factor", f"{float(rope['factor']):g}"]
    elif kind not in ("default", None):
        raise SystemExit(f"config.json scales positions by '{kind}', for which these files have no flags")
    if found.get("partial_rotary_factor", 1.0) != 1.0:
        told += ["--rotary-percent", f"{float(found['partial_rotary_factor']):g}"]
    return told + ["--norm-epsilon", f"{float(found.get('rms_norm_eps', 1e-5)):g}"]


if __name__ == "__main__":
    widths = dict(pair.split("=", 1) for pair in sys.argv[2:])
    print(" ".join(flags(config(sys.argv[1]), {name: int(value) for name, value in widths.items()})))
