"""How each form is answered: by the functions that the command line and Python call; no file here is read."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from tonnage.catalog import Additions
from tonnage.core.reading import check_value
from tonnage.domain.answer import Breakdown
from tonnage.domain.cost import RentOrBuy
from tonnage.domain.diagnosis import Diagnosis
from tonnage.domain.machine import LocalAnswer
from tonnage.domain.sessions import TraceSessions
from tonnage.domain.simulate import Simulated, SimulationTraffic
from tonnage.errors import BadRequest, TonnageError, UnknownName
from tonnage.questions import ask
from tonnage.questions.adopt.question import Adopt, Adoption, Advice, Running
from tonnage.questions.compare.answer import Comparison
from tonnage.questions.fit.question import FitAnswer
from tonnage.web.measured import chosen
from tonnage.web.models import refuse_named_paths, refuse_paths
from tonnage.web.questions import MAX_REQUESTS, QUESTIONS, Question

Answer = TypeVar("Answer")
Watch = Callable[[int, int], None]


def answer_form(
    question: Question, request: Mapping[str, Any], *, additions: Additions, watch: Watch | None = None
) -> Any:
    """
    The answer to one form, with the calibrations that it chooses.

    `watch` takes how far it is, (done, all), where the question tells that.

    Raises
    ------
    TonnageError
        The request is wrong.
    """
    request, additions = chosen(request, additions)
    if question.kind:
        return ask.answer(question.kind, request, additions=additions)
    return _OTHERS[question.path](request, additions, watch)


def predict_each(
    cases: Iterable[object], *, additions: Additions, before: Callable[[object], object] = lambda case: case
) -> list[object]:
    """For each case, in their order, its prediction or {"error": sentence}; `before` gives the case to read."""
    from tonnage.questions.predict.case_lines import case_of_object
    from tonnage.questions.predict.predict import predict

    def one(case: object) -> object:
        try:
            return predict(case_of_object(before(case)), additions=additions)
        except TonnageError as wrong:
            return {"error": str(wrong)}

    return [one(case) for case in cases]


def _fit(request: Mapping[str, Any], additions: Additions, _: Watch | None) -> FitAnswer:
    from tonnage.questions.fit.fit import fit
    from tonnage.questions.fit.question import fit_request

    return fit(fit_request(request), additions=additions, offline=None)


def _local(request: Mapping[str, Any], additions: Additions, _: Watch | None) -> LocalAnswer:
    from tonnage.questions.own.local import asked_machine, local, local_request

    asked = local_request(request)
    if asked.accelerator is None:
        raise BadRequest("accelerator is missing: name the machine, for example 'RTX 4090' or 'M4 Max 64GB'")
    return local(asked, asked_machine(asked, additions=additions), additions=additions)


def _rent_or_buy(request: Mapping[str, Any], additions: Additions, _: Watch | None) -> RentOrBuy:
    from tonnage.questions.cost.inputs import rent_or_buy_request
    from tonnage.questions.cost.rent_or_buy import rent_or_buy

    return rent_or_buy(rent_or_buy_request(request, additions=additions), additions=additions)


def _simulate(request: Mapping[str, Any], additions: Additions, watch: Watch | None) -> Simulated:
    from tonnage.questions.simulate.simulate import simulate, simulation_of

    asked = simulation_of(request)
    _refuse_long(asked.traffic)
    return simulate(asked, additions=additions, watch=watch or (lambda *_: None))


def _compare(request: Mapping[str, Any], additions: Additions, watch: Watch | None) -> Comparison:
    from tonnage.questions.compare.compare import compare, configurations_of

    asked = configurations_of(request)
    _refuse_long(asked.ways[0][1].traffic)
    return compare(asked, additions=additions, watch=watch)


def _adopt(request: Mapping[str, Any], additions: Additions, _: Watch | None) -> Adoption:
    from tonnage.questions.adopt.adopt import adopt

    asked, running = _service(request, additions)
    return adopt(asked, running, additions=additions)


def _advise(request: Mapping[str, Any], additions: Additions, _: Watch | None) -> Advice:
    """Advice from the text that starts a service, its metrics page and, where given, a log of its requests."""
    from tonnage.measure.points import look_at_service
    from tonnage.questions.adopt.service import View, advise_service

    given = dict(request)
    page, log = given.pop("page", None), given.pop("log", None)
    reuse = None if (one := given.pop("reuse", None)) is None else str(one)
    if not isinstance(page, str) or not page.strip():
        raise BadRequest("page is missing: paste the metrics page of one replica, or choose it")
    asked, running = _service(given, additions)
    if log is not None and not (isinstance(log, str) and log.strip()):
        raise BadRequest("log is empty: paste requests as CSV or JSON lines, choose a file, or leave it out")

    def advised(place: str) -> Advice:
        looked = look_at_service(place)
        view = View(pages=looked.pages, reuse=reuse, measured=looked.measured)
        if log is None:
            return advise_service(asked, running, found=looked.diagnosis, view=view, additions=additions)
        return _read_as_file(
            log,
            lambda requests: advise_service(
                asked,
                running,
                found=looked.diagnosis,
                view=msgspec.structs.replace(view, log=requests),
                additions=additions,
            ),
            name="log",
        )

    return _read_as_file(page, advised, name="page")


def _service(request: Mapping[str, Any], additions: Additions) -> tuple[Adopt, Running]:
    """What is asked of a service, and what its file says; a model that it names is never a path of this machine."""
    from tonnage.adopt import read_running
    from tonnage.questions.adopt.question import adopt_request

    asked = adopt_request(request, additions=additions)
    running = read_running(asked.file)
    for name in (running.model, running.model.rsplit("/", 1)[-1].partition(".gguf")[0]) if asked.model is None else ():
        refuse_paths(name or "a/b")
    return asked, running


def _explain(request: Mapping[str, Any], additions: Additions, _: Watch | None) -> Breakdown:
    """The times of a pasted plan's option, or of a case, opened; refused where there are none."""
    from tonnage.questions.explain.explain import explain_text

    text = _given_fields(request, "explain", additions)
    rank = float(str(request.get("option") or 1))
    if rank != int(rank) or rank < 1:
        raise BadRequest(f"option: '{request['option']}' is not the rank of an option, counted from 1")
    found = explain_text(text, what="file", rank=int(rank), additions=additions, check=refuse_named_paths)
    if not found.breakdowns:
        raise BadRequest("file: this plan has no times to open; plans that serve or train with an option have")
    return found.breakdowns[0]


def _diagnose(request: Mapping[str, Any], additions: Additions, _: Watch | None) -> Diagnosis:
    from tonnage.measure.diagnose.sources import diagnose
    from tonnage.questions.adopt.service import stated_facts, with_plan

    text = _given_fields(request, "diagnose", additions)
    model, accelerator = (None if (one := request.get(name)) is None else str(one) for name in ("model", "accelerator"))
    known = stated_facts(accelerator=accelerator, model=model, additions=additions)
    found = _read_as_file(text, lambda place: diagnose(place, known=known))
    return found if model is None else with_plan(found, model=model, additions=additions)


def _trace(request: Mapping[str, Any], additions: Additions, _: Watch | None) -> TraceSessions:
    from tonnage.questions.sessions.logs import trace_sessions

    return _read_as_file(_given_fields(request, "trace", additions), trace_sessions)


def _read_as_file(text: str, read: Callable[[str], Answer], *, name: str = "file") -> Answer:
    """
    What a reader of files says of a text, which is written to a file for it and removed afterwards.

    Its path stands in no answer and no message: `name` does.
    """
    with tempfile.TemporaryDirectory(prefix="tonnage-") as folder:
        place = str(Path(folder) / name)
        Path(place).write_text(text, encoding="utf-8")
        try:
            found = read(place)
        except TonnageError as wrong:
            raise BadRequest(str(wrong).replace(place, name)) from None
    return msgspec.json.decode(msgspec.json.encode(found).replace(place.encode(), name.encode()), type=type(found))


def _given_fields(request: Mapping[str, Any], path: str, additions: Additions) -> str:
    """The text of the field `file`, which must be given; every other field is checked, and an unknown one refused."""
    known = {field.name: field for field in QUESTIONS[path].fields}
    for name, value in request.items():
        if name not in known:
            raise UnknownName("field", name, known=known)
        if name != "file" and value is not None:
            check_value(value, known[name], additions=additions)
    text = request.get("file")
    if not isinstance(text, str) or not text.strip():
        raise BadRequest("file is missing: paste its text, or choose it")
    return text


def _refuse_long(traffic: SimulationTraffic) -> None:
    if traffic.num_requests is not None and traffic.num_requests > MAX_REQUESTS:
        raise BadRequest(f"traffic.requests: at most {MAX_REQUESTS:,} are played here; the command line has no limit")


_OTHERS: Final[dict[str, Callable[[Mapping[str, Any], Additions, Watch | None], Any]]] = {
    "fit": _fit,
    "local": _local,
    "cost/rent-or-buy": _rent_or_buy,
    "simulate": _simulate,
    "compare/ways": _compare,
    "adopt": _adopt,
    "advise": _advise,
    "explain": _explain,
    "diagnose": _diagnose,
    "trace": _trace,
}
