"""Files side by side: kept plans, requests, simulations or cases, whatever they are, as long as they answer alike."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.calibration_use import each_once
from tonnage.core.files import read_mapping, read_text
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.case import InferResult, Latency, Result, ServeResult, TrainResult
from tonnage.domain.metrics import OBJECTIVES
from tonnage.domain.plan import PLAN_SCHEMA, ServePlan
from tonnage.domain.train_plan import TrainPlan
from tonnage.errors import BadRequest, TonnageError, echo
from tonnage.questions.ask import SCHEMA_1, answer, kind_of, read_plan
from tonnage.questions.check.check import Comparable, figures
from tonnage.questions.compare.answer import COMPARE_SCHEMA, Comparing, Comparison
from tonnage.questions.compare.compare import MAX_SIDES, Figure, compare, compare_figures, configurations_of
from tonnage.questions.predict.case_lines import case_of_object, raw_cases
from tonnage.questions.predict.predict import predict
from tonnage.questions.simulate.simulate import simulation_of

Side = tuple[str, str, Any]
"""Name, sort (plan, case or simulation), content."""
_KINDS: Final[dict[type, str]] = {ServePlan: "serve", BatchPlan: "batch", TrainPlan: "train"}
_RATES: Final = (
    ("output tokens", "output_tokens_per_s", "1/s"), ("requests", "requests_per_s", "1/s"),
    ("samples", "samples_per_s", "1/s"), ("tokens of an accelerator", "tokens_per_s_per_accelerator", "1/s"),
    ("samples of an accelerator", "samples_per_s_per_accelerator", "1/s"),
)  # fmt: skip


def compare_files(
    paths: tuple[str, ...],
    *,
    additions: Additions = catalog.NOTHING,
    watch: Callable[[int, int], None] | None = None,
) -> Comparison:
    """
    The answers of several files side by side; of one file, the ways that it holds or the cases in its lines.

    Parameters
    ----------
    paths : tuple of str
        Plans as `tonnage plan --output` wrote them, requests (with a `plan` line), simulations, or cases as
        `tonnage predict` reads them, one or many in a file.

    Raises
    ------
    TonnageError
        A file cannot be read, or they answer different kinds of question.
    """
    sides = [side for path in paths for side in _sides(path)]
    if len(sides) > MAX_SIDES:
        raise BadRequest(f"{len(sides)} sides are more than the {MAX_SIDES} that can be read side by side")
    sorts = {sort for _, sort, _ in sides}
    if len(sorts) > 1:
        raise BadRequest(f"{' and '.join(sorted(sorts))} cannot be compared; give files of one sort")
    names = _distinct_names(tuple(name for name, _, _ in sides))
    contents = [content for _, _, content in sides]
    (sort,) = sorts
    if sort == "simulation" and len(sides) == 1:
        return compare(configurations_of(contents[0]), additions=additions, watch=watch)
    if len(sides) < 2:
        raise BadRequest(f"'{echo(paths[0])}' holds one {sort}; name a second file to compare it with")
    if sort == "simulation":
        return compare(_simulations(names, contents), additions=additions, watch=watch)
    if sort == "plan":
        return _plans(names, [_read_plan(content, additions) for content in contents])
    return _cases(names, [predict(case_of_object(content), additions=additions) for content in contents])


def _sides(path: str) -> Iterator[Side]:
    """What one file holds: a case for each line of a .jsonl file, else one side."""
    name = "standard input" if path == "-" else Path(path).stem
    if path.endswith(".jsonl"):
        for line, raw in raw_cases(io.BytesIO(read_text(path, what="case").encode())):
            if isinstance(raw, TonnageError):
                raise BadRequest(f"'{echo(path)}' line {line}: {raw}")
            own = raw.get("id") if isinstance(raw, dict) else None
            yield str(own or f"{name}:{line}"), "case", raw
        return
    found = read_mapping(path, what="file")
    if found.get("schema") in {PLAN_SCHEMA, SCHEMA_1}:
        yield name, "plan", read_plan(path)
    elif "plan" in found:
        yield name, "plan", kind_of(found, source=path)
    elif "kind" in found:
        yield str(found.get("id") or name), "case", found
    else:
        yield name, "simulation", found


def _distinct_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that differ: the second of two alike gets its place."""
    return tuple(name if name not in names[:i] else f"{name} ({i + 1})" for i, name in enumerate(names))


def _simulations(names: tuple[str, ...], contents: list[dict[str, Any]]) -> Comparing:
    """Simulations of files, which may differ in everything; a note says when their requests differ."""
    for name, content in zip(names, contents, strict=True):
        if "ways" in content:
            raise BadRequest(f"'{echo(name)}' holds ways of its own; compare it alone, or leave them out")
    ways = tuple((name, simulation_of(content)) for name, content in zip(names, contents, strict=True))
    alike = all(way.traffic == ways[0][1].traffic for _, way in ways)
    return Comparing(
        ways=ways, notes=() if alike else ("the files differ in their traffic: requests are not the same",)
    )


def _read_plan(content: Any, additions: Additions) -> Comparable:
    """A kept plan, or the plan of a request."""
    plan = answer(content[0], content[1], additions=additions) if isinstance(content, tuple) else content
    if not isinstance(plan, Comparable):
        raise BadRequest("plans of this kind are not compared; name plans to serve, batch, train or fine-tune")
    return plan


def _plans(names: tuple[str, ...], plans: list[Comparable]) -> Comparison:
    """Plans of one kind side by side; the cheapest feasible one leads."""
    kinds = {type(plan) for plan in plans}
    if len(kinds) > 1:
        raise BadRequest("the plans answer different kinds of question; compare plans of one kind")
    rows = compare_figures([tuple(figures(plan)) for plan in plans])
    able = [i for i, plan in enumerate(plans) if plan.feasible]
    cost = next((row for row in rows if row.what == "cost"), None)
    lead = None if cost is None else cost.best
    if not able:
        sentence = "None of the plans is feasible."
    elif len(able) == 1:
        lead = able[0]
        sentence = f"Only {names[lead]} is feasible: {plans[lead].sentence}"
    elif lead is None:
        sentence = f"They cost the same: {plans[able[0]].sentence}"
    else:
        sentence = f"{names[lead]} costs least: {plans[lead].sentence}"
    return Comparison(
        schema=COMPARE_SCHEMA,
        sentence=sentence,
        kind=_KINDS[type(plans[0])],
        sides=names,
        figures=rows,
        best=None if lead is None else names[lead],
        fits=bool(able),
        calibrations=each_once(use for plan in plans for use in plan.calibrations),
        assumed=tuple(
            f"{name}: made {plan.provenance.made} by {plan.provenance.version}"
            for name, plan in zip(names, plans, strict=True)
        ),
    )


def _cases(names: tuple[str, ...], results: list[Result]) -> Comparison:
    """Predictions of one kind side by side; most output, or the shortest step, leads."""
    kinds = {type(result) for result in results}
    if len(kinds) > 1:
        raise BadRequest("the cases are of different kinds; compare cases of one kind (serve, train or infer)")
    rows = compare_figures([tuple(_of_case(result)) for result in results])
    lead_row = next((row for row in rows if row.what in ("output tokens", "step", "samples")), None)
    lead = None if lead_row is None else lead_row.best
    runs = [name for name, result in zip(names, results, strict=True) if result.fits]
    if not runs:
        sentence = f"None of them fits: {results[0].why}."
    elif len(runs) < len(names):
        sentence = f"Of {len(names)}, {len(runs)} fit: {', '.join(runs)}."
    elif lead is None:
        sentence = "They do the same."
    else:
        assert lead_row is not None
        word = "has the shortest step" if lead_row.what == "step" else f"gives most {lead_row.what}"
        sentence = f"{names[lead]} {word}."
    kind = (
        "serve" if isinstance(results[0], ServeResult) else "train" if isinstance(results[0], TrainResult) else "infer"
    )
    return Comparison(
        schema=COMPARE_SCHEMA,
        sentence=sentence,
        kind=kind,
        sides=names,
        figures=rows,
        best=None if lead is None else names[lead],
        fits=bool(runs),
        calibrations=each_once(use for result in results for use in getattr(result, "calibrations", ())),
    )


def _of_case(result: Result) -> Iterator[Figure]:
    """What is compared of a prediction, in the order it is told; memory is of one accelerator."""
    yield "fits", "", "yes" if result.fits else f"no: {result.why}", None
    yield "basis", "", result.basis, None
    for metric in OBJECTIVES:
        name, latency = metric.title.lower(), getattr(result, metric.name, None)
        if isinstance(latency, Latency):
            yield name, "s", latency.mean, True
            yield f"p95 {name}", "s", latency.p95, True
    for name, field in (("step", "step_s"), ("latency", "latency_s")):
        yield name, "s", _value(result, field), True
    for name, field, unit in _RATES:
        yield name, unit, _value(result, field), False
    if isinstance(result, ServeResult):
        yield "kv cache", "tokens", result.kv_cache_tokens, False
        yield "memory of an accelerator", "bytes", (result.memory or {}).get("total_bytes"), None
    else:
        memory = result.memory if isinstance(result, InferResult) else result.memory_peak_bytes
        yield "memory of an accelerator", "bytes", None if memory is None else memory.value, True
    if isinstance(result, TrainResult):
        yield "model flop utilisation", "fraction", result.mfu, False


def _value(result: Result, field: str) -> float | None:
    found = getattr(result, field, None)
    return found.value if isinstance(found, Quantity) else None
