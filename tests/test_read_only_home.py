"""A home that cannot be written costs what would be kept there, said in one sentence, and no answer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

DATA = Path(__file__).parent / "data" / "measure"
FOLDERS = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
NOWHERE = "/proc/nowhere"
"""Not even the superuser makes a folder here."""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="this system has no /proc")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["fit", "meta-llama/Llama-3.1-8B", "-a", "L40S"], 0),
        (["catalog", "offers", "--limit", "3"], 0),
        (["plan", "serve", "meta-llama/Llama-3.1-8B", "--rate", "2/s", "--accelerator", "L40S", "--quick"], 0),
        (["measure", "import", str(DATA / "vllm_bench_0.32.0.json")], 1),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_answers_need_no_home(command: list[str], told: int) -> None:
    environment = {**os.environ, **dict.fromkeys(FOLDERS, NOWHERE)}
    environment.pop("TONNAGE_HISTORY", None)
    done = subprocess.run(
        [sys.executable, "-m", "tonnage", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0 and done.stdout, done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == told, done.stderr
