"""
How does a measured row become a case? By its layout, and for inference by what the model answers with.

Rows of vision, diffusion, speech and encoder models are batches through a network and are read here; all other
inference rows are served language models. The rules of other kinds stand in `serve_cases` and `train_cases`. A row that
names no catalogue model but gives its multiply-adds and parameters is a network of exactly those. Rows of a whole
system count every accelerator; a single stream uses one. MLPerf's multi-stream scenario sends eight samples at once
(MLPerf inference rules, "multistream").
"""

from __future__ import annotations

import re
from typing import Final

from tonnage import catalog
from tonnage.domain.case import Case, InferCase
from tonnage.domain.layout import NETWORK_ENGINE
from tonnage.domain.model import Model, Network
from tonnage.errors import BadFact
from tonnage_accuracy.rows import Row, count, number, text
from tonnage_accuracy.serve_cases import links, serve_case_of_point, serve_case_of_sample, year
from tonnage_accuracy.train_cases import train_case

_NETWORKS: Final = {"embedding", "vision", "diffusion", "speech", "recommender"}


def kind_of(row: Row) -> str:
    """The kind of case a row becomes: serve, train or infer."""
    if row.layout == "training":
        return "train"
    if row.layout == "serving":
        return "serve"
    return "infer" if text(row, "kind") in _NETWORKS or text(row, "phase") == "encode" else "serve"


def case_of(row: Row) -> Case:
    """
    The case that a row measured.

    Raises
    ------
    BadFact
        The row does not say enough, or a cell cannot be read; the sentence begins with the kind of reason.
    """
    if not text(row, "accelerator_id"):
        raise BadFact("accelerator not in the catalogue: the row names none")
    match kind_of(row):
        case "train":
            return train_case(row)
        case "infer":
            return infer_case(row)
    return serve_case_of_sample(row) if row.layout == "serving" else serve_case_of_point(row)


_SAMPLES_OF_MULTISTREAM = 8


def infer_case(row: Row) -> InferCase:
    """
    The case of a row whose answer is not decoded text.

    Raises
    ------
    BadFact
        The row does not say enough, or a cell cannot be read.
    """
    macs, activations = number(row, "gmacs"), number(row, "activations_m")
    load = text(row, "load")
    alone = load in {"single_stream", "static_batch"}
    total = count(row, "num_accel_total") or count(row, "num_accel") or 1
    length = number(row, "isl_tokens")
    return InferCase(
        model=_model(row, macs, activations),
        accelerator=text(row, "accelerator_id"),
        batch=_batch(row, load),
        resolution=count(row, "image_px"),
        steps=count(row, "diffusion_steps"),
        seq_len=round(length) if length else None,
        beams=count(row, "beams") or round(_said(row, r"beam (\d+)") or 1),
        audio_s=60.0 * minutes if (minutes := _said(row, r"([\d.]+) minutes of audio")) else None,
        precision=_precision(row),
        engine=text(row, "engine") or NETWORK_ENGINE,
        engine_version=text(row, "engine_version") or None,
        engine_mode=text(row, "engine_mode") or None,
        count=count(row, "accel_per_replica") or 1 if alone else total,
        tp=count(row, "tp") or 1,
        saturated=load in {"saturated", "open_loop"},
        flop=macs * 2e9 if macs else None,
        activation_values=activations * 1e6 if activations else None,
        accelerator_fraction=number(row, "accel_fraction") or 1.0,
        links=links(row),
        year=year(row),
        rate_per_s=number(row, "request_rate_qps") if load == "open_loop" else None,
        id=row.id,
    )


def _said(row: Row, pattern: str) -> float | None:
    """A number that the row's words on its data set say: "13 minutes of audio, beam 5"."""
    found = re.search(pattern, text(row, "dataset"))
    return float(found.group(1)) if found is not None else None


def _precision(row: Row) -> str:
    """
    The format that products ran in.

    MLPerf rows list language models as fp16 that ran FP8 wherever the part has it: at fp16 they would exceed its peak.
    """
    stated = text(row, "act_precision") or text(row, "weight_precision") or "fp16"
    language = text(row, "kind") in {"llm", "embedding"}
    if row.block == "MLP41" and language and stated == "fp16":
        part = catalog.accelerator(text(row, "accelerator_id"))
        return "fp8" if part.peak("fp8") is not None else stated
    return stated


def _batch(row: Row, load: str) -> int:
    size = count(row, "concurrency_or_batch")
    if load == "single_stream" and "scenario=multistream" in text(row, "notes"):
        return _SAMPLES_OF_MULTISTREAM
    if load == "static_batch" and size is None:
        raise BadFact("not stated: concurrency_or_batch")
    return size or 1


def _model(row: Row, macs: float | None, activations: float | None) -> str | Model:
    name = text(row, "model_id")
    if name:
        return name
    parameters = number(row, "params_b")
    if not macs or not parameters:
        raise BadFact("model not in the catalogue: the row gives no multiply-adds and parameters either")
    return Model(
        id=text(row, "model") or row.id,
        family=text(row, "model") or "network",
        kind="cnn-detect" if "yolo" in text(row, "model").lower() else "cnn",
        network=Network(
            flop=macs * 2e9,
            input_px=count(row, "image_px"),
            activation_values=activations * 1e6 if activations else None,
        ),
        extra_parameters=parameters * 1e9,
        published_parameters=parameters * 1e9,
        source=text(row, "source"),
    )
