"""
Rows of the second delivery that came in layouts of their own, as tables of measurements.

    python tools/calibration/delivery.py FOLDER

FOLDER holds `inference_2.csv.gz`, `energy_2.csv.gz` (ml-energy/leaderboard v3), `llamacpp_strix_halo_2.csv.gz`
(llama-bench on a Radeon 8060S) and `rl_2.csv.gz` (NVIDIA NeMo-RL), as delivered. Writes tables of the same names into
`measurements/`: every printed column stays under its printed name, and the columns of measurements/README.md that turn
a row into a case stand beside them.

- *InferenceMAX.* Two collections read the same public runs: a row whose mean TTFT and TPOT are those of a serving row
  is that measurement, and marked as not usable. Fits have seen the others.
- *Energy.* Each line is a run that stands in `inference_2.csv.gz` (block MLE) too: same model, batch limit and
  rate. It takes that row's columns, all but the measured ones, so that no rate is scored twice.
- *llama-bench.* `generation` decodes 128 tokens after a context, `prefill` reads 2,048 tokens after one
  (`cached_tokens`). Unsloth's mixtures (UD-Q4_K_XL, UD-Q8_K_XL) are taken as the nearest listed format; two-bit and
  three-bit ones have none near and are kept as not usable.
- *Reinforcement learning.* One step is rollout, scoring and training together. No case says that yet: not usable.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

OUT = Path(__file__).parents[2] / "measurements"
Line = dict[str, str]

OF_THE_RUN = (
    "model_id", "accelerator_id", "accel_fraction", "num_accel", "num_accel_total", "accel_per_node", "node_links",
    "engine", "engine_version", "weight_precision", "act_precision", "kv_precision", "quant_method", "tp", "pp", "ep",
    "dp", "isl_tokens", "osl_tokens", "length_basis", "length_spread", "concurrency_or_batch", "max_batch", "load",
    "phase", "kind", "params_b", "active_params_b", "usable", "unusable_reason", "source", "year",
)  # fmt: skip
SAME_RATE = 1e-4
"""Relative: the two tables round the same rate differently."""

MODELS = {
    "Qwen3.5-122B-A10B": "Qwen/Qwen3.5-122B-A10B",
    "Qwen3.6-35B-A3B": "Qwen/Qwen3.6-35B-A3B",
    "Qwen3.6-27B": "Qwen/Qwen3.6-27B",
    "gemma-4-26B-A4B": "google/gemma-4-26B-A4B",
    "DeepSeek-V4-Flash": "deepseek-ai/DeepSeek-V4-Flash",
}
FORMATS = {
    "UD-Q4_K_XL": ("gguf-q4_k_m", "nearest: Unsloth's mixture"),
    "UD-Q8_K_XL": ("gguf-q8_0", "nearest: Unsloth's mixture"),
    "Q8_0": ("gguf-q8_0", "stated"),
}


def main() -> int:
    """Write the three tables."""
    folder = Path(sys.argv[1])
    known = [*read(OUT / "serving_silicon.csv.gz"), *read(OUT / "serving_silicon_2.csv.gz")]
    points = once(read(folder / "inference_2.csv.gz"), known)
    write("inference_2", points)
    write("energy_2", energy(read(folder / "energy_2.csv.gz"), points))
    write(
        "llamacpp_strix_halo_2",
        [llama(n, line) for n, line in enumerate(read(folder / "llamacpp_strix_halo_2.csv.gz"), 1)],
    )
    write("rl_2", [reinforcement(n, line) for n, line in enumerate(read(folder / "rl_2.csv.gz"), 1)])
    return 0


def once(lines: Sequence[Line], known: Iterable[Line]) -> list[Line]:
    """The same lines; those of InferenceMAX that repeat a usable serving row are not usable, and say which it is."""
    seen = {
        (float(line["silicon_ttft_ms"]), float(line["silicon_tpot_ms"])): line["id"]
        for line in known
        if line["usable"] == "1" and line["silicon_ttft_ms"] and line["silicon_tpot_ms"]
    }
    return [_marked(line, seen) if line["block"] == "IMAX" and line["usable"] == "1" else line for line in lines]


def _marked(line: Line, seen: Mapping[tuple[float, float], str]) -> Line:
    mean = float(line["ttft_mean_ms"]), float(line["tpot_mean_ms"])
    same = next((id_ for said, id_ in seen.items() if _rounded(said, mean)), "")
    return {**line, "usable": "0", "unusable_reason": f"same measurement as {same}"} if same else line


def _rounded(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two pairs are the same but for what a table rounds away: 1 us of the one and 0.1 us of the other."""
    return abs(one[0] - other[0]) < 2e-3 and abs(one[1] - other[1]) < 2e-4


def energy(lines: Sequence[Line], points: Iterable[Line]) -> list[Line]:
    """Each line of energy with the columns of its run."""
    runs = [point for point in points if point["block"] == "MLE"]
    found = []
    for place, line in enumerate(lines, 1):
        rate = float(line["output_throughput_tokens_per_sec"])
        of = [
            run
            for run in runs
            if run["model"] == line["model_id"]
            and run["max_batch"] == line["max_num_seqs"]
            and abs(float(run["output_tokens_per_s_total"]) / rate - 1) < SAME_RATE
        ]
        if len(of) != 1:
            raise SystemExit(f"line {place}: {len(of)} runs of {line['model_id']} at {rate:g} tokens/s")
        printed = {name: value for name, value in line.items() if name != "model_id"}
        taken = {name: of[0].get(name, "") for name in OF_THE_RUN}
        found.append(
            {
                "id": f"MLEN-{place:04}",
                "block": "MLEN",
                "run_id": of[0]["id"],
                "model": line["model_id"],
                **taken,
                **printed,
            }
        )
    return found


def llama(place: int, line: Line) -> Line:
    """A line of llama-bench: a decode after a context, or a prompt after one."""
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", line["model"])
    name = next(name for name in MODELS if stem.startswith(name))
    mixture = next((mixture for mixture in FORMATS if stem.endswith(mixture)), "")
    fmt, basis = FORMATS.get(mixture, ("", ""))
    prompt = line["series"] == "prefill"
    depth, tokens, rate = int(line["starting_depth"]), int(line["n_prompt"] or 0), float(line["avg_ts"])
    return {
        "id": f"STRIX-{place:04}",
        "block": "STRIX",
        "model_id": MODELS[name],
        "kind": "llm",
        "year": "2026",
        "accelerator_id": "radeon-8060s",
        "num_accel": "1",
        "accel_fraction": "1",
        "node_links": "none",
        "engine": "llamacpp",
        "engine_version": line["build_commit"],
        "engine_mode": line["toolbox"],
        "weight_precision": fmt,
        "precision_basis": basis,
        "act_precision": "fp16",
        "kv_precision": "fp16",
        "quant_method": "gguf",
        "load": "single_stream",
        "concurrency_or_batch": "1",
        "length_spread": "1.0",
        "length_basis": "stated",
        "phase": "prefill" if prompt else "decode",
        "isl_tokens": str(depth + tokens) if prompt else str(depth),
        "osl_tokens": "1" if prompt else line["n_gen"],
        "cached_tokens": str(depth) if prompt else "",
        "ttft_mean_ms": f"{tokens / rate * 1e3:.7g}" if prompt else "",
        "tpot_mean_ms": "" if prompt else f"{1e3 / rate:.7g}",
        "usable": "1" if fmt else "0",
        "unusable_reason": "" if fmt else "weight format not listed: two or three bits",
        **line,
    }


def reinforcement(place: int, line: Line) -> Line:
    """A step of reinforcement learning as printed, beside the columns that name the part and the step."""
    return {
        "id": f"NEMORL-{place:02}",
        "block": "NEMORL",
        "accelerator_id": "h100-sxm5-80gb",
        "kind": "llm",
        "method": "rl",
        "num_accel": line["gpus"],
        "engine": "nemo-rl",
        "year": "2026",
        "usable": "0",
        "unusable_reason": "reinforcement learning: rollout and training in one step, no case says that yet",
        "step_time_s_eff": line["step_time_s"],
        "act_precision": "fp8" if "FP8" in line["system"] else "bf16",
        **line,
    }


def read(path: Path) -> list[Line]:
    """Lines of a table."""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, lines: Sequence[Line]) -> None:
    """A table with columns in order of appearance, those that are empty throughout left away."""
    columns = [
        name for name in dict.fromkeys(name for line in lines for name in line) if any(line.get(name) for line in lines)
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    with (
        (OUT / f"{name}.csv.gz").open("wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed,
    ):
        packed.write(text.getvalue().encode())
    print(f"{name}: {len(lines)} rows, {sum(line['usable'] == '1' for line in lines)} usable")


if __name__ == "__main__":
    sys.exit(main())
