"""How far does a calibration carry? Fitted to one model on a real engine, asked about one of ten times its size.

Rows are of `measurements/own/engine.csv`: llama.cpp on one core, in seconds of the server's own processor time. Of
repeats of a load the one counts in which the server had the largest share of its core.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tonnage.catalog import Additions
from tonnage.catalog.hub.config import read_inline
from tonnage.domain.accuracy import Figure
from tonnage.domain.calibration import Calibration
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point, turning_point
from tonnage.planning.calibrate.calibrate import calibrate
from tonnage.planning.calibrate.loads import MeasuredLoad, Stack, loads_of
from tonnage.planning.drift import drift_of

__all__ = ["as_measurement", "engine_and_model", "rate_of", "transfer_figures", "transfer_rates"]

OPTIONS: Final = {"max_num_seqs": 16, "max_model_len": 1024, "max_num_batched_tokens": 2048}
"""As the server ran: slots, context of each, llama.cpp's n_batch."""
PAIRS: Final = (("quiet-94MB", "quiet-910MB"), ("first-75MB", "first-904MB"))
DEVICE: Final = "xeon-1-thread.toml"
TOKENS: Final = 32.0
"""Of every answer of a sweep."""

Row = Mapping[str, str]
Times = dict[str, float]


def _rows(folder: Path, name: str) -> list[Row]:
    with (folder / "engine.csv").open(newline="", encoding="utf-8") as file:
        own = [row for row in csv.DictReader(file) if row["model"] == name]
    best: dict[int, Row] = {}
    for row in own:
        known = best.get(int(row["concurrency"]))
        if known is None or float(row["server_cpu_share"]) > float(known["server_cpu_share"]):
            best[int(row["concurrency"])] = row
    return [best[level] for level in sorted(best)]


def engine_and_model(row: Row) -> Stack:
    """The engine that a row is of, and its model."""
    hidden = int(row["hidden_size"])
    model = read_inline(
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": hidden,
            "torch_dtype": "float16",
            "intermediate_size": int(row["intermediate_size"]),
            "num_hidden_layers": int(row["num_hidden_layers"]),
            "num_attention_heads": hidden // 64,
            "num_key_value_heads": hidden // 256,
            "head_dim": 64,
            "vocab_size": int(row["vocab_size"]),
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
        }
    )
    return Stack(model=model, accelerator="own-xeon-1t", engine="llamacpp", options=OPTIONS)


def rate_of(times: Times, *, clients: float, tokens: float) -> float:
    """Tokens per second of clients who wait for their answers (Little). [tokens/s]"""
    return clients * tokens / (times["ttft_s"] + (tokens - 1.0) * times["tpot_s"])


def as_measurement(rows: Iterable[Row]) -> Measurement:
    """The rows as a measurement, in seconds of the server's own processor time."""
    points = []
    for row in rows:
        share, tokens, clients = float(row["server_cpu_share"]), float(row["output_tokens"]), float(row["concurrency"])
        times = {name: float(row[name]) * share for name in ("ttft_s", "tpot_s")}
        rate = rate_of(times, clients=clients, tokens=tokens)
        points.append(
            Point(
                concurrency=clients,
                requests=int(row["requests"]),
                completed=int(row["requests"]),
                prompt_tokens=float(row["prompt_tokens"]),
                output_tokens=tokens,
                output_least=tokens,
                output_most=tokens,
                output_tokens_per_s=rate,
                requests_per_s=rate / tokens,
                ttft_s=Latency(mean=times["ttft_s"]),
                tpot_s=Latency(mean=times["tpot_s"]),
            )
        )
    return Measurement(schema=MEASUREMENT_SCHEMA, tool="tonnage", points=tuple(points))


def transfer_rates(folder: Path, *, small: str, large: str) -> list[tuple[Times, Times, float]]:
    """Of each load of the large model: predicted by the small one's calibration, measured, and clients."""
    device = Additions(paths=(str(folder / DEVICE),))
    own, truth = _rows(folder, small), _rows(folder, large)
    fitted = calibrate([(as_measurement(own), engine_and_model(own[0]))], additions=device).calibration
    loads = loads_of(as_measurement(truth), engine_and_model(truth[0]), additions=device)
    return [
        (_as_if_measured(fitted, load), load.measured, float(row["concurrency"]))
        for load, row in zip(loads, truth, strict=True)
    ]


def _as_if_measured(fitted: Calibration, load: MeasuredLoad) -> Times:
    """A load of another model, as if that had been measured: what is carried over whole is what is tested."""
    in_flight, prompt_tokens, output_tokens, *_ = load.place
    drift = drift_of(
        fitted,
        model=fitted.models[0],
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        layout=load.at.placement.layout,
    )
    assert drift is not None, "a calibration keeps its points"
    moved, times = drift.at(in_flight), load.predicted(fitted.stretch)
    return {
        "ttft_s": times["ttft_s"] * moved.pace * moved.first,
        "tpot_s": times["tpot_s"] * moved.pace,
        "output_tokens_per_s": times["output_tokens_per_s"] / moved.pace,
    }


def transfer_figures(folder: Path) -> list[Figure]:
    """Errors of decode and prefill one at a time; of a sweep's knee, and of its most requests per second."""
    if not (folder / "engine.csv").exists():
        return []
    found = []
    for small, large in PAIRS:
        loads = transfer_rates(folder, small=small, large=large)
        group = f"own: llama.cpp, calibrated on {small}, predicts {large}"
        predicted, truth, _ = loads[0]
        for name, said in (("ttft_s", "prefill"), ("tpot_s", "decode")):
            error = abs(predicted[name] / truth[name] - 1.0)
            found.append(Figure(group=group, figure=f"error of {said}", rows=1, value=error, at_most=0.20))
        if len(loads) > 1:
            seen = _sweep((times, clients) for times, _, clients in loads)
            known = _sweep((times, clients) for _, times, clients in loads)
            for said, reads in (("most requests/s", _most), ("knee, requests at once", _knee)):
                error = abs(reads(seen) / reads(known) - 1.0)
                figure = f"error of the sweep's {said}"
                found.append(Figure(group=group, figure=figure, rows=len(loads), value=error, at_most=0.25))
    return found


def _sweep(loads: Iterable[tuple[Times, float]]) -> list[Point]:
    return [
        Point(concurrency=clients, completed=1, requests_per_s=rate_of(times, clients=clients, tokens=TOKENS) / TOKENS)
        for times, clients in loads
    ]


def _most(sweep: Iterable[Point]) -> float:
    return max(point.requests_per_s or 0.0 for point in sweep)


def _knee(sweep: Iterable[Point]) -> float:
    return turning_point(sweep) or math.nan
