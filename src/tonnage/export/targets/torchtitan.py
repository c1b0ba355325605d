"""torchtitan: a script that launches one of its own flavours with the plan's parallelism, batches, recomputation."""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import BadRequest, Fields, Job, Options, Target, builds_as_planned, flags, shell
from tonnage.export.targets.torchrun import launcher

TARGET = Target(
    title="torchtitan",
    version="0.3.0",
    files=("train.sh",),
    start="bash train.sh, on every node",
    kinds=("train",),
    most={"vpp": 1},
    carried=1,
    install="torchtitan==0.3.0",
    words={
        # Others are chosen by configurations of one's own.
        "precision": {"bf16": ""},
        "optimizer": {"adamw": ""},
    },
)
"""Source: torchtitan.config.configs, torchtitan.models.*.config_registry, 0.3.0."""
FLAVOURS: Final = {
    "Llama-3.1-8B": ("llama3", "llama3_8b", (32, 4096, 32, 8, 14336, 0)),
    "Llama-3.1-70B": ("llama3", "llama3_70b", (80, 8192, 64, 8, 28672, 0)),
    "Llama-3.1-405B": ("llama3", "llama3_405b", (126, 16384, 128, 8, 53248, 0)),
    "Qwen3-0.6B": ("qwen3", "qwen3_0_6b", (28, 1024, 16, 8, 3072, 0)),
    "Qwen3-1.7B": ("qwen3", "qwen3_1_7b", (28, 2048, 16, 8, 6144, 0)),
    "Qwen3-14B": ("qwen3", "qwen3_14b", (40, 5120, 40, 8, 17408, 0)),
    "Qwen3-32B": ("qwen3", "qwen3_32b", (64, 5120, 64, 8, 25600, 0)),
    "Qwen3-30B-A3B": ("qwen3", "qwen3_30b_a3b", (48, 2048, 32, 4, 768, 128)),
}
"""
Model -> module, configuration, and what the registry of 0.3.0 builds: layers, width, heads, key-value heads,
feed-forward width (of an expert), experts. Rotary base and scaling are the flavour's own, those of the model named.
"""


def _settle_options(found: Fields) -> Fields:
    """What its settings mean together: the catalogue's name of a flavour, sharding of its two data-parallel degrees."""
    found["method"] = "pretrain"
    module, flavour = str(found.pop("module", "")), str(found.pop("flavour", ""))
    found["model"] = _MODELS.get(f"{module}_{flavour}".lower().replace(".", "_"), _MODELS.get(flavour.lower(), ""))
    replicate, shard = found.pop("replicate", 1), found.pop("shard", -1)
    found["sharding"] = "none" if shard == 1 else "hsdp" if replicate > 1 else "fsdp"
    found["recompute"] = str(found.pop("mode", "")).lower() or "none"
    return found


_MODELS: Final = {
    **{flavour: model for model, (_, flavour, _) in FLAVOURS.items()},
    "qwen3_30b-a3b": "Qwen3-30B-A3B",
}
"""Configuration, or module and flavour of releases before 0.3 -> the network it builds."""

OPTIONS = Options(
    programs=(("torchtitan.train",), ("torchtitan/train.py",), ("run_train.sh",)),
    counts={
        "training.local_batch_size": "micro_batch",
        "training.batch_size": "micro_batch",
        "training.seq_len": "seq_len",
        "training.steps": "steps",
        "parallelism.tensor_parallel_degree": "tp",
        "parallelism.pipeline_parallel_degree": "pp",
        "parallelism.context_parallel_degree": "cp",
        "parallelism.expert_parallel_degree": "ep",
        "checkpoint.interval": "save_steps",
    },
    texts={
        "module": "module",
        "config": "flavour",
        "model.name": "module",
        "model.flavor": "flavour",
        "activation_checkpoint.mode": "mode",
    },
    values={
        "training.global_batch_size": ("global_batch", int),
        "optimizer.name": ("optimizer", lambda name: name.lower()),
        "parallelism.data_parallel_replicate_degree": ("replicate", int),
        "parallelism.data_parallel_shard_degree": ("shard", int),
    },
    words={"activation_checkpoint:": "mode"},
    settle=_settle_options,
)


def export(made: Job) -> str:
    """`train.sh`."""
    module, flavour = _flavour(made)
    notes = [
        *made.lines,
        f"Trains torchtitan's own {flavour}; ASSETS is a folder with the model's tokenizer and configuration.",
        "Learning rate and data: add --optimizer.* and --dataloader.* after the script's name.",
        "Starts from random weights. To go on from released ones (continued pre-training), add",
        "--checkpoint.initial_load_in_hf --checkpoint.initial_load_path FOLDER, as the Hub stores them.",
    ]
    argv = ["--module", module, "--config", flavour, *arguments(made)]
    program = "-m torchtitan.train \\\n  " + shell(argv) + ' \\\n  --hf_assets_path "$ASSETS"'
    # A sub-command of its parser: options of the job stand before it.
    launch = launcher(made, program=program, last=f"activation_checkpoint:{made.recompute}")
    return TARGET.script(notes, launch + "\n", needs={"ASSETS": "folder of the tokenizer"})


def arguments(made: Job) -> list[str]:
    """
    The arguments of torchtitan.train beside its flavour.

    Raises
    ------
    BadRequest
        A precision, an optimizer or a sharding that its configurations do not choose by a flag.
    """
    TARGET.word("precision", made.precision)
    TARGET.word("optimizer", made.optimizer)
    layout = made.layout
    replicate = {"none": layout.dp, "hsdp": made.nodes}.get(layout.sharding, 1)
    pairs: Fields = {
        "training.local_batch_size": made.micro_batch * (made.accumulation if layout.pp > 1 else 1),
        "training.global_batch_size": made.global_batch,
        "training.seq_len": made.seq_len,
        "training.steps": made.steps,
        "parallelism.data_parallel_replicate_degree": replicate,
        "parallelism.data_parallel_shard_degree": layout.dp // replicate,
        "parallelism.fsdp_reshard_after_forward": "never" if layout.sharding in ("zero1", "zero2") else "default",
        "parallelism.tensor_parallel_degree": layout.tp,
        "parallelism.pipeline_parallel_degree": layout.pp,
        "parallelism.pipeline_parallel_microbatch_size": made.micro_batch if layout.pp > 1 else None,
        "parallelism.context_parallel_degree": layout.cp,
        "parallelism.expert_parallel_degree": layout.ep,
        "checkpoint.interval": made.checkpoint_steps,
        "checkpoint.async_mode": "async" if made.asynchronous else "disabled",
    }
    found = flags(pairs)
    return ["--checkpoint.enable", *found]


def _flavour(made: Job) -> tuple[str, str]:
    module, flavour, built = FLAVOURS.get(made.network, ("", "", ()))
    if not builds_as_planned(made, built):
        raise BadRequest(
            f"torchtitan {TARGET.version} has no flavour of {made.name} ({', '.join(FLAVOURS)}); export to megatron"
        )
    return module, flavour
