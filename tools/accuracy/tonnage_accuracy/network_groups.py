"""
Are models that do not serve many users predicted well enough? Groups of rows, each beside the error it may have.

Batches through vision models, encoders, diffusion and speech; one stream through llama.cpp, ExLlama and MLC on any
part; and runs on a processor that `tonnage measure device` measured, kept in measurements/own. *Left out* is what fits
say that never saw the row's accelerator; the bounds are the project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tonnage.engines.registry import find_engine
from tonnage_accuracy.left_out import LeftOut, left_out_scores
from tonnage_accuracy.metrics import absolute_error_share
from tonnage_accuracy.records import Figure
from tonnage_accuracy.rows import Row, text
from tonnage_accuracy.scoring import Score, error_shares, median_figures
from tonnage_accuracy.tables import read_table

PROMPTS: Final = "prefill_only"
"""Why rows that measured the prompt alone are not scored with the others: they have no answer."""

Stored = Mapping[str, Mapping[tuple[str, str], LeftOut]]


def prompt_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows of a prompt alone on one stream, as cases with one token of answer."""
    return [
        msgspec.structs.replace(row, usable=True, cells={**row.cells, "osl_tokens": "1"})
        for row in rows
        if _single(row) and text(row, "unusable_reason") == PROMPTS
    ]


def network_figures(
    rows: Sequence[Row], scores: Sequence[Score], *, stored: Stored | None = None, prompts: Sequence[Score] = ()
) -> tuple[Figure, ...]:
    """
    Every group beside its bound; groups without rows are left away.

    Parameters
    ----------
    rows, scores : sequence
        Rows and what was predicted for them; rows of other kinds are passed over.
    stored : mapping, optional
        Left-out predictions by kind of group (`left_out.left_out_predictions`).
    prompts : sequence of Score, optional
        Scores of `prompt_rows`, which are among `rows`.
    """
    ids = {row.id: row for row in rows}
    known = [item for item in scores if item.id in ids and item.kind in {"infer", "serve"}]
    unseen = left_out_scores(known, (stored or {}).get("accelerator") or {})
    rate, latency = "median error of the rate", "median error of the latency"
    stream = "one stream: llama.cpp, ExLlama, MLC"
    asked = [item for item in prompts if item.quantity == "ttft_ms"]
    spread = {item.id for item in asked if _several(ids[item.id])}

    def of(chosen: Iterable[Score], pick: Callable[[Row], bool], quantity: str) -> list[float]:
        return error_shares(item for item in chosen if item.quantity == quantity and pick(ids[item.id]))

    alone = error_shares(item for item in asked if item.id not in spread)
    several = error_shares(item for item in asked if item.id in spread)
    found = (
        ("vision (timm)", rate, of(known, _timm, "samples_per_s"), 0.15),
        ("vision (timm)", "the same, its accelerator left out", of(unseen, _timm, "samples_per_s"), 0.22),
        ("encoders (TensorRT, FasterTransformer)", latency, of(known, _encoder, "e2e_ms"), 0.15),
        ("diffusion, one step", latency, of(known, _step, "tpot_ms"), 0.25),
        ("diffusion and video, whole", "median error of rate or latency", _first(known, ids, "diffusion"), 0.25),
        ("speech", rate, of(known, _speech, "samples_per_s"), 0.25),
        (stream, "median error of the time per token", of(known, _single, "tpot_ms"), 0.12),
        (stream, "median error of the prompt on one accelerator", alone, 0.20),
        (stream, "median error of the prompt over several accelerators", several, 0.20),
    )
    return tuple(figure for figure in median_figures(found) if figure.rows)


def own_figures(folder: Path) -> tuple[Figure, ...]:
    """Runs on measured devices of one's own, each network beside its prediction from the device's file."""
    table = folder / "runs.csv"
    if not table.is_file():
        return ()
    from tonnage.catalog import Additions
    from tonnage.catalog.hub.resolve import resolve
    from tonnage.domain.case import InferCase, TrainCase
    from tonnage.questions.predict.inference import predict_infer
    from tonnage.questions.predict.training import predict_train

    found: dict[tuple[str, str], list[float]] = {}
    for run in read_table(table):
        model, accelerator, batch = resolve(str(folder / run["profile"])), run["accelerator_id"], int(run["batch"])
        device, precision = Additions(paths=(str(folder / run["device"]),)), run["precision"]
        if run["work"] == "training":
            step = TrainCase(
                model=model, accelerator=accelerator, micro_batch=batch, global_batch=batch, precision=precision
            )
            latency, trained = predict_train(step, additions=device).step_s, " trained"
        else:
            case = InferCase(
                model=model, accelerator=accelerator, batch=batch, precision=precision, engine=run["engine"]
            )
            latency, trained = predict_infer(case, additions=device).latency_s, ""
        if latency is not None:
            name = f"{run['unit']}/s of {run['profile'].partition('.')[0]}{trained}"
            key = f"own {accelerator}, {run['date']}", name
            found.setdefault(key, []).append(
                absolute_error_share(predicted=1.0 / latency.value, measured=1.0 / float(run["seconds"]))
            )
    return tuple(
        Figure(group=group, figure=f"largest error of {name}", rows=len(errors), value=max(errors), at_most=0.25)
        for (group, name), errors in found.items()
    )


def _first(scores: Iterable[Score], ids: Mapping[str, Row], kind: str) -> list[float]:
    """One error for each row of a kind: of its rate, else of its latency."""
    best: dict[str, Score] = {}
    for quantity in ("e2e_ms", "samples_per_s"):
        for item in scores:
            if item.kind == "infer" and item.quantity == quantity and text(ids[item.id], "kind") == kind:
                best[item.id] = item
    return error_shares(best.values())


def _timm(row: Row) -> bool:
    return row.block == "TIMM"


def _encoder(row: Row) -> bool:
    return row.block in {"TRT", "FT"} and text(row, "kind") == "embedding"


def _step(row: Row) -> bool:
    return text(row, "kind") == "diffusion"


def _speech(row: Row) -> bool:
    return text(row, "kind") == "speech"


def _single(row: Row) -> bool:
    engine = find_engine(text(row, "engine"))
    return text(row, "load") == "single_stream" and engine is not None and engine.single_user


def _several(row: Row) -> bool:
    return (text(row, "num_accel") or "1") not in {"1", "1.0"}
