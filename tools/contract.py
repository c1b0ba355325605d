"""
The HTTP API against the document that it publishes, by schemathesis: every route, every check, every phase.

    python -m tools.contract [--max-examples 20] [any option of `st run`]

Starts a server of its own and ends with schemathesis' exit status. A body or a field of every wrong kind is ten
thousand requests: about ten minutes of a quiet core, so this is a target of its own and the suite takes a sample
(`tests/web/test_contract.py`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.attack.server import served

CONFIG = Path(__file__).with_suffix(".toml")
TIME_LIMIT = "20 min"
"""Of a question: on a busy machine a search takes longer than the usual minute, which is no fault of the contract."""
USUAL = ("--max-examples", "20", "--request-timeout", "1200", "--generation-deterministic", "--continue-on-failure")


def main() -> int:
    """The exit status of schemathesis."""
    program = Path(sys.executable).parent / "st"
    if not program.exists():
        sys.exit("schemathesis is not installed here; the dev extra brings it")
    with served("--time-limit", TIME_LIMIT) as server:
        command = [program, "--config-file", CONFIG, "run", f"{server.address}/openapi.json", *USUAL, *sys.argv[1:]]
        return subprocess.run(list(map(str, command)), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
