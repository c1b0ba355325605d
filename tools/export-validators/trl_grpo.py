"""Read TRL's configurations of GRPO with its own parser and argument classes, which check batches and generations."""

import sys
from pathlib import Path

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

from trl import GRPOConfig, ModelConfig, TrlParser
from trl.scripts.grpo import GRPOScriptArguments

for path in map(Path, sys.argv[1:]):
    # Of a processor, as there is nothing else here: its checks of a number format ask for an accelerator.
    _, read, _ = TrlParser((GRPOScriptArguments, GRPOConfig, ModelConfig)).parse_args_and_config(
        ["--config", str(path), "--use_cpu"], fail_with_unknown_args=True
    )
    print(f"ok: {path}: {read.loss_type}, {read.num_generations} answers a prompt, {read.generation_batch_size} a step")
