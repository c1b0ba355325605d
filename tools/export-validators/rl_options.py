"""
Does every option that an exported file of reinforcement learning names exist in its target's release?

    python tools/export-validators/rl_options.py FILES WHEELS

FILES is a folder of exported files (verl.sh, trl.yaml, nemo_rl.yaml, openrlhf.sh), WHEELS one with the unpacked wheels
of verl, trl, transformers and openrlhf in folders of their names, and NeMo-RL's nemo_rl/grpo_math_1B.yaml where it is
there. Nothing is imported: the options of verl are its generated configurations with those of its one-step-off-policy
trainer, those of TRL the fields of its dataclasses and those of OpenRLHF the arguments of its program, read from their
source. Exit code 1 names what is not known.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from training_options import declared


def keys(tree: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every key of a mapping with its path, inner mappings too."""
    for name, value in tree.items():
        yield path + name
        if isinstance(value, dict):
            yield from keys(value, f"{path}{name}.")


def fields(source: Path) -> set[str]:
    """Names annotated in the classes of a module."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {
        line.target.id
        for node in classes
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }


def unknown_verl(text: str, wheels: Path) -> set[str]:
    config = wheels / "verl" / "verl" / "trainer" / "config"
    kind = "ppo_megatron_trainer" if "megatron_trainer" in text else "ppo_trainer"
    known = set(keys(yaml.safe_load((config / f"_generated_{kind}.yaml").read_text(encoding="utf-8"))))
    if "one_step_off" in text:
        folder = wheels / "verl" / "verl" / "experimental" / "one_step_off_policy" / "config"
        known |= set(keys(yaml.safe_load((folder / f"one_step_off_{kind}.yaml").read_text(encoding="utf-8"))))
    return set(re.findall(r"^  '?([a-z_][\w.]*)=", text, re.MULTILINE)) - known


def unknown_trl(text: str, wheels: Path) -> set[str]:
    trainer = wheels / "trl" / "trl" / "trainer"
    sources = (
        trainer / "grpo_config.py",
        trainer / "base_config.py",
        trainer / "model_config.py",
        wheels / "transformers" / "transformers" / "training_args.py",
    )
    return set(yaml.safe_load(text)) - {name for source in sources for name in fields(source)}


def unknown_nemo_rl(text: str, wheels: Path) -> set[str]:
    base = wheels / "nemo_rl" / "grpo_math_1B.yaml"
    if not base.exists():
        print("nemo_rl.yaml: no grpo_math_1B.yaml to check it with")
        return set()
    known = set(keys(yaml.safe_load(base.read_text(encoding="utf-8"))))
    return set(keys(yaml.safe_load(text))) - known - {"defaults"}


def unknown_openrlhf(text: str, wheels: Path) -> set[str]:
    known = declared(next((wheels / "openrlhf").rglob("openrlhf/cli/train_ppo_ray.py")))
    return set(re.findall(r"^  (--[a-z_][\w.]*)", text, re.MULTILINE)) - set(known)


CHECKS = {
    "verl.sh": unknown_verl,
    "trl.yaml": unknown_trl,
    "nemo_rl.yaml": unknown_nemo_rl,
    "openrlhf.sh": unknown_openrlhf,
}


def main(files: str, wheels: str) -> int:
    wrong = 0
    for path in sorted(Path(files).iterdir()):
        if path.name in CHECKS:
            unknown = CHECKS[path.name](path.read_text(encoding="utf-8"), Path(wheels))
            wrong += len(unknown)
            print(f"{path.name}: {'unknown: ' + ', '.join(sorted(unknown)) if unknown else 'every option is known'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
