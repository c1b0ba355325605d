"""Read the ZeRO part of DeepSpeed's files with DeepSpeed's own model of it, and check the batch arithmetic."""

import json
import sys
from pathlib import Path

# This file's own name would shadow the package.
sys.path.pop(0)

from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

for path in sys.argv[1:]:
    written = json.loads(Path(path).read_text(encoding="utf-8"))
    zero = DeepSpeedZeroConfig(**written["zero_optimization"])
    each = written["train_micro_batch_size_per_gpu"] * written["gradient_accumulation_steps"]
    assert written["train_batch_size"] % each == 0, path
    print(f"ok: {path}: stage {int(zero.stage)}, {written['train_batch_size'] // each} ranks")
