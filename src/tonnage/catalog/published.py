"""
What have others published: usable rows and what our fits leave of them, scores of quality, files to download.

The measurements themselves stay outside the package; `tools/calibration/published.py` writes their table: what ran,
what was measured, when and where it stands (docs/decisions/0027-living-data.md).

`data/quality/scores.csv` holds scores of lower precision, smaller models and adapters, one row each; a change is the
ratio of two scores of the same source and benchmark. Asked about a model, its own scores come first, then those of
another tuning of the same weights, then those of other models of about its size, and the answer says which. Nothing is
interpolated: without a pair of scores a change is unknown.

`tools/calibration/published_points.py` writes the table of points: at most sixteen rows of one published run, each
with its place (requests in flight, lengths, degrees), its release and formats, and ln(measured / predicted).
`published_points` makes them a calibration of nothing but a drift, so that new rows move answers without a refit. On
published rows left out, other loads of a configuration cut its errors to a third or a quarter, and rows of another
publisher tell nothing (docs/accuracy.md): so they count where they are asked for, `--calibration published`.

One row a model in `data/models/downloads.csv`: repositories by what reads them. A model is here when its weights are
open, it writes text, and somebody publishes files that llama.cpp reads.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from statistics import median
from typing import Any, Final

from tonnage.catalog.fitted import priors
from tonnage.catalog.models import look_up
from tonnage.catalog.rows import DATA, Row, number, read_rows, table
from tonnage.domain.calibration import Calibration, Learnt, Stretch
from tonnage.domain.machine import Download
from tonnage.domain.published import Published, QualityChange, QualityScore
from tonnage.errors import BadFact

MEASURED: Final = (
    "ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_s", "total_tokens_per_s", "samples_per_s", "energy_per_token_j",
    "memory_gb", "step_time_s", "tokens_per_s_per_accel", "samples_per_s_per_accel", "peak_mem_gb",
)  # fmt: skip
"""Measured numbers that the table keeps."""

_TEXTS: Final = (
    "id", "kind", "model", "family", "accelerator", "engine", "version", "weights", "layout", "load", "date", "source",
)  # fmt: skip
_NUMBERS: Final = ("parameters", "active_parameters", "count", "size", "isl", "osl")
COLUMNS: Final = (*_TEXTS, *_NUMBERS, *MEASURED)


@cache
def published_results() -> tuple[Published, ...]:
    """
    Every published result, in the order of the table.

    Raises
    ------
    BadFact
        The table is not what this release expects.
    """
    packed = (DATA / "published" / "results.csv.gz").read_bytes()
    reader = csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise BadFact(f"published/results.csv.gz: columns must be {', '.join(COLUMNS)}")
    return tuple(_result(line) for line in reader)


def _result(line: dict[str, str]) -> Published:
    stated: dict[str, Any] = {name: line[name] for name in _TEXTS}
    stated |= {name: float(line[name]) if line[name] else None for name in _NUMBERS}
    return Published(**stated, measured={name: float(line[name]) for name in MEASURED if line[name]})


AS_RELEASED: Final = "bf16"
SAME_FORMAT: Final = {"int4": ("int4", "gptq", "awq"), "gptq": ("gptq", "int4"), "awq": ("awq", "int4")}
"""Four bits in groups of 128 are one format; how they were found is a method, and the plain name means any."""
SAME_SIZE: Final = 4.0
"""Other models count as about the size of a model up to this factor. [-]"""
MIN_SCORES: Final = 3
"""Other models of its size below which models of any size are looked at."""
_TUNING: Final = re.compile(r"-(instruct|chat|it|base|hf|preview|thinking|v0\.1|\d{4})(?=-|$)")
_SIZE: Final = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z])")

Pair = tuple[QualityScore, QualityScore]
"""Before and after."""


@cache
def quality_scores() -> tuple[QualityScore, ...]:
    """Every published score, in the order of the table; a row without one is refused."""
    sources = _sources()
    return tuple(
        QualityScore(
            model=row["model"],
            variant=row["variant"],
            benchmark=row["benchmark"],
            score=_score(row),
            higher_is_better=row["better"] == "higher",
            source=sources[row["source"]],
            standard_error=number(row, "standard_error"),
            questions=int(row["questions"]) if row["questions"] else None,
        )
        for row in table(DATA / "quality" / "scores.csv")
    )


def _score(row: Row) -> float:
    score = number(row, "score")
    if score is None:
        raise BadFact(f"quality/scores.csv: {row['model']}, {row['variant']}, {row['benchmark']}: no score")
    return score


@cache
def format_change(model: str, weights: str) -> QualityChange:
    """What weights in another format keep of the score of the released ones."""
    variants = SAME_FORMAT.get(weights, (weights,))
    return _of_variants(model, variants, before=AS_RELEASED, what=f"{weights} weights", variant=weights)


@cache
def cache_change(model: str, kv: str) -> QualityChange:
    """What a KV cache in another format keeps of the score with a 16-bit one."""
    return _of_variants(model, (f"kv {kv}",), before=f"kv {AS_RELEASED}", what=f"{kv} cache", variant=kv)


def method_change(method: str, *, model: str = "", instead_of: str = "full") -> QualityChange:
    """What fine-tuning in another way keeps of the score after a full fine-tune; without a model, of any model."""
    return _of_variants(model, (method,), before=instead_of, what=f"{method} instead of {instead_of}", variant=method)


@cache
def model_change(model: str, other: str) -> QualityChange:
    """What another, usually smaller, model keeps of a model's score: both as released, on the same benchmarks."""
    what = f"{other} instead"
    for same in (_exactly, same_model):
        before = [s for s in quality_scores() if s.variant == AS_RELEASED and same(s.model, model)]
        after = [s for s in quality_scores() if s.variant == AS_RELEASED and same(s.model, other)]
        pairs = [(b, a) for b in before for a in after if _alike(b, a) and _is_tuned(b) == _is_tuned(a)]
        if pairs:
            on = "this model" if same is _exactly else "another tuning of it"
            return _summary(pairs, what=what, variant=other, on=on)
    return QualityChange(what=what, variant=other)


@cache
def students(teacher: str) -> tuple[str, ...]:
    """Models distilled from a model, as their publishers say."""
    return tuple(
        row["student"] for row in table(DATA / "quality" / "distilled.csv") if same_model(row["teacher"], teacher)
    )


def same_model(one: str, other: str) -> bool:
    """
    Whether two names are tunings of the same weights.

    Examples
    --------
    >>> same_model("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B")
    True
    >>> same_model("Qwen/Qwen2-7B", "Qwen/Qwen2.5-7B-Instruct")
    False
    """
    return _weights(one) == _weights(other)


def _of_variants(model: str, variants: tuple[str, ...], *, before: str, what: str, variant: str) -> QualityChange:
    """
    What variants keep of the score of `before`, from pairs of one source, benchmark and model.

    The first of these that has a task score counts: the model's own, those of another tuning of it, of models of about
    its size, of any. Perplexities count alone where nobody published a task score of the variants. Without a model all
    are looked at.
    """
    known = _by_variant()
    pairs = [
        (known[reference], a)
        for a in quality_scores()
        if a.variant in variants and (reference := (a.source, a.benchmark, a.model, before)) in known
    ]
    scored = any(b.higher_is_better for b, _ in pairs)
    for on, kept in (
        ("this model", _where(pairs, model, _exactly)),
        ("another tuning of it", _where(pairs, model, same_model)),
        ("other models of about its size", _of_its_size(pairs, model)),
        ("other models", pairs),
    ):
        if any(b.higher_is_better for b, _ in kept) or (kept and not scored):
            return _summary(kept, what=what, variant=variant, on=on)
    return QualityChange(what=what, variant=variant)


def _where(pairs: Iterable[Pair], model: str, same: Callable[[str, str], bool]) -> list[Pair]:
    return [pair for pair in pairs if model and same(pair[0].model, model)]


def _of_its_size(pairs: list[Pair], model: str) -> list[Pair]:
    """Those of other models up to a factor larger or smaller; none where they are few, or the name tells no size."""
    size = _billions(model)
    if size is None:
        return []
    near = [
        pair
        for pair in pairs
        if (other := _billions(pair[0].model)) is not None and max(size / other, other / size) <= SAME_SIZE
    ]
    return near if len({_weights(b.model) for b, _ in near if b.higher_is_better}) >= MIN_SCORES else []


def _summary(pairs: list[Pair], *, what: str, variant: str, on: str) -> QualityChange:
    """The median and ends of what task scores kept, the rise of perplexity, and the benchmark that lost most."""
    kept = [_quality_kept(pair) for pair in pairs if pair[0].higher_is_better]
    worse = [a.score / b.score - 1.0 for b, a in pairs if not b.higher_is_better]
    noise = [error for b, a in pairs if (error := _noise(b, a)) is not None]
    return QualityChange(
        what=what,
        variant=variant,
        kept=median(kept) if kept else None,
        low=min(kept, default=None),
        high=max(kept, default=None),
        worst=min((p for p in pairs if p[0].higher_is_better), key=_quality_kept, default=pairs[0])[1].benchmark,
        evaluations=len(kept) or len(worse),
        on=on,
        noise=median(noise) if noise else None,
        perplexity=median(worse) if worse else None,
        sources=tuple(dict.fromkeys(a.source for _, a in pairs)),
    )


def _quality_kept(pair: Pair) -> float:
    before, after = pair
    return after.score / before.score


def _noise(before: QualityScore, after: QualityScore) -> float | None:
    """Two standard errors of the ratio: as published, else of a share of so many questions."""
    errors = [_standard_error(score) for score in (before, after)]
    if not before.higher_is_better or any(error is None for error in errors):
        return None
    return 2.0 * math.hypot(*(error or 0.0 for error in errors)) / before.score


def _standard_error(score: QualityScore) -> float | None:
    """Of a score, in its unit: as published, else of a share of so many questions; None = neither is known."""
    if score.standard_error is not None or score.questions is None:
        return score.standard_error
    share = min(1.0, score.score / 100.0)
    return 100.0 * math.sqrt(share * (1.0 - share) / score.questions)


def _alike(before: QualityScore, after: QualityScore) -> bool:
    return (before.source, before.benchmark) == (after.source, after.benchmark)


def _exactly(one: str, other: str) -> bool:
    return _bare_name(one) == _bare_name(other)


def _bare_name(name: str) -> str:
    """Without the publisher's folder and its brand: "llama-3.1-8b-instruct"."""
    return name.rsplit("/", 1)[-1].lower().removeprefix("meta-")


@cache
def _weights(name: str) -> str:
    """Without what says how it was tuned: "llama-3.1-8b"."""
    return _TUNING.sub("", _bare_name(name))


def _is_tuned(score: QualityScore) -> bool:
    return "instruct" in score.model.lower()


@cache
def _billions(name: str) -> float | None:
    """Parameters that a name states, in billions; of a mixture "8x7b" the product."""
    found = _SIZE.search(_bare_name(name))
    return float(found[2]) * float(found[1] or 1) if found else None


@cache
def _by_variant() -> dict[tuple[str, str, str, str], QualityScore]:
    return {(s.source, s.benchmark, s.model, s.variant): s for s in quality_scores()}


@cache
def _sources() -> dict[str, str]:
    return {
        row["source"]: f"{row['text']}, {row['url']}, {row['published']}"
        for row in table(DATA / "quality" / "sources.csv")
    }


FILE: Final = DATA / "intervals" / "points.csv.gz"
POINT_COLUMNS: Final = (
    "accelerator",
    "engine",
    "model",
    "quantity",
    "setting",
    "place",
    "left",
    "id",
    "source",
    "date",
)
_CAUSES: Final = 7
_TOLD: Final = 2
"""Sources that a sentence names."""
_Stack = tuple[str, str, str]


def published_points(accelerator: str, engine: str, *, model: str) -> Calibration | None:
    """
    The published points of a model with an engine on an accelerator; absent where nobody published any.

    Raises
    ------
    BadFact
        The table is not what this release expects.

    Examples
    --------
    >>> published_points("h100-sxm5-80gb", "vllm", model="no/such-model") is None
    True
    """
    return _known().get((accelerator, engine, model))


@cache
def predicted_numbers() -> Mapping[str, Mapping[str, float]]:
    """Row of a published result -> what this release predicts of its measured numbers, by their names and units."""
    results = {result.id: result.measured for result in published_results()}
    found: dict[str, dict[str, float]] = {}
    for line in _point_lines():
        name = f"{line['quantity'][:4]}_ms" if line["quantity"] in ("ttft_s", "tpot_s") else line["quantity"]
        measured = results.get(line["id"], {}).get(name)
        if measured is not None:
            found.setdefault(line["id"], {})[name] = measured * math.exp(-float(line["left"]))
    return found


def _point_lines() -> Iterator[dict[str, str]]:
    """Rows of the table of points; other columns than this release expects are refused."""
    reader = csv.DictReader(io.StringIO(gzip.decompress(FILE.read_bytes()).decode()))
    if tuple(reader.fieldnames or ()) != POINT_COLUMNS:
        raise BadFact(f"intervals/points.csv.gz: columns must be {', '.join(POINT_COLUMNS)}")
    yield from reader


@cache
def _known() -> Mapping[_Stack, Calibration]:
    """Calibrations of the published points of every stack."""
    by: dict[_Stack, list[dict[str, str]]] = {}
    for line in _point_lines():
        by.setdefault((line["accelerator"], line["engine"], line["model"]), []).append(line)
    return {stack: _calibration(stack, lines) for stack, lines in by.items()}


def _calibration(stack: _Stack, lines: list[dict[str, str]]) -> Calibration:
    """Points of one stack as a calibration without a stretch: nothing but what is left of each prediction."""
    accelerator, engine, model = stack
    noise, dates = priors("serve").noise, sorted({line["date"] for line in lines if line["date"]})
    sources = list(dict.fromkeys(line["source"] for line in lines))
    more = f" and {len(sources) - _TOLD} more" if len(sources) > _TOLD else ""
    return Calibration(
        accelerator=accelerator,
        engine=engine,
        stretch=Stretch(),
        models=(model,),
        points=len({line["id"] for line in lines}),
        date=" to ".join(dict.fromkeys((*dates[:1], *dates[-1:]))),
        source="; ".join(sources[:_TOLD]) + more,
        learnt=tuple(
            Learnt(
                model=model,
                quantity=line["quantity"],
                place=tuple(map(float, line["place"].split())),
                left=float(line["left"]),
                noise=noise[line["quantity"]],
                shares=(0.0,) * _CAUSES,
                setting=line["setting"],
            )
            for line in lines
        ),
    )


_SAME: Final = frozenset({"instruct", "it", "chat", "base"})
"""Words for the usual tunings of a model, which its files come in."""


@cache
def downloads() -> tuple[Download, ...]:
    """Every downloadable model, in the order of the table."""
    return read_rows(DATA / "models" / "downloads.csv", Download)


def download_of(name: str) -> Download | None:
    """
    Files of the model that a name means, and of no other of its shape: a later version or a distillation has its own.

    Examples
    --------
    >>> download_of("Qwen3-8B").gguf, download_of("Qwen/Qwen3-30B-A3B-Instruct-2507")
    ('Qwen/Qwen3-8B-GGUF', None)
    """
    for one in downloads():
        if name in (one.gguf, one.ollama, one.mlx, one.awq):
            return one
    shape = look_up(name)
    found = next((one for one in downloads() if one.model == shape), None)
    return found if found is not None and _words(name) <= _words(found.model) | _SAME else None


def _words(name: str) -> set[str]:
    return set(re.split(r"[-_:\s]+", name.rpartition("/")[2].lower()))
