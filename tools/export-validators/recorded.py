"""What a script starts its launcher with, from a run of it with one that prints."""

import os
import subprocess
import tempfile
from pathlib import Path

RECORDER = '#!/bin/bash\nprintf "%s\\0" "$CUDA_DEVICE_MAX_CONNECTIONS" "$@"\n'
GIVEN = {"DATA": "/data/text", "TOKENIZER": "a/b", "ASSETS": "/in", "CHECKPOINTS": "/out", "WEIGHTS": "/in"}


def started(path: Path, **more: str) -> tuple[str, list[str]]:
    """Its CUDA_DEVICE_MAX_CONNECTIONS and the arguments of torchrun, as on the first node."""
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(folder) / "torchrun"
        tool.write_text(RECORDER, encoding="utf-8")
        tool.chmod(0o755)
        env = {"PATH": f"{folder}:{os.environ['PATH']}", "LEADER_ADDRESS": "h", "NODE_RANK": "0", **GIVEN, **more}
        done = subprocess.run(
            ["bash", str(path.resolve())], env=env, cwd=folder, capture_output=True, text=True, check=True
        )
    connections, *words = done.stdout.split("\0")[:-1]
    return connections, words
