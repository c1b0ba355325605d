"""Does a log larger than memory fit through? Peak memory of the command on a long log and on its numbers alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tools.benchmarks.measuring import Row, child

REQUESTS = 50_000
TEXT = "x" * 4_000
"""What a log keeps beside the numbers: 200 MB in all. It is read line by line: 10 GB differ in time only."""
CASE = "model: meta-llama/Llama-3.1-8B-Instruct\naccelerator: H100\ntraffic:\n  trace: {log}\n"


def streaming() -> list[Row]:
    """Peak memory of `tonnage simulate` on 200 MB of log beyond that on the same requests without their texts."""
    with tempfile.TemporaryDirectory() as folder:
        peaks = []
        for name, text in (("numbers", ""), ("whole", TEXT)):
            log, case = Path(folder, f"{name}.jsonl"), Path(folder, f"{name}.yaml")
            with log.open("w", encoding="utf-8") as file:
                for i in range(REQUESTS):
                    usage = {"prompt_tokens": 500, "completion_tokens": 100}
                    file.write(json.dumps({"created": i / 5.0, "text": text, "usage": usage}) + "\n")
            case.write_text(CASE.format(log=log), encoding="utf-8")
            run = child(["simulate", str(case)])
            if run.code:
                raise SystemExit(f"tonnage simulate ended with code {run.code}")
            peaks.append(run.peak_bytes)
    return [Row("simulate a log of 200 MB: memory beyond its numbers", (peaks[1] - peaks[0]) / 2**20, "MiB", 20.0)]
