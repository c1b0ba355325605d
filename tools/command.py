"""What `tonnage` prints in a process of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Container, Mapping


def printed(*words: str, env: Mapping[str, str], codes: Container[int] = (0,)) -> str:
    """
    Standard output of a command, in an environment beside the own one.

    Raises
    ------
    SystemExit
        It ended with another exit code.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tonnage", *words],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode not in codes:
        sys.exit(f"tonnage {shlex.join(words)}: {done.stderr.strip() or done.stdout}")
    return done.stdout
