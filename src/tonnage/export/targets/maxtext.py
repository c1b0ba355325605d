"""MaxText: a script that trains one of its own networks on TPUs with the plan's mesh, batches and recomputation."""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from typing import Final

from tonnage.export.kit import BadRequest, Fields, Job, Target, builds_as_planned, data_text, lines

TARGET = Target(
    title="MaxText",
    version="0.2.5",
    files=("train.sh",),
    start="OUTPUT=gs://... DATA=... TOKENIZER=... bash train.sh, in a checkout, on every host",
    kinds=("train",),
    most={"pp": 1, "vpp": 1},
    vendors=("google",),
    carried=6,
    software=("jax",),
    install="maxtext==0.2.5",
    words={
        "precision": {"bf16": "bfloat16"},
        "optimizer": {"adamw": "adamw", "sgd": "sgd", "muon": "muon"},
        # Whether every rank holds all weights.
        "sharding": {"none": True, "fsdp": False, "zero3": False},
    },
)
"""Source: configs/base.yml, configs/types.py and configs/models of the maxtext 0.2.5 wheel."""
NETWORKS: Final = {
    "Llama-2-7b-hf": "llama2-7b", "Llama-2-13b-hf": "llama2-13b", "Llama-2-70b-hf": "llama2-70b",
    "Llama-3-8B": "llama3-8b", "Llama-3-70B": "llama3-70b",
    "Llama-3.1-8B": "llama3.1-8b", "Llama-3.1-70B": "llama3.1-70b", "Llama-3.1-405B": "llama3.1-405b",
    "Llama-3.3-70B": "llama3.3-70b", "Mistral-7B-v0.2": "mistral-7b", "Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "Mixtral-8x22B-v0.1": "mixtral-8x22b", "Qwen2.5-1.5B": "qwen2.5-1.5b", "Qwen2.5-7B": "qwen2.5-7b",
    "Qwen2.5-14B": "qwen2.5-14b", "Qwen3-0.6B": "qwen3-0.6b", "Qwen3-1.7B": "qwen3-1.7b", "Qwen3-4B": "qwen3-4b",
    "Qwen3-8B": "qwen3-8b", "Qwen3-14B": "qwen3-14b", "Qwen3-32B": "qwen3-32b", "Qwen3-30B-A3B": "qwen3-30b-a3b-base",
}  # fmt: skip
"""Model -> its `model_name`. What each builds (`data/options/maxtext.json`) is held against the plan; rotary base and
norms are the file's own, those of the model named: the plain file of Qwen3-30B-A3B has the base of its later release,
that of Mistral the vocabulary of its second version."""
NEEDS: Final = {
    "OUTPUT": "bucket for checkpoints and logs",
    "DATA": "pattern of the training files",
    "TOKENIZER": "id of the tokenizer",
}
REMAT: Final = {"full": "full", "selective": "minimal", "none": "minimal_with_context"}
"""Recomputation -> `remat_policy`: everything; attention's result and what is element-wise; the latter alone."""


def export(made: Job) -> str:
    """`train.sh`."""
    notes = [
        *made.lines,
        "One slice of TPUs. OUTPUT is a bucket, DATA a pattern of ArrayRecord files, TOKENIZER a Hugging Face id.",
        "Learning rate and schedule: add learning_rate=... and warmup_steps_fraction=... after the script's name.",
        "MaxText keeps weights and moments in 32 bits and multiplies in 16.",
    ]
    words = [
        "exec python3 -m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml",
        *(shlex.quote(f"{name}={value}") for name, value in arguments(made).items()),
        'base_output_directory="$OUTPUT" grain_train_files="$DATA" tokenizer_path="$TOKENIZER" "$@"',
    ]
    return TARGET.script(notes, lines(words), needs=NEEDS)


def arguments(made: Job) -> Fields:
    """
    The settings of base.yml that the plan decides.

    Raises
    ------
    BadRequest
        A network, a precision, an optimizer or a sharding that MaxText's files do not offer.
    """
    layout = made.layout
    whole = TARGET.word("sharding", layout.sharding)
    # Experts are spread over ranks that also take batches of their own.
    outside_experts = layout.dp // layout.ep
    return {
        "run_name": made.name,
        "model_name": _network(made),
        "dtype": TARGET.word("precision", made.precision),
        "weight_dtype": "float32",
        "opt_type": TARGET.word("optimizer", made.optimizer),
        "max_target_length": made.seq_len,
        "steps": made.steps,
        "per_device_batch_size": f"{made.micro_batch / (layout.tp * layout.cp):g}",
        "gradient_accumulation_steps": made.accumulation,
        "packing": str(made.packed).lower(),
        "remat_policy": REMAT[made.recompute],
        "ici_data_parallelism": outside_experts if whole else 1,
        "ici_fsdp_parallelism": 1 if whole else outside_experts,
        "ici_tensor_parallelism": layout.tp,
        "ici_context_parallelism": layout.cp,
        "ici_expert_parallelism": layout.ep,
        "dcn_data_parallelism": 1,
        "enable_checkpointing": "true",
        "async_checkpointing": str(made.asynchronous).lower(),
        "checkpoint_period": made.checkpoint_steps,
        "dataset_type": "grain",
        "tokenizer_type": "huggingface",
    }


@lru_cache(maxsize=1)
def _built() -> dict[str, tuple[int, ...]]:
    """Network -> layers, width, heads, key-value heads, feed-forward width, experts, vocabulary, rotary base."""
    text = data_text("options/maxtext.json")
    return {name: tuple(map(int, row.split())) for name, row in json.loads(text)["networks"].items()}


def _network(made: Job) -> str:
    network = NETWORKS.get(made.network, "")
    *built, vocabulary, _ = _built().get(network, (0,) * 8)
    if not network or not builds_as_planned(made, tuple(built)) or made.widths.get("vocab_size", 0) > vocabulary:
        raise BadRequest(
            f"these MaxText files know {', '.join(NETWORKS)}, not {made.name}; no other target here trains on TPUs"
        )
    return network
