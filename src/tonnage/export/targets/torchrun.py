"""torchrun with FSDP2: a launch script, and a module that applies the plan's sharding to a model of one's own."""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import (
    DATA_PARALLEL,
    UNTESTED,
    BadRequest,
    Fields,
    Files,
    Job,
    Target,
    data_text,
    json_text,
    shell,
)

TARGET = Target(
    title="PyTorch torchrun and FSDP2",
    version="2.6",
    files=("launch.sh", "plan.json", "fsdp2.py"),
    start="SCRIPT=train.py bash launch.sh, on every node",
    kinds=("train", "finetune"),
    most=DATA_PARALLEL,
    carried=2,
)
"""Source: docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html, torchrun."""
PORT: Final = 29500
SCRIPT: Final = {"SCRIPT": "the training script, for example train.py"}
"""What launches a script of the reader's own asks for."""
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16"}


def export(made: Job) -> Files:
    """`launch.sh`, `plan.json` with the settings, and `fsdp2.py`, which reads them."""
    notes = [
        *made.lines,
        "SCRIPT is your training script. It calls fsdp2.parallelise(model) after building the model on the meta",
        "device or on CPU, and reads batch, accumulation and steps from plan.json.",
    ]
    return {
        "launch.sh": TARGET.script(notes, launcher(made) + "\n", needs=SCRIPT),
        "plan.json": json_text(_settings(made)),
        "fsdp2.py": data_text("fsdp2.py.txt"),
    }


def launcher(made: Job, *, program: str = '"$SCRIPT"', last: str = "", per_node: int | None = None) -> str:
    """
    The torchrun command of one node; where there are several, LEADER_ADDRESS and NODE_RANK say which.

    `last` stands behind the reader's own arguments, where a program's parser wants a word at the end; `per_node` is
    for accelerators of several ranks.
    """
    command = f"torchrun \\\n  {processes(made, per_node=per_node)}"
    return f'exec {command} \\\n  {program} "$@"' + (f" {last}" if last else "")


def processes(made: Job, *, per_node: int | None = None) -> str:
    """torchrun's own options: the processes of a node, and where the nodes of several meet."""
    argv = ["--nproc-per-node", str(per_node or made.per_node)]
    if made.nodes == 1:
        return shell([*argv, "--standalone"])
    argv += ["--nnodes", str(made.nodes), "--rdzv-backend", "c10d", "--rdzv-id", made.name]
    argv += ["--max-restarts", "3"] if made.spot else []
    return f'{shell(argv)} \\\n  --rdzv-endpoint "${{LEADER_ADDRESS:?address of the first node}}:{PORT}"'


def _settings(made: Job) -> Fields:
    """The constants at the head of the exported script, by name."""
    return {
        "model": made.model,
        "sharding": made.layout.sharding,
        "ranks_per_node": made.per_node,
        "parameter_dtype": DTYPES.get(made.precision, "bfloat16" if made.precision != "fp32" else "float32"),
        "activation_checkpointing": made.recompute,
        "micro_batch": made.micro_batch,
        "accumulation": made.accumulation,
        "global_batch": made.global_batch,
        "seq_len": made.seq_len,
        "steps": made.steps,
        "optimizer": made.optimizer,
        "checkpoint_every_steps": made.checkpoint_steps,
        "asynchronous_checkpoints": made.asynchronous,
        "method": made.method,
        "lora_rank": made.rank if made.adapters else None,
    }


def planned_program(
    target: Target,
    made: Job,
    *,
    program: str,
    settings: Fields,
    lines: list[str],
    needs: dict[str, str],
    exports: str,
    per_node: int | None = None,
) -> Files:
    """
    `launch.sh`, `train.py` and `plan.json` of a target whose program, a file of `data`, reads the plan.

    `needs` are variables that the reader must set, with what each is; `exports` is what the program finds set.

    Raises
    ------
    BadRequest
        The model is a bare size: there is no configuration that the program could read.
    """
    if "/" not in made.model:
        raise BadRequest(
            f"{target.title} builds the network from a model's config.json, and '{made.model}' is a bare size; export "
            "to megatron, or plan with a model's id"
        )
    start = launcher(made, program="train.py", per_node=per_node)
    return {
        "launch.sh": target.script([UNTESTED, *made.lines, *lines], f"export {exports}\n{start}\n", needs=needs),
        "train.py": data_text(program),
        "plan.json": json_text(settings),
    }
