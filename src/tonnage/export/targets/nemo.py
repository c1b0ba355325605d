"""
NeMo Framework (Megatron-Bridge): a program that reads the plan, and the network from the model's own configuration.

The bridge builds every network that it knows from the model's config.json, so that rotary base, scaling and experts
are the model's own; what the plan decided (splits, batches, recomputation, precision) is put in its fields by name.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import BadRequest, Fields, Files, Job, Target
from tonnage.export.targets.megatron import SHARDED
from tonnage.export.targets.torchrun import planned_program

TARGET = Target(
    title="NeMo Framework (Megatron-Bridge)",
    version="0.6.2",
    files=("launch.sh", "train.py", "plan.json"),
    start="DATA=... OUTPUT=... WEIGHTS=... bash launch.sh, on every node",
    kinds=("train", "finetune"),
    text_only=True,
    vendors=("nvidia",),
    carried=3,
    software=("megatron",),
    install="megatron-bridge==0.6.2",
    words={
        # Recipes of megatron.bridge.training.mixed_precision.
        "precision": {
            "bf16": "bf16_mixed",
            "fp16": "fp16_mixed",
            "fp8": "bf16_with_fp8_current_scaling_mixed",
            "mxfp8": "bf16_with_mxfp8_mixed",
            "nvfp4": "bf16_with_nvfp4_mixed",
        },
        "optimizer": {"adamw": "adam", "sgd": "sgd", "muon": "dist_muon"},
        # `data_parallel_sharding_strategy`.
        "sharding": {"none": "no_shard", "zero1": "optim", **SHARDED},
        # Learning rates to start from: those of megatron.bridge.recipes.common.
        "method": {"pretrain": 3e-4, "full": 5e-6, "lora": 1e-4, "dora": 1e-4},
    },
)
"""Source: megatron.bridge.training.config, mixed_precision, peft of the megatron-bridge 0.6.2 wheel."""
WIDTHS: Final = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels",
                 "ffn_hidden_size", "num_moe_experts", "moe_router_topk", "moe_ffn_hidden_size")  # fmt: skip
"""Fields of the bridge's description that are held against the plan."""


def export(made: Job) -> Files:
    """`launch.sh`, `train.py` and `plan.json`."""
    pretrains = made.method == "pretrain"
    lines = [
        "OUTPUT is a folder that every node sees: checkpoints, and where a start goes on from.",
        "DATA is the prefix of tokenised text, as Megatron-LM's tools/preprocess_data.py writes it."
        if pretrains
        else "DATA is a data set of conversations: an id of the Hub or a folder. WEIGHTS is the model's folder, as the "
        "Hub stores it; the bridge converts it while loading.",
        "LEARNING_RATE replaces the recipe's usual start; the plan does not depend on it.",
    ]
    needs = {"DATA": "what to train on", "OUTPUT": "shared folder for checkpoints"}
    needs |= {} if pretrains else {"WEIGHTS": "folder with the weights to start from"}
    exports = f"CUDA_DEVICE_MAX_CONNECTIONS=1 {' '.join(needs)}"
    return planned_program(
        TARGET, made, program="nemo.py.txt", settings=settings(made), lines=lines, needs=needs, exports=exports
    )


def settings(made: Job) -> Fields:
    """
    What the program reads: fields of the bridge's configuration by their own names.

    Raises
    ------
    BadRequest
        A method, a precision, an optimizer or a sharding that Megatron-Bridge has not.
    """
    layout = made.layout
    strategy = TARGET.word("sharding", layout.sharding)
    megatron_fsdp, shards = layout.sharding in SHARDED, layout.sharding != "none"
    if megatron_fsdp and layout.pp > 1:
        raise BadRequest(f"Megatron-FSDP and pipeline stages exclude each other: pp {layout.pp}; plan zero1")
    return {
        "model": made.model,
        "method": made.method,
        "packed": made.packed,
        "seq_length": made.seq_len,
        "learning_rate": TARGET.word("method", made.method),
        "mixed_precision": TARGET.word("precision", made.precision),
        "widths": _widths(made),
        "provider": {
            "tensor_model_parallel_size": layout.tp,
            "pipeline_model_parallel_size": layout.pp,
            "virtual_pipeline_model_parallel_size": layout.vpp if layout.vpp > 1 else None,
            **({"pipeline_model_parallel_layout": made.stage_layout} if made.stage_layout else {}),
            "context_parallel_size": layout.cp,
            "expert_model_parallel_size": layout.ep,
            # Megatron Core cuts experts by the tensor degree unless it is told otherwise.
            **({"expert_tensor_parallel_size": layout.expert_tp} if layout.ep > 1 and layout.tp > 1 else {}),
            "sequence_parallel": layout.sequence_parallel and layout.tp > 1,
            "seq_length": made.seq_len,
            **_recomputed(made.recompute),
        },
        "train": {
            "micro_batch_size": made.micro_batch,
            "global_batch_size": made.global_batch,
            "train_iters": made.steps,
        },
        "optimizer": {
            "optimizer": TARGET.word("optimizer", made.optimizer),
            "use_distributed_optimizer": shards,
        },
        "ddp": {
            "use_distributed_optimizer": shards,
            "overlap_grad_reduce": shards,
            "overlap_param_gather": shards,
            "use_megatron_fsdp": megatron_fsdp,
            "data_parallel_sharding_strategy": strategy,
        },
        "checkpoint": {
            "save_interval": made.checkpoint_steps,
            "save_retain_interval": made.retained_steps,
            "async_save": made.asynchronous,
            "ckpt_format": "fsdp_dtensor" if megatron_fsdp else "torch_dist",
        },
        "adapters": {"dim": made.rank, "alpha": made.alpha, "dropout": 0.0} if made.adapters else None,
    }


def _widths(made: Job) -> dict[str, int]:
    """The planned widths by the bridge's names: all that are known, of every network its layers and width."""
    known = {**made.widths, **made.shape}
    known["num_moe_experts"] = known.get("num_experts")
    known.setdefault("num_query_groups", known.get("num_attention_heads") if made.shape else None)
    # A network of experts alone has no other feed-forward part; what its configuration says of one is not used.
    skipped = {"ffn_hidden_size"} if known["num_moe_experts"] else set()
    return {name: known[name] for name in WIDTHS if known.get(name) and name not in skipped}


def _recomputed(recompute: str) -> Fields:
    if recompute == "full":
        return {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    return {"recompute_granularity": "selective" if recompute == "selective" else None}
