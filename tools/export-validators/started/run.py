"""
Start an exported training run on processor cores, and hold what ran against the plan.

    python started/run.py TARGET LAUNCH.SH ...        torchrun, accelerate, deepspeed or trl

A tiny model, its tokenizer and its data lie where the files look for theirs. Only what a machine without accelerators
cannot do is replaced: `--use_cpu` and the attention that runs there, for TRL.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tiny

HERE = Path(__file__).resolve().parent
SHARDED = {"zero1": True, "zero2": True, "zero3": True, "fsdp": True, "hsdp": True, "none": False}
RESHARDS = ("zero3", "fsdp", "hsdp")
STAGES = {"zero1": 1, "zero2": 2, "zero3": 3}
SHAPE = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size", "rotary_base")
LOOP = ("micro_batch", "accumulation", "seq_len", "steps", "dp")
LIMIT_S = 600


def start(folder: Path, *more: str, **env: str) -> str:
    """Run launch.sh in `folder` as a node would; what it printed."""
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "WANDB_DISABLED": "true"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = {"PATH": path, "PYTHONPATH": str(HERE), "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu", **quiet, **env}
    done = subprocess.run(
        ["bash", "launch.sh", *more],
        cwd=folder,
        env={**os.environ, **told},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if done.returncode:
        sys.exit(f"{folder.name}: launch.sh ended with {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def by_script(target: str, folder: Path, expected: dict) -> tuple[dict, dict]:
    """What our training script saw on every rank, and what it should have seen."""
    shutil.copy(HERE / "train.py", folder)
    start(folder, READER=target, SCRIPT="train.py")
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("seen-*.json"))]
    if len(ranks) != expected["count"] or any(rank != ranks[0] for rank in ranks):
        sys.exit(f"{folder.name}: {len(ranks)} ranks of {expected['count']} ran, or they differ: {ranks}")
    sharding, recomputes = expected["sharding"], expected["recompute"] != "none"
    wanted = {name: expected[name] for name in (*SHAPE, *LOOP)} | {"computes_in": "bfloat16"}
    if target == "torchrun":
        wanted |= {"sharded_to": expected["dp"], "reshards": sharding in RESHARDS, "runs_of_a_block": 1 + recomputes}
        wanted["sharded_modules"] = expected["num_layers"] + 1
    if target == "accelerate":
        wanted |= {"fsdp": SHARDED[sharding], "fsdp_version": 2, "recomputes": recomputes, "precision": "bf16"}
        wanted["reshards"] = sharding in RESHARDS
    if target == "deepspeed":
        wanted |= {"stage": STAGES[sharding], "global_batch": expected["global_batch"], "precision": "bf16"}
        wanted["runs_of_a_block"] = 1 + recomputes
    return ranks[0], wanted


def by_trl(folder: Path, expected: dict) -> tuple[dict, dict]:
    """TRL's own checkpoints: a run that is cut after half its steps and started again, as after an interruption."""
    cpu = ("--use_cpu", "--attn_implementation", "sdpa")
    half = expected["steps"] // 2
    start(folder, *cpu, "--max_steps", str(half))
    start(folder, *cpu)
    (output,) = folder.glob("tiny-*")
    kept = sorted(int(path.name.rpartition("-")[2]) for path in output.glob("checkpoint-*"))
    last = output / f"checkpoint-{expected['steps']}"
    state = json.loads((last / "trainer_state.json").read_text(encoding="utf-8"))
    steps = [row for row in state["log_history"] if "num_tokens" in row]
    config = json.loads((folder / "tonnage" / "tiny" / "config.json").read_text(encoding="utf-8"))
    arguments = arguments_of(last / "training_args.bin")
    found = {
        **tiny.shape_of(config),
        **arguments,
        "steps": state["global_step"],
        "checkpoints": kept,
        "tokens_of_a_step": steps[-1]["num_tokens"] - steps[-2]["num_tokens"],
        "steps_after_the_restart": [row["step"] for row in steps if row["step"] > half],
    }
    wanted = {name: expected[name] for name in (*SHAPE, "micro_batch", "accumulation", "seq_len", "steps")} | {
        "tokens_of_a_step": expected["global_batch"] * expected["seq_len"],
        "checkpoints": list(range(expected["save_steps"], expected["steps"] + 1, expected["save_steps"])),
        "steps_after_the_restart": list(range(half + 1, expected["steps"] + 1)),
    }
    if expected["method"] == "lora":
        adapter = json.loads((last / "adapter_config.json").read_text(encoding="utf-8"))
        found["lora_rank"] = adapter["r"]
        wanted["lora_rank"] = expected["lora_rank"]
    else:
        found |= tiny.shape_of(json.loads((last / "config.json").read_text(encoding="utf-8")))
    return found, wanted


def arguments_of(path: Path) -> dict:
    """The arguments that the trainer kept beside its checkpoint, by the plan's names."""
    import torch

    kept = torch.load(path, weights_only=False)
    return {
        "micro_batch": kept.per_device_train_batch_size,
        "accumulation": kept.gradient_accumulation_steps,
        "seq_len": kept.max_length,
    }


def main(target: str, scripts: list[str]) -> None:
    """Each script in a folder of its own."""
    for script in map(Path, scripts):
        expected = json.loads(script.with_name("expected.json").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / script.parent.name
            shutil.copytree(script.parent, folder)
            tiny.write(folder, expected)
            found, wanted = by_trl(folder, expected) if target == "trl" else by_script(target, folder, expected)
        wrong = {name: (value, found.get(name)) for name, value in wanted.items() if found.get(name) != value}
        if wrong:
            sys.exit(f"{script}: planned and run differ: {wrong}")
        print(f"ok: {script}: {found['steps']} steps ran, {len(wanted)} settings as planned", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
