"""
Megatron-LM's own parser: read scripts' arguments with it and build its transformer's description, or list its options.

    python megatron.py pretrain.sh ...        each script's arguments, held against expected.json beside it
    python megatron.py --write FILE.json      option names and choices of the installed release

Triton's kernels are compiled for accelerators and never called here, so that a stand-in takes their place.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import typing
import warnings
from pathlib import Path
from unittest.mock import MagicMock

import listing

# This file's own name would shadow the package.
sys.path.pop(0)

import torch._inductor.compile_fx  # noqa: F401 - asks whether there is a Triton: before the stand-in
import typing_extensions

warnings.filterwarnings("ignore")
if not hasattr(typing, "override"):  # Python 3.11; the package is written for 3.12
    typing.override = typing_extensions.override
for name in ("triton", "triton.language"):
    sys.modules[name] = MagicMock(__version__="3.4.0")

from megatron.training import arguments  # noqa: E402 - behind the stand-in

PLANNED = {
    "tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size", "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size", "micro_batch": "micro_batch_size", "global_batch": "global_batch_size",
    "seq_len": "seq_length", "steps": "train_iters", "save_steps": "save_interval", "num_layers": "num_layers",
    "hidden_size": "hidden_size", "num_attention_heads": "num_attention_heads", "ffn_hidden_size": "ffn_hidden_size",
    "rotary_base": "rotary_base",
}  # fmt: skip
"""What the plan decides -> what Megatron-LM calls it once its arguments are read."""
RECORDER = '#!/bin/bash\nprintf "%s\\0" "$@"\n'


def parser() -> argparse.ArgumentParser:
    """The parser of Megatron-LM's programs, without the options that one program adds."""
    return arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))


def started(path: Path, rotary: str) -> list[str]:
    """The words that the script starts Megatron-LM's program with, from a run of it with a launcher that prints."""
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(folder) / "torchrun"
        tool.write_text(RECORDER, encoding="utf-8")
        tool.chmod(0o755)
        given = {"DATA": "/data/text", "TOKENIZER": "a/b", "CHECKPOINTS": "/out", "WEIGHTS": "/in", "ROTARY": rotary}
        env = {"PATH": f"{folder}:{os.environ['PATH']}", "LEADER_ADDRESS": "h", "NODE_RANK": "0", **given}
        done = subprocess.run(
            ["bash", str(path.resolve())], env=env, cwd=folder, capture_output=True, text=True, check=True
        )
    words = done.stdout.split("\0")[:-1]
    return words[words.index("pretrain_gpt.py") + 1 :]


def read(path: Path) -> None:
    """Parse a script's arguments, and hold what they mean against the plan."""
    expected = json.loads(path.with_name("expected.json").read_text(encoding="utf-8"))
    expected.setdefault("rotary_base", 500000)
    parsed = parser().parse_args(started(path, f"--rotary-base {expected['rotary_base']}"))
    wrong = {
        name: (value, getattr(parsed, PLANNED[name]))
        for name, value in expected.items()
        if name in PLANNED and getattr(parsed, PLANNED[name]) != value
    }
    if wrong:
        sys.exit(f"{path}: planned and read differ: {wrong}")
    print(f"ok: {path}: {parsed.num_layers} layers, {len(PLANNED.keys() & expected)} settings as planned")


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        version = importlib.metadata.version("megatron-core")
        how = f"megatron.py: megatron.training.arguments of the megatron-core {version} wheel"
        options = dict(sorted(listing.of_parser(parser()).items()))
        listing.write(sys.argv[2], engine="Megatron-LM", version=version, how=how, options=options)
    else:
        for script in sys.argv[1:]:
            read(Path(script))
