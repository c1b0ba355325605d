"""
What did others measure that is near a question? Published results, the nearest first, and what differs in each.

The distance is a sum of parts, each zero where nothing differs. A part is a size on a logarithmic scale, so that a
factor counts the same whichever way, or a fixed step; a step of 1 is about another generation of accelerator.

| part | what counts |
|---|---|
| model | another: 0.3 in the same family, else 0.6; with `ln` of the ratio of active, half of total parameters; 1 between a mixture of experts and a dense model |
| accelerator | another: 0.3 of the same architecture, 0.7 of the same maker, else 1.2; with half of `ln` of the ratio of memory bandwidth (training: of FLOP/s) |
| engine | another: 0.7 (training and networks: 0.4); not known: 0.3 |
| formats | half of `log2` of the ratio of weight bits, 0.2 where the bits are the same in another format |
| layout | 0.4 of `log2` of the ratio of accelerators, 0.2 where they are split another way, 0.8 between separate pools and one |
| load | 0.3 of `log2` of the ratios of prompt and answer, 0.35 of that of clients, batch or rate; 0.8 for another kind of load |

Two results at most of one source, model, accelerator and engine are given: their rows are near-duplicates.
"""  # noqa: E501  a table's row is one line

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import NOTHING, Additions, accelerator, accelerators, model_name
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.published import published_results
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import Case, InferCase, ServeCase, Traffic
from tonnage.domain.layout import Disaggregation, Layout
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.published import Near, Published
from tonnage.domain.rl import RlCase
from tonnage.errors import BadRequest, TonnageError
from tonnage.physics.parameters import active_parameters, parameters

MOST_ALIKE: Final = 2
"""Results of one source, model, accelerator and engine. [results]"""
FARTHEST: Final = 6.0
"""Beyond it a result says nothing about the question. [-]"""
_MIXTURE: Final = 1.3
"""Total over active parameters from which a model counts as a mixture of experts. [-]"""


class Part(NamedTuple):
    """One part of a distance, and how it is said."""

    distance: float
    said: str


def near(case: Case | RlCase, *, limit: int = 5, additions: Additions = NOTHING) -> tuple[Near, ...]:
    """
    Published results near a case, the nearest first; the newer of two as near. At most `limit`, none beyond `FARTHEST`.

    A format or a layout that the case leaves open adds no distance.

    Raises
    ------
    TonnageError
        The case names a model or an accelerator that nobody knows, or is a step of reinforcement learning.
    """
    if isinstance(case, RlCase):
        raise BadRequest("kind: no published steps of rl are kept beside cases; docs/rl-accuracy.md has them")
    model = resolve(case.model, additions=additions)
    card = accelerator(case.accelerator, additions=additions)
    asked = replace(describe_case(case, model), accelerator=card.id)
    cards = {**accelerators(), card.id: card}
    ranked = sorted(
        (
            found
            for result in published_results()
            if result.kind == asked.kind and (found := _compared(asked, result, cards))
        ),
        key=lambda item: (round(item.distance, 3), _newest(item.result.date), item.result.id),
    )
    taken: Counter[tuple[str, ...]] = Counter()
    kept = []
    for item in ranked:
        alike = item.result.source, item.result.model, item.result.accelerator, item.result.engine
        taken[alike] += 1
        if taken[alike] <= MOST_ALIKE:
            kept.append(item)
        if len(kept) == limit:
            break
    return tuple(kept)


def describe_case(case: Case, model: Model) -> Published:
    """A case as a row of the table of published results, without anything measured."""
    total, active = _sizes(model)
    said = Published(
        id=case.id or "",
        kind="train",
        model=model.id,
        family=model.family,
        parameters=total,
        active_parameters=active,
        accelerator=case.accelerator,
        engine="",
        count=case.accelerator_fraction,
        date=str(case.year or ""),
    )
    if isinstance(case, ServeCase):
        load, size = _load(case.traffic)
        split = case.disaggregation
        return replace(
            said,
            kind="serve",
            engine=case.engine,
            count=case.replicas * said.count * (sum(split.ranks) if split else case.layout.ranks),
            version=case.engine_version or "",
            weights=_weights(case.precision),
            layout=_layout(case.layout, split),
            load=load,
            size=size,
            isl=case.isl,
            osl=case.osl,
        )
    said = replace(said, count=case.count * said.count, weights=case.precision)
    if isinstance(case, InferCase):
        return replace(
            said,
            kind="infer",
            engine=case.engine,
            version=case.engine_version or "",
            load="saturated" if case.saturated else "batch",
            size=float(case.batch),
            isl=case.seq_len or case.resolution,
        )
    degrees = Layout(tp=case.layout.tp or 1, pp=case.layout.pp or 1, dp=1, ep=case.layout.ep or 1)
    return replace(
        said,
        engine=case.framework or "",
        layout=_layout(degrees, None),
        load=case.method,
        size=case.global_batch,
        isl=case.seq_len or case.image_px,
    )


def _compared(asked: Published, result: Published, cards: dict[str, Accelerator]) -> Near | None:
    """A result with its distance from the case and what differs; None where it is too far, or its part is not known."""
    if result.accelerator not in cards:
        return None
    parts = [*_model(asked, result), *_part(asked, result, cards), *_software(asked, result), *_sizes_of(asked, result)]
    far = [part for part in parts if part.distance > 0]
    distance = sum(part.distance for part in far)
    if distance > FARTHEST:
        return None
    said = tuple(part.said for part in sorted(far, key=lambda part: -part.distance))
    return Near(distance=round(distance, 3), differs=said, result=result)


def _model(asked: Published, result: Published) -> Iterable[Part]:
    if asked.model == result.model:
        return
    step = 0.3 if asked.family == result.family else 0.6
    if asked.parameters and result.parameters:
        step += abs(math.log(result.active_parameters / asked.active_parameters))
        step += 0.5 * abs(math.log(result.parameters / asked.parameters))
        mixed = [one.parameters > _MIXTURE * one.active_parameters for one in (asked, result)]
        step += 1.0 if mixed[0] != mixed[1] else 0.0
    yield Part(step, f"model {model_name(result.model)} instead of {model_name(asked.model)}")


def _part(asked: Published, result: Published, cards: dict[str, Accelerator]) -> Iterable[Part]:
    if asked.accelerator == result.accelerator:
        return
    one, other = cards[asked.accelerator], cards[result.accelerator]
    step = 0.3 if one.architecture == other.architecture else 0.7 if one.vendor == other.vendor else 1.2
    rates = [(card.peak("fp16") or 0.0) if asked.kind == "train" else card.memory_bytes_per_s for card in (one, other)]
    if all(rates):
        step += 0.5 * abs(math.log(rates[1] / rates[0]))
    yield Part(step, f"accelerator {other.id} instead of {one.id}")


def _software(asked: Published, result: Published) -> Iterable[Part]:
    if asked.engine != result.engine:
        step = 0.3 if not asked.engine or not result.engine else 0.7 if asked.kind == "serve" else 0.4
        yield Part(step, f"engine {result.engine or 'not stated'} instead of {asked.engine or 'any'}")
    if asked.weights and result.weights and asked.weights != result.weights:
        bits = [number_format(name).bytes for name in (asked.weights, result.weights)]
        step = 0.2 + 0.5 * abs(math.log2(bits[1] / bits[0]))
        yield Part(step, f"format {result.weights} instead of {asked.weights}")


def _sizes_of(asked: Published, result: Published) -> Iterable[Part]:
    """Parts of a distance by sizes: accelerators, layout, kind of load, lengths, clients or rate."""
    if asked.count != result.count:
        step = 0.4 * abs(math.log2(result.count / asked.count))
        yield Part(step, f"{result.count:g} accelerators instead of {asked.count:g}")
    if asked.layout and result.layout and asked.layout != result.layout:
        step = 0.8 if ("/" in asked.layout) != ("/" in result.layout) else 0.2
        yield Part(step, f"layout {result.layout} instead of {asked.layout}")
    if asked.load != result.load:
        yield Part(0.8, f"load {result.load or 'not stated'} instead of {asked.load}")
    names = ("length or resolution", "") if asked.kind != "serve" else ("prompt", "answer")
    for name, weight, mine, theirs in (
        (names[0], 0.3, asked.isl, result.isl),
        (names[1], 0.3, asked.osl, result.osl),
        (asked.load or "load", 0.35, asked.size, result.size),
    ):
        if mine is not None and theirs is not None and mine != theirs:
            step = weight * abs(math.log2((theirs + 1) / (mine + 1)))
            yield Part(step, f"{name} {theirs:g} instead of {mine:g}")


def _load(traffic: Traffic) -> tuple[str, float | None]:
    """The kind of load and its size; one client at a time is a batch of one."""
    if traffic.batch is not None:
        return ("batch" if traffic.static else "burst"), float(traffic.batch)
    if traffic.concurrency is not None:
        return "clients", traffic.concurrency
    return ("requests/s", traffic.rate_per_s) if traffic.rate_per_s is not None else ("saturated", None)


def _layout(layout: Layout, split: Disaggregation | None) -> str:
    if split is not None:
        return f"{split.prefill_workers}x{_degrees(split.prefill)}/{split.decode_workers}x{_degrees(split.decode)}"
    return _degrees(layout)


def _degrees(layout: Layout) -> str:
    return "·".join(layout.degrees()) or "tp1"


def _weights(precision: Precision | None) -> str:
    return "" if precision is None else precision.stored


def _sizes(model: Model) -> tuple[float, float]:
    """Total and active parameters, counted where nobody published them; 0 where neither is known."""
    try:
        total = model.published_parameters or parameters(model).value
        return total, model.published_active_parameters or active_parameters(model).value
    except TonnageError:
        return 0.0, 0.0


def _newest(date: str) -> int:
    """A date to sort by, the latest first and no date last."""
    digits = "".join(char for char in date if char.isdecimal())[:8]
    return -int(digits.ljust(8, "0")) if digits else 0
