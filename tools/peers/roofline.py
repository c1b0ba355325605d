"""
Two reference predictors for `tonnage accuracy --predictor`: peaks alone, or peaks at one utilisation.

    tonnage accuracy --predictor 'python tools/peers/roofline.py'
    tonnage accuracy --predictor 'python tools/peers/roofline.py --utilisation 0.5'

The first takes every accelerator at its data sheet: weights over bandwidth or FLOP over peak, whichever is longer. The
second takes the given share of both, for every model, engine and load. Neither has read a measurement, gives intervals
or refuses what it can divide. What anybody's prediction has to beat.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from tonnage.domain.case import Case
from tonnage.errors import TonnageError
from tonnage_accuracy.baselines import raw_roofline
from tonnage_accuracy.quantities import Measured, predicted_number

SLOWER = {"ttft_ms", "tpot_ms", "e2e_ms", "step_time_s"}
"""Quantities that a lower utilisation lengthens; rates shrink."""
WITHOUT = {"fits", "kv_tokens", "memory_gb", "peak_mem_gb", "energy_per_token_j"}
"""What peaks say nothing about."""


def main() -> int:
    """Answer every line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--utilisation", type=float, default=1.0)
    share = parser.parse_args().utilisation
    name = "raw roofline" if share == 1.0 else f"roofline at utilisation {share:g}"
    print(msgspec.json.encode({"predictor": name, "fitted_on": []}).decode(), flush=True)
    for line in sys.stdin:
        print(msgspec.json.encode(answered(msgspec.json.decode(line), share)).decode(), flush=True)
    return 0


def answered(question: dict[str, Any], share: float) -> dict[str, Any]:
    """The answer to one question."""
    try:
        result = raw_roofline(msgspec.convert(question["case"], Case))
    except (TonnageError, msgspec.ValidationError) as error:
        return {"id": question["id"], "refused": str(error)}
    answers = {}
    for wanted in question["wanted"]:
        if wanted["quantity"] in WITHOUT:
            continue
        item = Measured(
            quantity=wanted["quantity"],
            value=None,
            statistic=wanted["statistic"],
            flop=wanted.get("flop_per_sample", 0.0),
        )
        found = predicted_number(result, item)
        if found is not None:
            answers[item.quantity] = found.value / share if item.quantity in SLOWER else found.value * share
    return {"id": question["id"], "answers": answers}


if __name__ == "__main__":
    sys.exit(main())
