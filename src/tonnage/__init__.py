"""Tonnage tells you which accelerators a model needs, and checks itself against the real thing.

    import tonnage

    tonnage.fit("meta-llama/Llama-3.1-70B", accelerator="H100", tp=2, context="8k").fits
    tonnage.plan_serve("meta-llama/Llama-3.1-70B", rate="4/s", traffic="chat", ttft="1 s").sentence
    tonnage.predict({"kind": "serve", "model": "13B", "accelerator": "H200", "traffic": {"concurrency": 8},
                     "isl": 1024, "osl": 256}).tpot_s

Fields are those of the command line: texts with their unit, or plain numbers in base units (`rate=4` requests/s,
`ttft=0.5` s; `tonnage fields serve` lists them). Answers are the same structs as its `--json`.
Nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Unpack, cast

from tonnage.version import __version__

if TYPE_CHECKING:
    from tonnage.catalog import Additions
    from tonnage.domain.accelerator import Accelerator
    from tonnage.domain.answer import Breakdown
    from tonnage.domain.batch_plan import BatchPlan
    from tonnage.domain.calibration import Calibrated
    from tonnage.domain.case import Case, Result
    from tonnage.domain.cost import RentOrBuy
    from tonnage.domain.diagnosis import Diagnosis
    from tonnage.domain.infer_plan import InferPlan
    from tonnage.domain.machine import LocalAnswer
    from tonnage.domain.model import Model
    from tonnage.domain.plan import ServePlan
    from tonnage.domain.published import Near
    from tonnage.domain.requests.typed import (
        AdoptFields,
        BatchFields,
        BudgetFields,
        CalibrateFields,
        FinetuneFields,
        FitFields,
        FleetFields,
        InferFields,
        LifecycleFields,
        OwnFields,
        PredictInferFields,
        PredictRlFields,
        PredictServeFields,
        PredictTrainFields,
        RentOrBuyFields,
        RlFields,
        ServeFields,
        SimulateFields,
        TrainFields,
    )
    from tonnage.domain.sessions import TraceSessions
    from tonnage.domain.simulate import Simulated
    from tonnage.domain.train_plan import TrainPlan
    from tonnage.measure.train.probe import Probe
    from tonnage.questions.adopt.question import Adoption, Advice
    from tonnage.questions.budget.question import BudgetPlan
    from tonnage.questions.compare.answer import Comparison
    from tonnage.questions.fit.question import FitAnswer
    from tonnage.questions.fleet.answer import FleetPlan
    from tonnage.questions.lifecycle.question import LifecyclePlan
    from tonnage.questions.own.question import OwnPlan
    from tonnage.questions.rl.question import RlPlan
    from tonnage.report.charts.chart import Chart

__all__ = [
    "__version__",
    "accelerator",
    "advise",
    "calibrate",
    "charts",
    "compare",
    "diagnose",
    "explain",
    "fit",
    "local",
    "model",
    "near",
    "plan_batch",
    "plan_budget",
    "plan_finetune",
    "plan_fleet",
    "plan_from_file",
    "plan_infer",
    "plan_lifecycle",
    "plan_own",
    "plan_rl",
    "plan_serve",
    "plan_train",
    "predict",
    "probe",
    "probe_callback",
    "rent_or_buy",
    "simulate",
    "to_dict",
    "to_frame",
    "trace",
]


def fit(model: str, *, additions: Additions | None = None, **fields: Unpack[FitFields]) -> FitAnswer:
    """
    Does the model fit, and what is the largest x that still does? Fields as in `tonnage fit --help`.

    Raises
    ------
    TonnageError
        A field is wrong; the message is the sentence the command line prints.
    """
    from tonnage.catalog import NOTHING
    from tonnage.questions.answers import with_html_view
    from tonnage.questions.fit.fit import fit as answer
    from tonnage.questions.fit.question import fit_request

    asked = fit_request(_in_base_units("fit", {"model": model, **fields}))
    return with_html_view(answer(asked, additions=additions or NOTHING))


def local(accelerator: str | None = None, *, additions: Additions | None = None, **fields: Any) -> LocalAnswer:
    """
    Which models run on this machine, or on one that is named, and how fast. Fields as in `tonnage local --help`.

    Raises
    ------
    TonnageError
        A name or a field is wrong. That no model fits is an answer: `feasible` is False.
    """
    from tonnage.catalog import NOTHING
    from tonnage.core.machine import machine_found
    from tonnage.measure.machine.detect import inventory_here, programs
    from tonnage.questions.answers import with_html_view
    from tonnage.questions.own.local import asked_machine, local_request
    from tonnage.questions.own.local import local as answer

    own = additions or NOTHING
    request = local_request({**fields, "accelerator": accelerator})
    if request.accelerator is not None:
        machine = asked_machine(request, additions=own)
    else:
        machine = machine_found(inventory_here(), engines=programs(), additions=own)
    return with_html_view(answer(request, machine, additions=own))


def plan_serve(model: str, *, additions: Additions | None = None, **fields: Unpack[ServeFields]) -> ServePlan:
    """
    Ranked, priced, explained ways to serve the model. Fields as in `tonnage plan serve --help`.

    Raises
    ------
    TonnageError
        A field is wrong. That nothing can serve it is an answer: `feasible` is False.
    """
    plan: ServePlan = _plan_kind("serve", {"model": model, **fields}, additions=additions)
    return plan


def plan_batch(model: str, *, additions: Additions | None = None, **fields: Unpack[BatchFields]) -> BatchPlan:
    """
    Ranked, priced ways to answer a number of prompts by a deadline. Fields as in `tonnage plan batch --help`.

    Raises
    ------
    TonnageError
        A field is wrong. That nothing finishes in time is an answer: `feasible` is False.
    """
    plan: BatchPlan = _plan_kind("batch", {"model": model, **fields}, additions=additions)
    return plan


def plan_own(
    own: str | Sequence[str],
    model: str | None = None,
    *,
    additions: Additions | None = None,
    **fields: Unpack[OwnFields],
) -> OwnPlan:
    """
    What accelerators that are there serve best, share and lack. Fields as in `tonnage plan own --help`.

    Raises
    ------
    TonnageError
        A name or a field is wrong. That nothing runs on them is an answer: `feasible` is False.
    """
    plan: OwnPlan = _plan_kind("own", {"own": own, "model": model, **fields}, additions=additions)
    return plan


def plan_budget(
    amount: str, model: str | None = None, *, additions: Additions | None = None, **fields: Unpack[BudgetFields]
) -> BudgetPlan:
    """
    The largest rate, the best model or the best run that an amount buys. Fields as in `tonnage plan budget --help`.

    Raises
    ------
    TonnageError
        A field is wrong. That the amount buys nothing is an answer: `feasible` is False.
    """
    plan: BudgetPlan = _plan_kind("budget", {"amount": amount, "model": model, **fields}, additions=additions)
    return plan


def plan_infer(model: str, *, additions: Additions | None = None, **fields: Unpack[InferFields]) -> InferPlan:
    """
    Accelerators for a model that decodes no text: cameras, images, audio. Fields as in `tonnage plan infer --help`.

    Raises
    ------
    TonnageError
        A field is wrong. That nothing carries the load is an answer: `feasible` is False.
    """
    plan: InferPlan = _plan_kind("infer", {"model": model, **fields}, additions=additions)
    return plan


def plan_rl(model: str, *, additions: Additions | None = None, **fields: Unpack[RlFields]) -> RlPlan:
    """
    Accelerators for rollout and training of reinforcement learning. Fields as in `tonnage plan rl --help`.

    Raises
    ------
    TonnageError
        A field is wrong. That nothing does the steps is an answer: `feasible` is False.
    """
    plan: RlPlan = _plan_kind("rl", {"model": model, **fields}, additions=additions)
    return plan


def plan_lifecycle(
    model: str, *, additions: Additions | None = None, **fields: Unpack[LifecycleFields]
) -> LifecyclePlan:
    """
    Make the model and serve it: one bill. `serve` and one of `train`, `finetune` hold the fields of those plans.

    Raises
    ------
    TonnageError
        A field is wrong. That a half cannot be done is an answer: `feasible` is False.
    """
    plan: LifecyclePlan = _plan_kind("lifecycle", {"model": model, **fields}, additions=additions)
    return plan


def plan_fleet(*, additions: Additions | None = None, **fields: Unpack[FleetFields]) -> FleetPlan:
    """
    The cheapest mixed fleet for several workloads. Fields as in a request file: `workloads`, `quotas`, `own`, filters.

    Raises
    ------
    TonnageError
        A field is wrong. That nothing carries the load is an answer: `feasible` is False.
    """
    plan: FleetPlan = _plan_kind("fleet", fields, additions=additions)
    return plan


def plan_from_file(
    file: str, *, model: str | None = None, additions: Additions | None = None, **fields: Unpack[AdoptFields]
) -> Adoption:
    """
    What a running deployment's own file does, and what should run instead. Fields as in `tonnage adopt --help`.

    `file` is its path. `current` of the answer is what runs today as a plan, `better` the plan that should replace it.

    Raises
    ------
    TonnageError
        The file cannot be read, or does not say what only the user knows. That it cannot run is an answer: `feasible`
        is False.
    """
    from tonnage.adopt import read_running
    from tonnage.catalog import NOTHING
    from tonnage.core.files import read_text
    from tonnage.questions.adopt.adopt import adopt as answer
    from tonnage.questions.adopt.question import adopt_request
    from tonnage.questions.answers import with_html_view

    own, text = additions or NOTHING, read_text(file)
    asked = adopt_request(_in_base_units("adopt", {"file": text, "model": model, **fields}), additions=own)
    return with_html_view(answer(asked, read_running(text, name=file), additions=own))


def advise(
    file: str,
    *sources: str,
    look: Mapping[str, str] | None = None,
    reuse: str | None = None,
    calibrate: bool = True,
    additions: Additions | None = None,
    **fields: Unpack[AdoptFields],
) -> Advice:
    """
    What to change in the service that `file` starts, by what every source shows of it, the most money first.

    `file` is its path; a source is its Prometheus, a live metrics page or a saved one, a measurement. `look` says how:
    window, match, every, key_env, log (a file of its requests, replayed on each change). `reuse` is the share of a
    prompt that an earlier one began with ("40%"). Its own latencies calibrate the model of it unless `calibrate` is
    False. Fields as in `tonnage advise --help`.

    Raises
    ------
    TonnageError
        A source cannot be read or lacks the traffic, or the file does not say what runs.
    """
    from tonnage.adopt import read_running
    from tonnage.catalog import NOTHING
    from tonnage.core.files import read_text
    from tonnage.measure.diagnose.sources import watch_of
    from tonnage.measure.points import look_at_service
    from tonnage.questions.adopt.question import adopt_request
    from tonnage.questions.adopt.service import View, advise_service
    from tonnage.questions.answers import with_html_view

    own, text = additions or NOTHING, read_text(file)
    asked = adopt_request(_in_base_units("adopt", {"file": text, **fields}), additions=own)
    running = read_running(text, name=file)
    how = dict(look or {})
    log = how.pop("log", None)
    looked = look_at_service(*sources, watch=watch_of(how))
    view = View(pages=looked.pages, reuse=reuse, log=log, measured=looked.measured, calibrates=calibrate)
    return with_html_view(advise_service(asked, running, found=looked.diagnosis, view=view, additions=own))


def trace(log: str) -> TraceSessions:
    """
    The sessions of a request log, and how much of its prompts caches of some sizes find again.

    `log` is a file (CSV or JSON lines, gzipped or not) or the name of a fetched public log (`tonnage catalog traces`).
    Without block ids (`hash_ids`) it has lengths and times alone: `profile` is None.

    Raises
    ------
    TonnageError
        The log is missing, empty or damaged.
    """
    from tonnage.questions.answers import with_html_view
    from tonnage.questions.sessions.logs import trace_sessions

    return with_html_view(trace_sessions(log))


def rent_or_buy(machine: str, *, additions: Additions | None = None, **fields: Unpack[RentOrBuyFields]) -> RentOrBuy:
    """
    Owning a machine against renting its accelerators. Fields as in `tonnage cost rent-or-buy --help`.

    Raises
    ------
    TonnageError
        A field is wrong. That nobody rents the accelerator is an answer: `feasible` is False.
    """
    from tonnage.catalog import NOTHING
    from tonnage.questions.answers import with_html_view
    from tonnage.questions.cost.inputs import rent_or_buy_request
    from tonnage.questions.cost.rent_or_buy import rent_or_buy as answer

    own = additions or NOTHING
    asked = rent_or_buy_request(_in_base_units("rent-or-buy", {"machine": machine, **fields}), additions=own)
    return with_html_view(answer(asked, additions=own))


def plan_train(model: str, *, additions: Additions | None = None, **fields: Unpack[TrainFields]) -> TrainPlan:
    """
    Ranked, priced, explained ways to pre-train the model. Fields as in `tonnage plan train --help`.

    Raises
    ------
    TonnageError
        A field is wrong. That nothing can train it is an answer: `feasible` is False.
    """
    plan: TrainPlan = _plan_kind("train", {"model": model, **fields}, additions=additions)
    return plan


def plan_finetune(model: str, *, additions: Additions | None = None, **fields: Unpack[FinetuneFields]) -> TrainPlan:
    """
    Ranked, priced, explained ways to fine-tune the model. Fields as in `tonnage plan finetune --help`.

    Raises
    ------
    TonnageError
        A field is wrong. That nothing can tune it is an answer: `feasible` is False.
    """
    plan: TrainPlan = _plan_kind("finetune", {"model": model, **fields}, additions=additions)
    return plan


def near(case: Case | Mapping[str, Any], *, limit: int = 5, additions: Additions | None = None) -> tuple[Near, ...]:
    """
    What others measured and published near one configuration, the nearest first, and what differs in each.

    Raises
    ------
    TonnageError
        The case is malformed or names something unknown.
    """
    from tonnage.catalog import NOTHING
    from tonnage.core.near import near as answer

    return answer(_case(case), limit=limit, additions=additions or NOTHING)


def predict(
    case: Case | PredictServeFields | PredictTrainFields | PredictInferFields | PredictRlFields | Mapping[str, Any],
    *,
    additions: Additions | None = None,
    why: bool = False,
) -> Result:
    """
    What one configuration will do: a case noun, or the mapping that `tonnage predict` reads as a JSON line.

    With `why` the result's `opened` holds its times down to operators.

    Raises
    ------
    TonnageError
        The case is malformed or names something unknown.
    """
    from tonnage.catalog import NOTHING
    from tonnage.questions.predict.predict import predict as answer

    return answer(_case(case), additions=additions or NOTHING, why=why)


def explain(
    what: ServePlan | TrainPlan | Case | Mapping[str, Any], *, rank: int = 1, additions: Additions | None = None
) -> Breakdown:
    """
    The times of a plan's option or of a case, opened: TTFT, TPOT, rates or a step as trees of operators and overheads.

    Raises
    ------
    TonnageError
        As `predict`; or a plan without an option of that rank, or of a kind whose times are not opened.
    """
    from tonnage.catalog import NOTHING
    from tonnage.domain.case import InferCase, ServeCase, TrainCase
    from tonnage.errors import BadRequest
    from tonnage.questions.explain.explain import explain_case, explain_plan

    if isinstance(what, Mapping | ServeCase | TrainCase | InferCase):
        return explain_case(_case(what), additions=additions or NOTHING)
    found = explain_plan(what, rank=rank, additions=additions or NOTHING)
    if found is None:
        raise BadRequest("this plan has no times to open; feasible plans to serve, train or fine-tune have")
    return found


def _case(case: Any) -> Case:
    from msgspec import Struct

    from tonnage.questions.predict.case_lines import case_of_object, check_case

    if isinstance(case, Struct):
        return check_case(cast("Case", case))
    return case_of_object(dict(case) if isinstance(case, Mapping) else case)


def probe(folder: str | None = None) -> AbstractContextManager[Probe]:
    """
    `with tonnage.probe("records"):` around a PyTorch training loop: where each step's time goes, rank by rank.

    `tonnage measure train --from records` tells it. A pipeline that is no DataLoader goes through `data`, an optimizer
    that is not PyTorch's is followed by `step()` of what `with` gives.
    """
    from tonnage.measure.train.probe import probe as running

    return running(folder)


def probe_callback(folder: str | None = None) -> Any:
    """The same as a callback for Hugging Face's Trainer or for Lightning, which are not imported."""
    from tonnage.measure.train.callbacks import callback

    return callback(folder)


def accelerator(name: str, *, additions: Additions | None = None) -> Accelerator:
    """The accelerator of that id, alias or name."""
    from tonnage import catalog

    return catalog.accelerator(name, additions or catalog.NOTHING)


def model(spec: str, *, additions: Additions | None = None) -> Model:
    """The model from a catalogue name, a Hugging Face id, a path or a bare size."""
    from tonnage.catalog import NOTHING
    from tonnage.catalog.hub.resolve import resolve

    return resolve(spec, additions=additions or NOTHING)


def simulate(*, additions: Additions | None = None, **fields: Unpack[SimulateFields]) -> Simulated:
    """
    One configuration under its traffic, request by request. Fields as in a CASE file of `tonnage simulate`.

    Raises
    ------
    TonnageError
        A field is wrong. That the model does not fit is an answer: `fits` is False.
    """
    from tonnage.catalog import NOTHING
    from tonnage.questions.answers import with_html_view
    from tonnage.questions.simulate.simulate import simulate as answer
    from tonnage.questions.simulate.simulate import simulation_of

    return with_html_view(answer(simulation_of(_in_base_units("simulate", fields)), additions=additions or NOTHING))


def compare(
    *, ways: Mapping[str, Any] | None = None, additions: Additions | None = None, **fields: Unpack[SimulateFields]
) -> Comparison:
    """
    The same requests served in several ways. Fields as in a FILE of `tonnage compare`, its `ways` among them.

    Without ways: static, dynamic and continuous batches, and with two replicas or more separate prefill and decode.

    Raises
    ------
    TonnageError
        A field is wrong. That no way fits is an answer: `fits` is False.
    """
    from tonnage.catalog import NOTHING
    from tonnage.questions.answers import with_html_view
    from tonnage.questions.compare.compare import compare as answer
    from tonnage.questions.compare.compare import configurations_of

    asked = configurations_of({**_in_base_units("simulate", fields), "ways": ways})
    return with_html_view(answer(asked, additions=additions or NOTHING))


def calibrate(
    *measurements: str,
    points: Sequence[str] = (),
    save: str | None = None,
    options: Mapping[str, Any] | None = None,
    additions: Additions | None = None,
    **fields: Unpack[CalibrateFields],
) -> Calibrated:
    """
    A user's measurements become the numbers of their stack: files of `tonnage measure serve`, or of other tools.

    A metrics page's address and `history:12` are taken too; `points` are rows as pasted, with their lengths: "TPOT 21
    ms at 32 clients, 1024/256 tokens". Fields are those of `tonnage fields calibrate`; `options` maps engine settings
    to values (max_num_seqs=16). `save` is a file to write, which later answers take as `Additions(paths=[...])`, or
    "user": every one takes it.

    Raises
    ------
    TonnageError
        A file cannot be read, a field is wrong, or no load of the measurements can be used.
    """
    from pathlib import Path

    from tonnage.catalog import NOTHING
    from tonnage.catalog.additions import save_calibration
    from tonnage.measure.points import read_points, read_training
    from tonnage.questions.calibrate.calibrate import calibrate as answer
    from tonnage.questions.calibrate.question import calibrate_request, check_engine, stacks_of
    from tonnage.questions.calibrate.training import calibrate_training, train_rows_of

    own = additions or NOTHING
    settings = tuple(f"{name}={value}" for name, value in (options or {}).items())
    given = {**fields, **({"option": settings} if settings else {})}
    asked = calibrate_request(given, additions=own)
    trained = read_training(measurements, points)
    if not trained:
        check_engine(asked)
    found = [] if trained else read_points(measurements, points)
    machine = asked.machine or ""
    if trained:
        rows = [row for one in trained for row in train_rows_of(one, asked)]
        fitted = calibrate_training(rows, additions=own, machine=machine)
    else:
        fitted = answer(list(zip(found, stacks_of(found, asked), strict=True)), additions=own, machine=machine)
    if save is not None:
        save_calibration(fitted.calibration, None if save == "user" else Path(save))
    return fitted


def diagnose(
    *sources: str,
    model: str | None = None,
    accelerator: str | None = None,
    additions: Additions | None = None,
    **fields: Any,
) -> Diagnosis:
    """
    What limits a running system: sources and fields as in `tonnage diagnose --help`.

    Raises
    ------
    TonnageError
        A source cannot be read. That evidence lacks is an answer: `missing` says what to enable.
    """
    from tonnage.catalog import NOTHING
    from tonnage.measure.diagnose.sources import diagnose as answer
    from tonnage.measure.diagnose.sources import watch_of
    from tonnage.questions.adopt.service import stated_facts, with_plan
    from tonnage.questions.answers import with_html_view

    own = additions or NOTHING
    known = stated_facts(accelerator=accelerator, model=model, additions=own)
    baseline = fields.pop("baseline", None)
    found = answer(*sources, watch=watch_of(fields), baseline=baseline, known=known)
    return with_html_view(with_plan(found, model=model, additions=own) if model is not None else found)


def __getattr__(name: str) -> Any:
    """
    `plan_KIND` of a new kind of plan, until a typed function of that name stands here; at present every kind has one.

    Raises
    ------
    AttributeError
        Any other name, as of a module without this.
    """
    kind = name.removeprefix("plan_")
    if kind != name:
        from tonnage.questions.registry import KINDS
    if kind == name or kind not in KINDS:
        raise AttributeError(f"module 'tonnage' has no attribute '{name}'")

    def plan(*, additions: Additions | None = None, **fields: Any) -> Any:
        return _plan_kind(kind, fields, additions=additions)

    return plan


def _plan_kind(kind: str, fields: Mapping[str, Any], *, additions: Additions | None) -> Any:
    from tonnage.catalog import NOTHING
    from tonnage.questions.answers import with_html_view
    from tonnage.questions.ask import answer

    return with_html_view(answer(kind, _in_base_units(kind, fields), additions=additions or NOTHING))


def _in_base_units(question: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Plain numbers are in base units: rate=4 is 4/s, ttft=0.5 is 0.5 s."""
    from tonnage.core.reading import in_base_units
    from tonnage.questions.registry import REQUESTS

    return in_base_units(fields, REQUESTS[question])


def to_dict(answer: Any) -> dict[str, Any]:
    """An answer as plain dictionaries, lists, texts and numbers: what its `--json` holds."""
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(answer)
    return plain


def to_frame(answer: Any, what: str = "rows") -> Any:
    """
    Rows of an answer as a data frame: pandas where it is installed, else polars.

    Parameters
    ----------
    answer : an answer
    what : str
        rows: options of a plan, accelerators of a fit, offers of a comparison; nested values become columns named
        `bill.provider`, lists stay out. break_even: what would change a plan. tree: every node of what `explain`
        returns, with its path, depth, value [its unit], share of its number and evidence.

    Raises
    ------
    BadRequest
        The answer has no such rows, or neither library is installed.
    """
    from tonnage.questions.rows import frame

    return frame(answer, what)


def charts(answer: Any) -> tuple[Chart, ...]:
    """
    The pictures of an answer, the most telling first; none for kinds without.

    Each holds its numbers as a table (`columns`, `rows`); `chart.vega(theme)` is its Vega-Lite document, a plain
    dictionary for any renderer; a notebook shows it.
    """
    from tonnage.questions.answers import charts_of, with_html_view

    return tuple(map(with_html_view, charts_of(answer)))
