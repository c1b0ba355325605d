"""
Write exported files into a folder: what the validators read.

Those of every case that the golden tests keep, of the first option of every example's plan, and of plans that are drawn
from the models people serve, loads, parts and engines (a draw that nothing fits gives way to the next one). Drawn plans
are kept with those of `make startable`; `--again` plans anew. `--examples` writes the training examples alone, each of
their first ten options.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import yaml
from tests.export.plans import CASES, SIXTEEN, TRAIN_CASES, exported, plan, train_plan
from tests.export.test_batch import planned
from tests.export.test_rl import planned as reinforced
from tools import startable

from tonnage import export
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.export.job import job
from tonnage.questions.ask import plan_of_text
from tonnage.questions.launchable import launchable_option

ORCHESTRATED: Final = {
    f"train-{target}": (target, {**SIXTEEN, "sharding": "hsdp", "term": "spot"})
    for target in ("skypilot", "jobset", "slurm")
}
"""A run over two nodes, carried by each orchestrator of training."""
TINY: Final = {
    "num_layers": 3,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "group_query_attention": True,
    "num_query_groups": 2,
    "ffn_hidden_size": 96,
    "swiglu": True,
}
"""A decoder that trains on two processor cores within seconds."""
TWO: Final = {"count": 2, "dp": 2, "accelerators_per_instance": 2}
SMALL: Final = {"shape": TINY, "seq_len": 64, "micro_batch": 2, "num_micro_batches": 3}
STARTED: Final = {
    "run-torchrun": ("torchrun", {**SMALL, **TWO, "sharding": "fsdp"}),
    "run-torchrun-zero2": ("torchrun", {**SMALL, **TWO, "sharding": "zero2", "recompute": "none"}),
    "run-accelerate": ("accelerate", {**SMALL, **TWO, "sharding": "fsdp"}),
    "run-deepspeed": ("deepspeed", {**SMALL, **TWO, "sharding": "zero2"}),
    "run-deepspeed-zero3": ("deepspeed", {**SMALL, **TWO, "sharding": "zero3", "recompute": "none"}),
    "run-trl-full": ("trl", {**SMALL, **TWO, "sharding": "fsdp"}),
    "run-trl-lora": ("trl", {**SMALL, "method": "lora", "count": 1, "dp": 1, "sharding": "none"}),
    "run-axolotl-lora": ("axolotl", {**SMALL, "method": "lora", "count": 1, "dp": 1, "sharding": "none"}),
}
"""Plans small enough to be started: case -> target and changes."""
ROTARY_BASE: Final = 250_000.0
SERVED: Final = {
    "max_model_len": 128,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 256,
    "memory_fraction": 0.2,
    "block_tokens": 32,
    "tp": 1,
    "weights": "bf16",
    "kv": "bf16",
    "activations": "bf16",
    "replicas": 1,
}
"""A replica that a processor serves: vLLM's attention there takes blocks of 32 tokens and their multiples."""
SERVED_SHAPE: Final = {**TINY, "hidden_size": 256}
"""Its model: the attention there is not built for heads of 16."""
AWS: Final = {"provider": "aws", "instance_type": "p5.48xlarge", "region": "us-east-1"}
AZURE: Final = {"provider": "azure", "instance_type": "ND96isr_H100_v5", "region": "eastus"}
NODES: Final = {
    f"{target}-{name}-{term}": (target, {**where, "term": term})
    for target in ("terraform", "budget")
    for name, where in {"gcp": {}, "aws": AWS, "azure": AZURE}.items()
    for term in ("on-demand", "spot")
}
"""Node groups and budgets of each provider."""
SEED: Final = 39
COUNT: Final = {"serve": 30, "finetune": 8, "train": 2}
"""Plans that are drawn, by their kind."""
APART: Final = {"staleness": "1", "rollout_count": "8"}
REINFORCED: Final[dict[str, dict[str, str]]] = {
    "": {},
    "-apart": APART,
    "-fsdp": {"framework": "fsdp"},
    "-deepspeed": {"framework": "deepspeed", **APART},
}
"""Where answers are generated and what trains on them, by the end of a plan's name."""
ENGINES: Final = ("vllm", "sglang", "trtllm", "llamacpp")
PARTS: Final = (
    "T4", "A10G", "A100 80GB", "L4", "L40S", "H100", "H100 NVL", "H200", "GH200", "B200", "B300", "RTX PRO 6000",
    "RTX 4090", "RTX 5090", "MI300X",
)  # fmt: skip
"""That are rented by the hour."""


def main(folder: Path, *, again: bool) -> None:
    """One folder per case, and per target of every plan."""
    training = {**TRAIN_CASES, **ORCHESTRATED}
    cases = [(plan, case) for case in {**CASES, **NODES}.items()] + [(train_plan, case) for case in training.items()]
    cases += [(_small_plan, case) for case in STARTED.items()]
    cases += [(_served_plan, ("run-vllm", ("vllm", SERVED)))]
    for make, (case, (target, changes)) in cases:
        made = make(**changes)
        for name, text in exported(made, target).items():
            _put(folder / case / name, text)
        expected = {**SERVED_SHAPE, "seq_len": 64, "rotary_base": ROTARY_BASE}
        if made["kind"] != "serve":
            expected = _expected(*launchable_option(plan_of_text(json.dumps(made), "the case")))
        _put(folder / case / "expected.json", json.dumps(expected))
    plans = {**dict(startable.example_plans(again=again)), **dict(drawn(again=again)), **dict(_reinforced())}
    _write_plans(folder, plans)
    _requests(folder / "requests")
    for name, text in exported(planned(), "ray-data").items():
        (folder / "run-ray-data").mkdir(exist_ok=True)
        (folder / "run-ray-data" / name).write_text(text, encoding="utf-8")


def _write_plans(folder: Path, plans: dict[str, Any], *, options: int = 1) -> None:
    """The files of each plan's first options for every target that can start them."""
    ranked = [(name, found, rank) for name, found in plans.items() for rank, _ in enumerate(found.options[:options], 1)]
    for name, found, rank in ranked:
        launched, option = launchable_option(found, rank=rank)
        called = f"{name}-{rank}" if rank > 1 else name
        for target in (ready := export.offered(launched, option).ready):
            for file, text in export.export(launched, option, to=target).items():
                _put(folder / f"{target}-{called}" / file, text)
            if isinstance(launched, TrainPlan):
                _put(folder / f"{target}-{called}" / "expected.json", json.dumps(_expected(launched, option)))
        print(f"{called}: {option.configuration.label()}: {', '.join(ready)}", flush=True)
    print(f"{len(plans)} plans")


def drawn(*, again: bool) -> Iterator[tuple[str, Any]]:
    """Plans that have an option, the same whenever they are drawn from the same lists, with a name each."""
    chance = random.Random(SEED)
    for kind, count in COUNT.items():
        found = 0
        while found < count:
            model, part, rank = chance.choice(startable.MODELS), chance.choice(PARTS), chance.randrange(1 << 16)
            words = ["--accelerator", part]
            if kind == "serve":
                load, engine = chance.choice(list(startable.LOADS)), chance.choice(ENGINES)
                asked = startable.LOADS[load]
                words += [word for name, value in asked.items() for word in (f"--{name}", value)]
                words += ["--engine", engine, "--quick"]
            elif kind == "finetune":
                words += ["--method", chance.choice(("lora", "qlora", "full")), "--tokens", "20M"]
            else:
                words += ["--tokens", "10B"]
            name = f"drawn-{kind}-{rank:04x}"
            made = startable.planned(name, kind, model, *words, again=again)
            if made is not None and made.options:
                found += 1
                yield name, made


def _reinforced() -> Iterator[tuple[str, Any]]:
    """A plan of each algorithm of reinforcement learning, with answers on the trainer's accelerators and apart."""
    for algorithm, (name, changes) in itertools.product(("grpo", "dapo", "ppo", "rloo"), REINFORCED.items()):
        made = reinforced(algorithm=algorithm, **changes)
        yield f"{algorithm}{name}", plan_of_text(json.dumps(made), algorithm)


def _small_plan(**changes: Any) -> Any:
    """Four steps of a tiny model whose weights lie beside the files, with a checkpoint every second step."""
    made = train_plan("tonnage/tiny", **changes)
    made["model"]["rotary_base"] = ROTARY_BASE
    (option,) = made["options"]
    option["run"] |= {"steps": 4, "checkpoint_interval_s": 2 * option["step_s"]["value"]}
    return made


def _served_plan(**changes: Any) -> Any:
    """A server of the tiny model."""
    return plan("tonnage/tiny", **changes)


def _put(path: Path, text: str) -> None:
    """One file, and beside it what validators read of it alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if "kind: LeaderWorkerSet" in text:
        _apart(path, text)
    if "kind: JobSet" in text:
        _job_apart(path, text)


def _expected(plan: Any, option: Any) -> dict[str, Any]:
    """What the plan decided, for parsers that do not know Tonnage to hold their reading against."""
    assert isinstance(plan, TrainPlan) and isinstance(option, TrainOption)
    made = job(plan, option)
    layout = {name: getattr(made.layout, name) for name in ("tp", "pp", "cp", "ep", "dp", "sharding")}
    run = {"steps": made.steps, "save_steps": made.checkpoint_steps, "seq_len": made.seq_len}
    batch = {"micro_batch": made.micro_batch, "accumulation": made.accumulation, "global_batch": made.global_batch}
    more = {"count": made.count, "precision": made.precision, "recompute": made.recompute, "lora_rank": made.rank}
    base = {"rotary_base": made.rotary_base} if made.rotary_base else {}
    return {**layout, **run, **batch, **made.shape, **base, **more, "method": made.method, "optimizer": made.optimizer}


def _job_apart(path: Path, text: str) -> None:
    """The Job that a JobSet makes, as a plain one, with what lies beside it: kubernetes-validate knows these only."""
    work, *rest = yaml.safe_load_all(text)
    (first,) = work["spec"]["replicatedJobs"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": first["name"]}, **first["template"]}
    (path.parent / "job").mkdir(exist_ok=True)
    (path.parent / "job" / "job.yaml").write_text(yaml.safe_dump_all([job, *rest]), encoding="utf-8")


def _requests(folder: Path) -> None:
    """The examples that are requests for plans."""
    folder.mkdir()
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if any(line.startswith("plan:") for line in text.splitlines()):
            (folder / path.name).write_text(text, encoding="utf-8")


def _apart(path: Path, text: str) -> None:
    """A LeaderWorkerSet alone, and its pods as plain ones: kubernetes-validate knows the second kind only."""
    documents = list(yaml.safe_load_all(text))
    (work,) = [document for document in documents if document["kind"] == "LeaderWorkerSet"]
    path.with_name("leaderworkerset.yaml").write_text(yaml.safe_dump(work), encoding="utf-8")
    template = work["spec"]["leaderWorkerTemplate"]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role}, "spec": template[f"{role}Template"]["spec"]}
        for role in ("leader", "worker")
    ]
    path.with_name("pods.yaml").write_text(yaml.safe_dump_all(pods), encoding="utf-8")
    rest = [document for document in documents if document is not work]
    path.write_text(yaml.safe_dump_all(rest), encoding="utf-8")


if __name__ == "__main__":
    into, anew = Path(sys.argv[1]), "--again" in sys.argv
    if "--examples" in sys.argv:
        asked = dict(startable.example_plans(again=anew, kinds=("train", "finetune", "rl")))
        _write_plans(into, asked, options=startable.FIRST)
    else:
        main(into, again=anew)
