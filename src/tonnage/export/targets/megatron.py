"""Megatron-LM: a script that launches pretrain_gpt.py with the plan's parallelism, batches and recomputation."""

from __future__ import annotations

import shlex
from typing import Final

from tonnage.domain.layout import TrainLayout
from tonnage.export.kit import BadRequest, Fields, Files, Job, Options, Target, data_text, flags, shell
from tonnage.export.targets.torchrun import launcher

TARGET = Target(
    title="Megatron-LM",
    version="0.19.2",
    files=("pretrain.sh", "model_flags.py"),
    start="bash pretrain.sh, in a checkout of Megatron-LM, on every node",
    kinds=("train", "finetune"),
    carried=4,
    software=("megatron",),
    install="megatron-core[training]==0.19.2",
    words={
        "precision": {
            "bf16": ["--bf16"],
            "fp16": ["--fp16"],
            "fp32": [],
            "tf32": [],
            "fp8": ["--bf16", "--fp8-format", "hybrid"],
            "mxfp8": ["--bf16", "--fp8-format", "e4m3", "--fp8-recipe", "mxfp8"],
        },
        "optimizer": {"adamw": "adam", "sgd": "sgd", "muon": "muon"},
    },
)
"""Source: megatron.training.arguments of the megatron-core 0.19.2 wheel, the tag core_v0.19.2."""
FLAGS: Final = "model_flags.py"
CONVERTED: Final = (
    "WEIGHTS is the model to start from, converted by Megatron-LM's tools/checkpoint/convert.py (loader llama_mistral",
    "or the model's own) or by Megatron-Bridge, for the tensor and pipeline degrees below.",
)
FROM_NOTHING: Final = (
    "Starts from random weights. To go on from released ones (continued pre-training), add --pretrained-checkpoint",
    "with a folder that tools/checkpoint/convert.py has converted for the degrees below.",
)
SIZED: Final = ("Of a bare size, depth and widths are interpolated, and ROTARY is that of Llama 3.",)
NEEDS: Final = {
    "DATA": "prefix of the tokenised data",
    "TOKENIZER": "id or folder of the tokenizer",
    "CHECKPOINTS": "shared folder for checkpoints",
}
WIDTHS: Final = {
    "num_hidden_layers": "num_layers", "hidden_size": "hidden_size", "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_query_groups", "head_dim": "kv_channels", "num_experts": "num_experts",
    "num_experts_per_tok": "moe_router_topk", "moe_intermediate_size": "moe_ffn_hidden_size",
}  # fmt: skip
"""Fields of config.json -> the planned widths that the script holds against them when it starts."""
SHARDED: Final = {"zero2": "optim_grads", "zero3": "optim_grads_params", "fsdp": "optim_grads_params"}
"""Sharding -> Megatron-FSDP's strategy."""


def _settle_options(found: Fields) -> Fields:
    """Precision of the switches, sharding of the distributed optimizer, the shape of the network under one name."""
    found["method"] = "pretrain"
    switches = {name: found.pop(name, "") for name in ("fp8", "bf16", "fp16")}
    switches = {"mxfp8": found.pop("fp8_recipe", "") == "mxfp8", **switches}
    found["precision"] = next((name for name, on in switches.items() if on), "fp32")
    found["sharding"] = "fsdp" if found.pop("fsdp", False) else "zero1" if found.pop("distributed", False) else "none"
    found["optimizer"] = {"adam": "adamw"}.get(found.get("optimizer", "adam"), found.get("optimizer"))
    granularity = found.pop("granularity", "")
    found["recompute"] = granularity or ("full" if found.pop("recomputes", False) else "none")
    return found


OPTIONS = Options(
    programs=(("pretrain_gpt.py",), ("pretrain_mamba.py",)),
    counts={
        "tensor_model_parallel_size": "tp",
        "pipeline_model_parallel_size": "pp",
        "context_parallel_size": "cp",
        "expert_model_parallel_size": "ep",
        "expert_tensor_parallel_size": "etp",
        "num_virtual_stages_per_pipeline_rank": "vpp",
        "micro_batch_size": "micro_batch",
        "num_layers_per_virtual_pipeline_stage": "layers_per_virtual_stage",
        "global_batch_size": "global_batch",
        "seq_length": "seq_len",
        "train_iters": "steps",
        "train_samples": "samples",
        "save_interval": "save_steps",
        "num_layers": "num_layers",
        "hidden_size": "hidden_size",
        "num_attention_heads": "num_attention_heads",
        "ffn_hidden_size": "ffn_hidden_size",
        "num_query_groups": "num_query_groups",
        "kv_channels": "kv_channels",
        "num_experts": "num_experts",
        "moe_router_topk": "moe_router_topk",
        "moe_ffn_hidden_size": "moe_ffn_hidden_size",
        "rotary_base": "rotary_base",
    },
    texts={
        "optimizer": "optimizer",
        "fp8_format": "fp8",
        "fp8_recipe": "fp8_recipe",
        "recompute_granularity": "granularity",
    },
    flags={
        "bf16": ("bf16", True),
        "fp16": ("fp16", True),
        "sequence_parallel": ("sequence_parallel", True),
        "use_distributed_optimizer": ("distributed", True),
        "use_megatron_fsdp": ("fsdp", True),
        "use_custom_fsdp": ("fsdp", True),
        "use_torch_fsdp2": ("fsdp", True),
        "recompute_activations": ("recomputes", True),
        "swiglu": ("swiglu", True),
        "group_query_attention": ("group_query_attention", True),
        "untie_embeddings_and_output_weights": ("untie_embeddings_and_output_weights", True),
        "qk_layernorm": ("qk_layernorm", True),
    },
    short={"fp8": "fp8_format"},
    settle=_settle_options,
)


def export(made: Job) -> Files:
    """
    `pretrain.sh`, and where the plan does not hold the rotary base `model_flags.py`, which reads it from config.json.
    """
    if made.adapters:
        raise BadRequest(f"Megatron-LM's own script trains no {made.method}; export to axolotl or accelerate")
    if not made.shape:
        raise BadRequest(
            f"{made.model} is not known, or no decoder whose every part has a flag here (RMSNorm, rotary positions, "
            "SiLU gate, one kind of layer); export to torchrun or accelerate, which load its own code"
        )
    notes = [
        *made.lines,
        "Runs in a checkout of Megatron-LM.",
        "DATA is what --data-path takes, TOKENIZER a Hugging Face id or folder, CHECKPOINTS a shared folder.",
        "Learning rate and schedule: add --lr and --lr-decay-style after the script's name.",
        *(CONVERTED if made.method != "pretrain" else FROM_NOTHING),
        *(SIZED if "/" not in made.model else ()),
    ]
    start_from = {"WEIGHTS": "folder with the weights to start from, in the format of Megatron-LM"}
    needs = NEEDS if made.method == "pretrain" else start_from | NEEDS
    # Unquoted: flags and numbers alone, of the line above or of the user's own ROTARY.
    program = "pretrain_gpt.py \\\n  " + shell(arguments(made)) + " \\\n  $ROTARY"
    program += ' \\\n  --data-path "$DATA" --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER" \\\n'
    program += '  --save "$CHECKPOINTS" --load "$CHECKPOINTS"'
    program += ' \\\n  --pretrained-checkpoint "$WEIGHTS"' if made.method != "pretrain" else ""
    # Its own sharding refuses one connection, and what splits tensors needs it.
    shares = made.layout.sharding in SHARDED
    start = "unset CUDA_DEVICE_MAX_CONNECTIONS\n" if shares else "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    start += f"{launcher(made, program=program)}\n"
    script = TARGET.script(notes, _width_check(made) + start, needs=needs)
    if made.rotary_base:
        return {"pretrain.sh": script}
    return {
        "pretrain.sh": script,
        FLAGS: data_text("model_flags.py.txt"),
    }


def _width_check(made: Job) -> str:
    """
    The line of shell that holds the widths against the model's own config.json and reads what the plan does not hold.

    Rotary base, scaling of positions and the norm's epsilon are no part of a plan, and Megatron-LM's defaults (10,000,
    none, 1e-5) are another network's.
    """
    if made.rotary_base:
        return f'ROTARY="${{ROTARY:---rotary-base {made.rotary_base:.0f}}}"\n'
    widths = [f"{theirs}={made.shape[ours]}" for theirs, ours in WIDTHS.items() if ours in made.shape]
    return (
        f'ROTARY="${{ROTARY:-$({" ".join(shlex.quote(word) for word in ("python3", FLAGS, made.model, *widths))})}}"\n'
    )


def arguments(made: Job) -> list[str]:
    """
    The arguments of pretrain_gpt.py.

    Raises
    ------
    BadRequest
        A precision or an optimizer that Megatron-LM has not.
    """
    layout = made.layout
    pairs: Fields = {
        "tensor-model-parallel-size": layout.tp,
        "pipeline-model-parallel-size": layout.pp,
        "context-parallel-size": layout.cp,
        "expert-model-parallel-size": layout.ep,
        # Megatron-LM cuts experts by the tensor degree unless it is told otherwise.
        "expert-tensor-parallel-size": layout.expert_tp if layout.ep > 1 and layout.tp > 1 else None,
        "num-virtual-stages-per-pipeline-rank": layout.vpp if layout.vpp > 1 and not made.stage_layout else None,
        "pipeline-model-parallel-layout": made.stage_layout or None,
        "micro-batch-size": made.micro_batch,
        "global-batch-size": made.global_batch,
        "seq-length": made.seq_len,
        "max-position-embeddings": made.seq_len,
        "train-iters": made.steps,
        "optimizer": TARGET.word("optimizer", made.optimizer),
        "position-embedding-type": "rope",
        "normalization": "RMSNorm",
        # Its own default drops a tenth of attention and of what layers give.
        "attention-dropout": 0.0,
        "hidden-dropout": 0.0,
        "save-interval": made.checkpoint_steps,
        "save-retain-interval": made.retained_steps,
        **{name.replace("_", "-"): value for name, value in made.shape.items() if not isinstance(value, bool)},
    }
    found = flags(pairs)
    found += [f"--{name.replace('_', '-')}" for name, value in made.shape.items() if value is True]
    found += TARGET.word("precision", made.precision)
    found += ["--sequence-parallel"] if layout.sequence_parallel and layout.tp > 1 else []
    found += _sharded(layout)
    if made.recompute == "full":
        found += ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"]
    elif made.recompute == "selective":
        found += ["--recompute-granularity", "selective"]
    kept = "fsdp_dtensor" if layout.sharding in SHARDED else "torch_dist"
    return found + (["--async-save"] if made.asynchronous else []) + ["--ckpt-format", kept]


def _sharded(layout: TrainLayout) -> list[str]:
    """
    Who keeps which part of optimizer, gradients and weights.

    Raises
    ------
    BadRequest
        A sharding that it has not, or not with stages of a pipeline.
    """
    if layout.sharding == "none":
        return []
    found = ["--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"]
    if layout.sharding == "zero1":
        return found
    if layout.sharding not in SHARDED or layout.pp > 1:
        raise BadRequest(
            f"Megatron-LM shards as zero1, or without stages of a pipeline as {', '.join(SHARDED)}; the option has "
            f"{layout.sharding} and pp {layout.pp}: take another with --option, or plan with --software megatron"
        )
    return [*found, "--use-megatron-fsdp", "--data-parallel-sharding-strategy", SHARDED[layout.sharding]]
