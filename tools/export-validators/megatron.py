"""
Megatron-LM's own parser: read scripts' arguments with it and build its transformer's description, or list its options.

    python megatron.py pretrain.sh ...        each script's arguments, held against expected.json beside it
    python megatron.py --write FILE.json      option names and choices of the installed release

Triton's kernels are compiled for accelerators and never called here, so that a stand-in takes their place.
"""

import argparse
import importlib.metadata
import itertools
import json
import math
import os
import sys
import typing
import warnings
from pathlib import Path
from unittest.mock import MagicMock

import listing
import recorded

# This file's own name would shadow the package.
sys.path.pop(0)

import torch._inductor.compile_fx  # noqa: F401 - asks whether there is a Triton: before the stand-in
import typing_extensions

warnings.filterwarnings("ignore")
if not hasattr(typing, "override"):  # Python 3.11; the package is written for 3.12
    typing.override = typing_extensions.override
for name in ("triton", "triton.language"):
    sys.modules[name] = MagicMock(__version__="3.4.0")

from megatron.core import parallel_state  # noqa: E402 - behind the stand-in
from megatron.core.transformer import transformer_block  # noqa: E402
from megatron.training import arguments  # noqa: E402

PLANNED = {
    "tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size", "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size", "micro_batch": "micro_batch_size", "global_batch": "global_batch_size",
    "seq_len": "seq_length", "steps": "train_iters", "save_steps": "save_interval", "num_layers": "num_layers",
    "hidden_size": "hidden_size", "num_attention_heads": "num_attention_heads", "ffn_hidden_size": "ffn_hidden_size",
    "rotary_base": "rotary_base",
}  # fmt: skip
"""What the plan decides -> what Megatron-LM calls it once its arguments are read."""
HOPPER = 9
"""Major compute capability that is asked of a device, of which there is none here."""


def parser() -> argparse.ArgumentParser:
    """The parser of Megatron-LM's programs, without the options that one program adds."""
    return arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))


def described(words: list[str]) -> argparse.Namespace:
    """The arguments as the program checks them before its first step, once its transformer's description is built."""
    program = words.index("pretrain_gpt.py")
    parsed = parser().parse_args(words[program + 1 :])
    ranks = (int(words[words.index(name) + 1]) for name in ("--nproc-per-node", "--nnodes") if name in words)
    parsed.world_size, parsed.rank = math.prod(ranks), 1
    arguments.get_device_arch_version = lambda: HOPPER
    checked = arguments.validate_args(parsed)
    checked.apply_rope_fusion = False  # a kernel of Transformer Engine, which needs an accelerator
    built = arguments.core_transformer_config_from_args(checked)
    assert (built.attention_dropout, built.hidden_dropout) == (0.0, 0.0)
    assert sum(layers_by_stage(built)) == built.num_layers
    return checked


def layers_by_stage(built: typing.Any) -> typing.Iterator[int]:
    """Of every stage of the pipeline, those that the program builds there: it refuses stages that do not divide."""
    virtual = built.virtual_pipeline_model_parallel_size
    parallel_state.set_virtual_pipeline_model_parallel_world_size(virtual)
    for stage, rank in itertools.product(range(virtual or 1), range(built.pipeline_model_parallel_size)):
        parallel_state.set_pipeline_model_parallel_rank(rank)
        yield transformer_block.get_num_layers_to_build(built, vp_stage=stage if virtual else None, pp_rank=rank)


def read(path: Path) -> None:
    """Parse a script's arguments, and hold what they mean against the plan."""
    expected = json.loads(path.with_name("expected.json").read_text(encoding="utf-8"))
    expected.setdefault("rotary_base", 500000)
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"], words = recorded.started(
        path, ROTARY=f"--rotary-base {expected['rotary_base']}"
    )
    parsed = described(words)
    wrong = {
        name: (value, getattr(parsed, PLANNED[name]))
        for name, value in expected.items()
        if name in PLANNED and getattr(parsed, PLANNED[name]) != value
    }
    if wrong:
        sys.exit(f"{path}: planned and read differ: {wrong}")
    print(f"ok: {path}: {parsed.num_layers} layers, {len(PLANNED.keys() & expected)} settings as planned")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        version = importlib.metadata.version("megatron-core")
        how = f"megatron.py: megatron.training.arguments of the megatron-core {version} wheel"
        options = dict(sorted(listing.of_parser(parser()).items()))
        listing.write(sys.argv[2], engine="Megatron-LM", version=version, how=how, options=options)
    else:
        for script in sys.argv[1:]:
            read(Path(script))
