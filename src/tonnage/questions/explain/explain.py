"""Any configuration opened: an option of a plan, a case, or a prediction that holds its parts already.

An option is opened as the case that it is: one replica under its share of the planned load. Where the plan simulated
that load, what the simulation adds to the steady state (bursts, spread lengths, queues) is a part of its own.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tonnage.catalog import NOTHING, Additions, model_name, part_name, parts_name
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.calibration_use import training_use
from tonnage.core.deployment import case_of
from tonnage.core.files import read_text, read_written
from tonnage.domain.answer import BREAKDOWN_SCHEMA, Breakdown, Evidence, Quantity
from tonnage.domain.case import Case, InferCase, ServeCase, ServeResult, Traffic, TrainCase, TrainResult
from tonnage.domain.layout import Disaggregation
from tonnage.domain.plan import ServeOption, ServePlan, option_at_rank
from tonnage.domain.requests.groups import SessionFields
from tonnage.domain.rl import RlCase
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.engines.registry import engine_title
from tonnage.errors import BadRequest, TonnageError, echo
from tonnage.foreign import check_values
from tonnage.questions.ask import Plan, plan_of_text
from tonnage.questions.lifecycle.question import LifecyclePlan
from tonnage.questions.predict.case_lines import case_of_object, raw_cases
from tonnage.questions.predict.predict import predict
from tonnage.questions.serve.option import share_of
from tonnage.questions.train.job import TrainContext, job_of
from tonnage.questions.train.scaling import setup_of
from tonnage.simulation.served_tree import TPOT, TTFT

_BREAKDOWN: Final = partial(Breakdown, schema=BREAKDOWN_SCHEMA)
_SIMULATED: Final = Evidence(tier="formula", source="the plan's request-level simulation beyond the steady state")
_STEADY: Final = Evidence(tier="formula", source="the plan's averages over spread lengths and its requests in flight")

_REBUILT: Final = Evidence(tier="formula", source="settings of the plan that its option does not carry")
ROUNDING: Final = 1e-9
"""Of a number, below which two ways of adding it up are the same. [-]"""


class Explained(NamedTuple):
    """What a file holds, opened: a plan with one of its options, or cases and predictions."""

    plan: Plan | None
    breakdowns: tuple[Breakdown, ...]


def explain_file(path: str, *, rank: int = 1, additions: Additions = NOTHING) -> Explained:
    """
    A plan, cases, or predictions in a file (`-` = standard input), opened.

    Raises
    ------
    TonnageError
        Not readable, nothing of the kind, a prediction without its parts, or no option of that rank.
    """
    return explain_text(read_text(path, what="plan or case"), what=path, rank=rank, additions=additions)


def explain_text(
    text: str, *, what: str, rank: int = 1, additions: Additions = NOTHING, check: Callable[[Any], None] | None = None
) -> Explained:
    """
    A plan, cases, or predictions in a text, opened; `check` sees each object first and refuses it by raising.

    Raises
    ------
    TonnageError
        As `explain_file`.
    """
    look = check or (lambda _: None)
    if _is_lines(text):
        lines = _lines(text)
        check_values(lines, where=f"'{echo(what)}'", lines=False)
        look(lines)
        return Explained(None, tuple(_open_answer(each, additions) for each in lines))
    value = read_written(text, what=what)
    check_values(value, where=f"'{echo(what)}'", lines=False)
    look(value)
    if isinstance(value, list):
        if not value:
            raise BadRequest(f"'{echo(what)}' holds nothing to explain; give a plan, a case or a prediction")
        return Explained(None, tuple(_open_answer(each, additions) for each in value))
    if isinstance(value, dict) and _is_known_kind(value):
        return Explained(None, (_open_answer(value, additions),))
    plan = plan_of_text(text if isinstance(value, dict) else "{}", what)
    halves = (plan.make, plan.serve) if isinstance(plan, LifecyclePlan) else (plan,)
    opened = (explain_plan(half, rank=rank, additions=additions) for half in halves)
    return Explained(plan, tuple(found for found in opened if found is not None))


def _is_lines(text: str) -> bool:
    """Whether it holds an object a line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) > 1 and all(line.lstrip().startswith("{") for line in lines)


def _lines(text: str) -> list[Any]:
    return [raw for _, raw in raw_cases(io.BytesIO(text.encode()))]


def _is_known_kind(value: dict[str, Any]) -> bool:
    """Whether it is a case, a prediction or a breakdown; anything else is read as a plan."""
    if "schema" in value:
        return bool(value["schema"] == BREAKDOWN_SCHEMA)
    return "fits" in value or ("kind" in value and "accelerator" in value)


def _open_answer(raw: Any, additions: Additions) -> Breakdown:
    """A case, prediction or breakdown as a breakdown; a line that could not be read raises its error."""
    if isinstance(raw, TonnageError):
        raise raw
    if isinstance(raw, dict) and raw.get("schema") == BREAKDOWN_SCHEMA:
        found: Breakdown = _convert(raw, Breakdown)
        return found
    if isinstance(raw, dict) and "fits" in raw:
        return _open_prediction(raw)
    return explain_case(case_of_object(raw), additions=additions)


def _open_prediction(raw: dict[str, Any]) -> Breakdown:
    """The parts that a prediction of serving or training holds; refuses one without."""
    kind = raw.get("kind")
    if kind not in {"serve", "train"}:
        raise BadRequest(f"a prediction of kind '{echo(kind)}' holds no parts to open; explain one of serve or train")
    result: ServeResult | TrainResult = _convert(raw, ServeResult if kind == "serve" else TrainResult)
    if not result.opened:
        why = f"it does not fit: {result.why}" if not result.fits else "predict with --why, or explain the case itself"
        raise BadRequest(f"this prediction holds no parts; {why}")
    label = f"prediction {result.id}" if result.id else "prediction"
    return _BREAKDOWN(
        kind=kind,
        label=label,
        numbers=result.opened,
        calibrations=result.calibrations,
        notes=result.notes,
        id=result.id,
    )


def _convert(raw: dict[str, Any], struct: Any) -> Any:
    try:
        return msgspec.convert(raw, struct)
    except msgspec.ValidationError as error:
        raise BadRequest(f"this prediction cannot be read: {echo(error)}; predict again with --why") from None


def explain_case(case: Case | RlCase, *, additions: Additions = NOTHING) -> Breakdown:
    """
    The numbers of one case, opened; none where it does not fit, and a note says why.

    Raises
    ------
    TonnageError
        As `predict`; or a case of a kind whose numbers are not opened.
    """
    if isinstance(case, InferCase):
        raise BadRequest(
            "kind: cases of infer are not opened to operators; `tonnage predict` gives the latency's parts"
        )
    if isinstance(case, RlCase):
        raise BadRequest("kind: cases of rl are opened by `tonnage predict` (field step), not down to operators")
    result = predict(case, additions=additions, why=True)
    assert isinstance(result, ServeResult | TrainResult)
    notes = result.notes if result.fits else (f"does not fit: {result.why}", *result.notes)
    kind: Literal["serve", "train"] = "serve" if isinstance(case, ServeCase) else "train"
    return _BREAKDOWN(
        kind=kind,
        label=_label(case),
        numbers=result.opened,
        calibrations=result.calibrations,
        notes=notes,
        id=case.id,
    )


def _label(case: ServeCase | TrainCase) -> str:
    """A case in words: model, accelerators, load and lengths."""
    name = model_name(case.model) if isinstance(case.model, str) else getattr(case.model, "id", "a model of your own")
    if isinstance(case, TrainCase):
        return f"{name}, {case.method} on {parts_name(case.count, case.accelerator)}"
    layout = case.layout
    degrees = " ".join(layout.degrees())
    t = case.traffic
    load = (
        "saturated"
        if t.saturated
        else f"{t.concurrency:g} clients"
        if t.concurrency is not None
        else f"{t.rate_per_s:g} requests/s"
        if t.rate_per_s is not None
        else f"{'a batch' if t.static else 'a burst'} of {t.batch}"
    )
    count = layout.ranks * case.replicas
    where = parts_name(count, case.accelerator) + (f" {degrees}" if degrees else "")
    return f"{name} on {where}, {case.engine}, {load}, {case.isl:g} tokens in and {case.osl:g} out"


def explain_plan(plan: Plan, *, rank: int = 1, additions: Additions = NOTHING) -> Breakdown | None:
    """
    The latencies or the step time of one option of a plan to serve or to train; none of other plans.

    What cannot be opened (a model or an accelerator that is not at hand) is said in the notes.

    Raises
    ------
    BadRequest
        The plan has options, but none of that rank.
    """
    if not isinstance(plan, ServePlan | TrainPlan) or not plan.options:
        return None
    if isinstance(plan, TrainPlan):
        return _training(plan, option_at_rank(plan.options, rank), rank, additions)
    option = option_at_rank(plan.options, rank)
    label = f"option {rank}: {option.configuration.label(part_name, engine_title)}"
    try:
        result = predict(_case_of(plan, option), additions=additions, why=True)
    except TonnageError as error:
        return _BREAKDOWN(kind="serve", label=label, notes=(f"its times cannot be opened: {error}",))
    assert isinstance(result, ServeResult)
    numbers = tuple(_planned_latency(node, option) for node in result.opened)
    return _BREAKDOWN(
        kind="serve",
        label=f"{label}, a replica at the planned load",
        numbers=numbers,
        calibrations=result.calibrations,
        notes=result.notes,
    )


def case_of_option(plan: Plan, rank: int) -> ServeCase | None:
    """One replica of an option under its share of the load, as a case; none of other kinds of plan."""
    if not isinstance(plan, ServePlan) or not 0 < rank <= len(plan.options):
        return None
    return _case_of(plan, plan.options[rank - 1])


def _training(plan: TrainPlan, option: TrainOption, rank: int, additions: Additions) -> Breakdown:
    """
    The step of an option, rebuilt from its degrees; what the rebuilding misses is a part of its own. Where it cannot be
    rebuilt, a note says why.
    """
    from tonnage.questions.predict.training import step_numbers

    label = f"option {rank}: {option.configuration.label(part_name, engine_title)}"
    try:
        model = resolve(str(plan.model.get("id") or plan.request.model), additions=additions)
        job = job_of(plan.request, model)
        asked = TrainContext(request=plan.request, model=model, job=job, today=date.today(), additions=additions)
        setup = setup_of(asked, option, framework=plan.request.framework)
        numbers = step_numbers(setup)
    except TonnageError as error:
        return _BREAKDOWN(kind="train", label=label, notes=(f"its step cannot be opened: {error}",))
    step, planned = numbers[0], option.step_s.value
    if abs(step.value - planned) > ROUNDING * planned:
        beyond = Quantity(name="as planned, beyond this", value=planned - step.value, unit="s", evidence=_REBUILT)
        step = Quantity.total("step", (msgspec.structs.replace(step, name="rebuilt"), beyond))
        numbers = (step, *numbers[1:])
    use = training_use(setup)
    uses = () if use is None else (use,)
    return _BREAKDOWN(kind="train", label=label, numbers=numbers, calibrations=uses, notes=model.assumed)


def _case_of(plan: ServePlan, option: ServeOption) -> ServeCase:
    """One replica of the option under its share of the planned load."""
    request, c = plan.request, option.capacity
    name = str(plan.model.get("id") or request.model)
    split, reuse, hits = option.configuration.pools, option.reuse, request.sessions.prefix_hits
    if reuse is not None:
        hits = 1.0 - reuse.computed_tokens / request.lengths.prompt_tokens
    sessions = SessionFields(prefix_hits=hits) if hits else None
    if split is not None and split.prefill:
        layout = option.configuration.layout
        at_once = Traffic(concurrency=max(1, round(c.concurrency)))
        return msgspec.structs.replace(
            case_of(option.configuration, model=name, lengths=request.lengths, traffic=at_once),
            sessions=sessions,
            disaggregation=Disaggregation(
                prefill_workers=split.prefill, prefill=layout, decode_workers=split.decode, decode=layout
            ),
        )
    # Of a unit whose workers do both, one worker with its share.
    share = share_of(request, option.replicas, adapters=option.configuration.engine.adapters)
    share /= split.decode if split is not None else 1
    load = Traffic(concurrency=share) if request.rate_per_s is None else Traffic(rate_per_s=share)
    case = case_of(option.configuration, model=name, lengths=request.lengths, traffic=load)
    return msgspec.structs.replace(case, sessions=sessions)


def _planned_latency(node: Quantity, option: ServeOption) -> Quantity:
    """A mean latency of the steady state under what the plan says of it."""
    c = option.capacity
    planned = {TTFT: c.ttft_mean_s, TPOT: c.tpot_mean_s}.get(node.name)
    if planned is None or planned == node.value:
        return node
    # The tree below is that of equal lengths, as a case states them.
    told = "bursts, spread lengths and queues" if c.simulated is not None else "spread lengths; requests in flight"
    evidence = _SIMULATED if c.simulated is not None else _STEADY
    beyond = Quantity(name="beyond the steady state", value=planned - node.value, unit="s", how=told, evidence=evidence)
    steady = msgspec.structs.replace(node, name="steady state")
    return Quantity.total(node.name, (steady, beyond), how="mean at the planned load, as the plan has it")
