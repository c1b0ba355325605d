"""
An entrant whose answers were asked once and are kept: for `tonnage accuracy --predictor`.

    tonnage accuracy --block SIL --predictor 'python tools/peers/kept.py tools/peers/aiconfigurator.csv'

The table has a column `id` and one for each quantity (`ttft_ms`, `tpot_ms` …), and may have `note`; a row without
numbers is a refusal with that note. `aiconfigurator.csv` was written by `ask_aiconfigurator.py` (README.md); it says
of itself that its authors tuned it on rows of the same collection.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

FITTED_ON = {"aiconfigurator": ["SIL"]}


def main() -> int:
    """Answer every line from the table."""
    path = Path(sys.argv[1])
    with path.open(encoding="utf-8", newline="") as file:
        kept = {line["id"]: line for line in csv.DictReader(file)}
    print(json.dumps({"predictor": path.stem, "fitted_on": FITTED_ON.get(path.stem, [])}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        said = kept.get(question["id"], {})
        answers = {
            wanted["quantity"]: float(said[wanted["quantity"]])
            for wanted in question["wanted"]
            if said.get(wanted["quantity"])
        }
        reply = {"answers": answers} if answers else {"refused": said.get("note") or "not asked"}
        print(json.dumps({"id": question["id"], **reply}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
