"""Write the kept exported files of every case into a folder: what the validators read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import yaml
from tests.export.plans import CASES, plan
from tests.export.train_plans import SIXTEEN, TRAIN_CASES, train_plan

from tonnage.domain.train_plan import TrainPlan
from tonnage.export import export
from tonnage.export.job import job

ORCHESTRATED = {
    f"train-{target}": (target, {**SIXTEEN, "sharding": "hsdp", "term": "spot"})
    for target in ("skypilot", "jobset", "slurm")
}
"""A run over two nodes, carried by each orchestrator of training."""


def main(folder: Path) -> None:
    """One folder per case."""
    training = {**TRAIN_CASES, **ORCHESTRATED}
    cases = [(plan, case) for case in CASES.items()] + [(train_plan, case) for case in training.items()]
    for make, (case, (target, changes)) in cases:
        made = make(**changes)
        for name, text in export(made, made.options[0], to=target).items():
            path = folder / case / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if "kind: LeaderWorkerSet" in text:
                _apart(path, text)
        if isinstance(made, TrainPlan):
            (folder / case / "expected.json").write_text(json.dumps(_expected(made)), encoding="utf-8")


def _expected(plan: TrainPlan) -> dict[str, Any]:
    """What the plan decided, for parsers that do not know Tonnage to hold their reading against."""
    made = job(plan, plan.options[0])
    layout = {name: getattr(made.layout, name) for name in ("tp", "pp", "cp", "ep", "dp", "sharding")}
    run = {"steps": made.steps, "save_steps": made.checkpoint_steps, "seq_len": made.seq_len}
    batch = {"micro_batch": made.micro_batch, "accumulation": made.accumulation, "global_batch": made.global_batch}
    return {**layout, **run, **batch, **made.shape, "method": made.method, "optimizer": made.optimizer}


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
    main(Path(sys.argv[1]))
