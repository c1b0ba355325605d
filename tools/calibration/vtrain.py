"""Rows of vTrain's published iteration times in the layout of measurements/training.csv.gz.

    python tools/calibration/vtrain.py ground_truth_single.csv ground_truth_multi.csv

Reads VIA-Research/vTrain `data/ground_truth_single.csv` and `data/ground_truth_multi.csv` (MIT) and writes
measurements/outside/vtrain.csv.gz: measured Megatron-LM steps on 2 to 512 A100. They teach nothing: no fit reads that
folder, so they say how a fit does on a source it never met. The tables state neither recomputation nor vocabulary;
every layer recomputed and GPT-2's 51,200 are taken, as Megatron-LM's scripts of that year have them.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Iterator
from pathlib import Path

OUT = Path(__file__).parents[2] / "measurements" / "outside" / "vtrain.csv.gz"
SOURCE = "VIA-Research/vTrain data/ground_truth_{}.csv (MIT; arXiv 2312.12391)"
NODE = 8
COLUMNS = {
    "num_accel": "# GPUs", "global_batch": "global batch", "micro_batch": "micro batch", "hidden": "hidden size",
    "heads": "attention heads", "layers": "# layers", "seq_len": "sequence length", "tp": "tensor parallelism",
    "dp": "data parallelism", "pp": "pipeline parallelism",
}  # fmt: skip
FIXED = {
    "year": "2022", "kind": "llm", "method": "pretrain", "vocab": "51200", "accelerator": "A100", "vpp": "1",
    "act_ckpt": "full", "flash_attn": "no", "block": "vtrain", "arch_gated": "0", "arch_tied": "1",
    "arch_learned_pos": "1", "accelerator_id": "a100-sxm4-80gb", "accel_per_node": str(NODE), "node_links": "nvlink",
    "engine": "megatron", "optimizer": "adamw", "weight_precision": "fp16", "act_precision": "fp16",
    "outcome": "ok", "usable": "1", "usable_for": "speed", "eff_basis": "iteration time as printed",
    "notes": "recompute and vocabulary are not stated: full and 51,200 taken",
}  # fmt: skip
SINGLE_FIXED = {"internode_gbytes_per_s": ""}
MULTI_FIXED = {"internode_gbytes_per_s": "12.5"}
"""Four HDR adapters of 200 Gbit/s for eight devices (the paper's section on its testbed)."""


def rows(path: Path, part: str) -> Iterator[dict[str, str]]:
    """One row of the layout for each line of a table."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        for place, line in enumerate(csv.DictReader(file), 1):
            taken = {name: line[said] for name, said in COLUMNS.items()}
            seconds = float(line["iteration time (ms)"]) / 1e3
            width = f"{4 * int(taken['hidden'])}"
            yield {
                "id": f"vtrain-{part}-{place:04}",
                "source": SOURCE.format(part),
                "model": f"GPT {taken['layers']} x {taken['hidden']}",
                "ffn": width,
                "kv_heads": taken["heads"],
                "head_dim": str(int(taken["hidden"]) // int(taken["heads"])),
                "step_time_s_eff": f"{seconds:.7g}",
                **FIXED,
                **(SINGLE_FIXED if part == "single" else MULTI_FIXED),
                **taken,
            }


def main() -> int:
    """Write both tables as one file."""
    single, multi = (Path(name) for name in sys.argv[1:3])
    found = [*rows(single, "single"), *rows(multi, "multi")]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    OUT.parent.mkdir(exist_ok=True)
    with OUT.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(text.getvalue().encode())
    print(f"{len(found)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
