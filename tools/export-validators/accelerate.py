"""Read Accelerate's files with Accelerate's own loader, which refuses keys it does not know."""

import sys
from pathlib import Path

# This file's own name would shadow the package.
sys.path.pop(0)

from accelerate.commands.config.config_args import load_config_from_file

for path in sys.argv[1:]:
    read = load_config_from_file(str(Path(path)))
    print(f"ok: {path}: {read.distributed_type} on {read.num_processes}")
