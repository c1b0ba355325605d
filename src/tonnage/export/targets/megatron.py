"""Megatron-LM: a script that launches pretrain_gpt.py with the plan's parallelism, batches and recomputation."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest
from tonnage.export.job import Job, job
from tonnage.export.target import Target
from tonnage.export.targets.torchrun import launcher
from tonnage.export.text import head, shell

__all__ = ["TARGET", "arguments", "export"]

TARGET = Target(
    name="megatron",
    title="Megatron-LM",
    version="core_r0.13.0",
    files=("pretrain.sh",),
    start="bash pretrain.sh, in a checkout of Megatron-LM, on every node",
    kinds=("train", "finetune"),
    source="megatron/training/arguments.py, core_r0.13.0",
)
PRECISIONS: Final[dict[str, tuple[str, ...]]] = {
    "bf16": ("--bf16",), "fp16": ("--fp16",), "fp32": (), "tf32": (),
    "fp8": ("--bf16", "--fp8-format", "hybrid"),
    "mxfp8": ("--bf16", "--fp8-format", "e4m3", "--fp8-recipe", "mxfp8"),
}  # fmt: skip
OPTIMIZERS: Final = {"adamw": "adam", "sgd": "sgd", "muon": "muon"}


def export(plan: TrainPlan, option: TrainOption) -> dict[str, str]:
    """`pretrain.sh`."""
    made = job(plan, option)
    if made.adapters:
        raise BadRequest(f"Megatron-LM's own script trains no {made.method}; export to axolotl or accelerate")
    if not made.shape:
        raise BadRequest("the plan's file does not say the network's widths; export from where its model is known")
    notes = [
        *made.lines,
        "DATA is what --data-path takes, TOKENIZER a Hugging Face id or folder, CHECKPOINTS a shared folder.",
        "Learning rate and schedule: add --lr and --lr-decay-style after the script's name.",
    ]
    needs = "".join(
        f': "${{{name}:?{what}}}"\n'
        for name, what in (
            ("DATA", "prefix of the tokenised data"),
            ("TOKENIZER", "id or folder of the tokenizer"),
            ("CHECKPOINTS", "shared folder for checkpoints"),
        )
    )
    program = "pretrain_gpt.py \\\n  " + shell(arguments(made))
    program += ' \\\n  --data-path "$DATA" --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER" \\\n'
    program += '  --save "$CHECKPOINTS" --load "$CHECKPOINTS"'
    body = f"set -euo pipefail\n{needs}export CUDA_DEVICE_MAX_CONNECTIONS=1\n{launcher(made, program=program)}\n"
    return {"pretrain.sh": "#!/usr/bin/env bash\n" + head(TARGET.title, TARGET.version, lines=notes) + body}


def arguments(made: Job) -> list[str]:
    """
    The arguments of pretrain_gpt.py.

    Raises
    ------
    BadRequest
        A precision or an optimizer that Megatron-LM has not.
    """
    if made.precision not in PRECISIONS:
        raise BadRequest(f"Megatron-LM {TARGET.version} has no {made.precision} recipe here; plan with bf16 or fp8")
    if made.optimizer not in OPTIMIZERS:
        raise BadRequest(f"Megatron-LM has no optimizer '{made.optimizer}'; plan with {', '.join(OPTIMIZERS)}")
    layout = made.layout
    pairs: dict[str, Any] = {
        "tensor-model-parallel-size": layout.tp,
        "pipeline-model-parallel-size": layout.pp,
        "context-parallel-size": layout.cp,
        "expert-model-parallel-size": layout.ep,
        "num-virtual-stages-per-pipeline-rank": layout.vpp if layout.vpp > 1 else None,
        "micro-batch-size": made.micro_batch,
        "global-batch-size": made.global_batch,
        "seq-length": made.seq_len,
        "max-position-embeddings": made.seq_len,
        "train-iters": made.steps,
        "optimizer": OPTIMIZERS[made.optimizer],
        "position-embedding-type": "rope",
        "normalization": "RMSNorm",
        "save-interval": made.checkpoint_steps,
        **{name.replace("_", "-"): value for name, value in made.shape.items() if not isinstance(value, bool)},
    }
    found = [part for name, value in pairs.items() if value is not None for part in (f"--{name}", str(value))]
    found += [f"--{name.replace('_', '-')}" for name, value in made.shape.items() if value is True]
    found += PRECISIONS[made.precision]
    found += ["--sequence-parallel"] if layout.sequence_parallel and layout.tp > 1 else []
    if layout.sharding != "none":
        found += ["--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"]
    if made.recompute == "full":
        found += ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"]
    elif made.recompute == "selective":
        found += ["--recompute-granularity", "selective"]
    return found + (["--async-save"] if made.asynchronous else []) + ["--ckpt-format", "torch_dist"]
