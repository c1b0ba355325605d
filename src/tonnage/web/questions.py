"""Which questions the page asks: one row per form, from the same declarations as command line and files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage.catalog import Additions
from tonnage.core.files import read_written
from tonnage.core.reading import check_value, request_fields
from tonnage.domain.answer import Breakdown
from tonnage.domain.cost import RentOrBuy
from tonnage.domain.diagnosis import Diagnosis
from tonnage.domain.machine import LocalAnswer
from tonnage.domain.requests.field import Field, accelerator_field, groups_of
from tonnage.domain.sessions import TraceSessions
from tonnage.domain.simulate import Simulated
from tonnage.errors import BadRequest, TonnageError, echo
from tonnage.questions import question as kinds
from tonnage.questions.adopt.question import Adoption, Advice
from tonnage.questions.compare.answer import Comparison
from tonnage.questions.fit.question import FitAnswer
from tonnage.questions.own.question import LocalRequest
from tonnage.questions.question import LENGTHS, LLAMA_8B, Form
from tonnage.questions.registry import KINDS, REQUESTS
from tonnage.version import can_simulate
from tonnage.web.examples import CASE, LOG, METRICS, SERVICE, WAYS
from tonnage.web.measured import with_choice


class Question(Form, kw_only=True):
    """One form: where it lives, what it asks, how it is answered and shown."""

    path: str
    fields: tuple[Field, ...]
    answers: type
    kind: str = ""
    """Of plan, for those that `ask` knows."""
    told: bool = False
    """Its work says how far it is."""

    @property
    def as_yaml(self) -> tuple[str, ...]:
        """Fields that a form takes as YAML: those of `written`, and fields that hold a list of entries."""
        return (*self.written, *(field.name for field in self.fields if field.reads == "entries"))


TEXTS: Final = frozenset({"file", "page", "log"})
"""Fields in a large box that hold a text of their own, not our YAML."""
MAX_REQUESTS: Final = 200_000
"""That a simulation plays for the page."""


def _form(struct: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Every field of a question, those of groups as group.field, and lists of groups as one text."""
    found = list(request_fields(struct))
    for group in groups_of(struct):
        if group.many:
            found.append(Field(group.help, name=group.name))
        else:
            inner = [f for f in request_fields(group.of) if f.name != "model" and f.reads != "entries"]
            found += [msgspec.structs.replace(field, name=f"{group.name}.{field.name}") for field in inner]
    return tuple(found)


_SIMULATE_FIELDS: Final = tuple(
    msgspec.structs.replace(field, high=MAX_REQUESTS) if field.name == "traffic.requests" else field
    for field in _form(REQUESTS["simulate"])
    if field.name != "traffic.trace"  # a file of this machine
)
_SIMULATE_FIRST: Final = (
    "model", "accelerator", "traffic.profile", "traffic.rate", "traffic.concurrency", "traffic.prompt_tokens",
    "traffic.output_tokens", "traffic.requests", "slo.ttft", "slo.tpot", "layout.tp", "replicas",
)  # fmt: skip
_COMPARE_FIELDS: Final = (
    *(field for field in _SIMULATE_FIELDS if field.name != "capacity"),
    Field("a name and what differs, a line each; left out: static, dynamic, continuous and disaggregated", name="ways"),
)

_SHORTER: Final = (
    "ask for fewer requests (traffic.requests: 20000) or without capacity, or follow it as a job without a limit: "
    "the same fields at GET /progress"
)


_EXPLAIN_FIELDS: Final = (
    Field("a plan or prediction as JSON, or a case as YAML: pasted, or chosen as a file", name="file"),
    Field("which option of a plan, from 1", "integer", name="option", low=0, high=1000),
)
_DIAGNOSE_FIELDS: Final = (
    Field("a scraped metrics page, or results of a measurement: pasted, or chosen as a file", name="file"),
    accelerator_field("accelerator of the system, for its peaks", name="accelerator"),
    Field("the model that runs: the plan that would do is shown", name="model"),
)
_ADVISE_FIELDS: Final = (
    *_form(REQUESTS["adopt"]),
    Field("metrics page of one replica, or a measurement of it: pasted, or chosen as a file", name="page"),
    Field("of a prompt, what an earlier prompt began with: 40%", "fraction", name="reuse"),
    Field("requests as a gateway logged them, CSV or JSON lines: replayed on each change", name="log"),
)

OWN_LENGTHS: Final = "own"
"""In place of a traffic profile: the lengths that are stated."""


def _plan(question: kinds.Question) -> Question:
    """The form of a kind of plan."""
    path, fields, form = f"plan/{question.name}", _form(question.request), msgspec.structs.asdict(question.form)
    return Question(path=path, kind=question.name, fields=fields, answers=question.answer, **form)


QUESTIONS: Final[dict[str, Question]] = {
    question.path: with_choice(question)
    for question in (
        *map(_plan, KINDS.values()),
        Question(
            path="fit", title="Does it fit?", short="Check fit", button="Check",
            about="What fills an accelerator's memory, and the largest context and batch that fit.",
            fields=_form(REQUESTS["fit"]), answers=FitAnswer,
            essentials=("model", "accelerator", "context", "concurrency", "precision", "tp", "finetune", "batch",
                        "seq_len"),
            example={"model": LLAMA_8B, "accelerator": "RTX 4090", "context": "8k"},
            instead="name an accelerator",
        ),
        Question(
            path="local", title="What runs on my machine?", short="My hardware", button="Show models",
            about="Models and formats that run on a machine, their speed and longest context.",
            fields=_form(LocalRequest), answers=LocalAnswer,
            essentials=("accelerator", "memory", "context", "min_speed", "model", "every_format"),
            example={"accelerator": "RTX 4090", "memory": "64 GB", "context": "8k", "every_format": "true"},
        ),
        Question(
            path="cost/rent-or-buy", title="Rent or buy?", button="Calculate",
            about="From which use on, and after how many years, buying a machine costs less than renting one.",
            fields=_form(REQUESTS["rent-or-buy"]), answers=RentOrBuy,
            essentials=("machine", "utilisation", "country", "rent", "term", "eu", "purchase", "electricity", "years"),
            example={"machine": "H100", "utilisation": "60 %", "country": "DE"},
            instead="name an accelerator as the machine",
        ),
        Question(
            path="simulate", told=True, title="Simulate one configuration", button="Simulate",
            about="One configuration under its traffic, request by request: every latency.",
            fields=_SIMULATE_FIELDS, answers=Simulated,
            essentials=(*_SIMULATE_FIRST, "capacity"),
            example={"model": LLAMA_8B, "accelerator": "H100", "traffic.profile": "chat", "traffic.rate": "6/s",
                     "slo.ttft": "1 s", "slo.tpot": "50 ms"},
            instead=_SHORTER,
        ),
        Question(
            path="compare/ways", told=True, title="Compare ways to batch", button="Compare",
            about="The same requests through two or more configurations, side by side.",
            fields=_COMPARE_FIELDS, answers=Comparison,
            essentials=(*_SIMULATE_FIRST, "ways"), written=("ways",),
            example={"model": LLAMA_8B, "accelerator": "H100", "traffic.profile": "chat", "traffic.rate": "6/s",
                     "traffic.requests": "5000", "slo.ttft": "1 s", "slo.tpot": "50 ms", "ways": WAYS},
            instead=_SHORTER,
        ),
        Question(
            path="adopt", title="What should run instead?", at_first="quick",
            about="What a running deployment does and costs, by its own file, and what should run instead.",
            fields=_form(REQUESTS["adopt"]), answers=Adoption, written=("file",),
            essentials=("file", "accelerator", "replicas", "rate", "traffic", "ttft", "tpot", "provider", "count",
                        "tokens"),
            example={"file": f"vllm serve {LLAMA_8B} --max-model-len 16384 --max-num-seqs 64", "accelerator": "H100",
                     "traffic": "chat", "ttft": "1 s", "tpot": "50 ms"},
            instead="name a provider, or ask on the command line, which has no limit",
        ),
        Question(
            path="advise", title="What to change in a service", button="Advise",
            about="What to change in a running service, by its file and metrics page, each with money, risk and check.",
            fields=_ADVISE_FIELDS, answers=Advice, written=("file", "page", "log"),
            essentials=("file", "page", "accelerator", "replicas", "rate", "ttft", "tpot", "reuse", "provider"),
            example={"file": f"vllm serve {LLAMA_8B} --max-model-len 16384 --max-num-seqs 8", "page": SERVICE,
                     "accelerator": "H100", "replicas": "4", "rate": "10/s", "ttft": "1 s", "tpot": "50 ms",
                     "provider": "lambda"},
            instead="name a provider, or ask on the command line, which has no limit",
        ),
        Question(
            path="explain", title="Explain a number", button="Explain",
            about="Each time of a plan, a case or a prediction, down to its operators and their sources.",
            fields=_EXPLAIN_FIELDS, answers=Breakdown, written=("file",), essentials=("file", "option"),
            example={"file": CASE},
        ),
        Question(
            path="diagnose", title="Diagnose a running system", button="Diagnose",
            about="What limits a system, by a metrics page or a measurement: the evidence and the next step.",
            fields=_DIAGNOSE_FIELDS, answers=Diagnosis, written=("file",), essentials=("file", "accelerator", "model"),
            example={"file": METRICS, "accelerator": "H100"},
        ),
        Question(
            path="trace", title="Sessions of a request log", button="Read the log",
            about="The sessions in a log with block ids, and what share of its prompts caches of several sizes find.",
            fields=(Field("a request log, CSV or JSON lines with hash_ids: pasted, or a file", name="file"),),
            answers=TraceSessions, written=("file",), essentials=("file",), example={"file": LOG},
            instead="give a part of the log, or ask on the command line, which has no limit",
        ),
    )
}  # fmt: skip
"""Every form by its path, in the order the page lists them."""


def field_problems(question: Question, given: Mapping[str, str], *, additions: Additions) -> dict[str, str]:
    """What is wrong with each field by itself, in the order of the form, which says it all at once; empty = nothing."""
    found: dict[str, str] = {}
    if given.get("traffic") == OWN_LENGTHS:
        found = {name: _missing(name) for name in LENGTHS if not given.get(name)}
    for field in question.fields:
        name, value = field.name, given.get(field.name)
        own = name == "traffic" and value == OWN_LENGTHS
        if name not in question.as_yaml and value and not own:
            try:
                check_value(value, field, additions=additions)
            except TonnageError as wrong:
                found[name] = str(wrong)
    return found


def nest_form_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """
    Form names with dots as the mappings they stand for: serve.rate=4/s -> {serve: {rate: 4/s}}; empty ones drop.

    Raises
    ------
    BadRequest
        Lengths of one's own are chosen as traffic, and one of them is not set.
    """
    if fields.get("traffic") == OWN_LENGTHS:
        missing = [name for name in LENGTHS if not fields.get(name)]
        if missing:
            raise BadRequest(_missing(missing[0]))
        fields = {name: value for name, value in fields.items() if name != "traffic"}
    request: dict[str, Any] = {}
    for name, value in fields.items():
        if value is None or value in ("", []):
            continue
        group, dot, inner = name.partition(".")
        if dot:
            request.setdefault(group, {})[inner] = value
        else:
            request[name] = value
    return request


def _missing(name: str) -> str:
    return f"{name} is missing: own lengths are chosen as traffic; set both, or choose a profile such as chat"


def at_first(question: Question, given: Mapping[str, str]) -> dict[str, Any] | None:
    """
    The request whose answer is there at once; None where the whole one is, where the asker has decided,
    or where nothing can simulate.
    """
    if not question.at_first or question.at_first in given or not can_simulate():
        return None
    return nest_form_names({**given, question.at_first: "true"})


def parse_form_lists(question: Question, request: Mapping[str, Any]) -> dict[str, Any]:
    """
    The request with lists in place of the YAML that a form holds for them.

    Raises
    ------
    BadFact
        It is no YAML.
    BadRequest
        A group of fields is something else, a field is a group, or a text or list is empty.
    """
    texts = TEXTS & set(question.as_yaml)
    groups = {group for field in question.fields if (group := field.name.partition(".")[0]) != field.name}
    read = {
        name: read_written(value, what=name)
        if name in question.as_yaml and name not in texts and isinstance(value, str) and value
        else value
        for name, value in request.items()
    }
    for name, value in read.items():
        if name in groups and value is not None and not isinstance(value, Mapping):
            inner = next(field.name for field in question.fields if field.name.startswith(f"{name}."))
            raise BadRequest(
                f"{name}: a group of fields is expected, such as {{{inner.partition('.')[2]}: …}}, not '{echo(value)}'"
            )
        if isinstance(value, Mapping) and name not in (*groups, *question.as_yaml):
            raise BadRequest(f"{name}: one value is expected, not '{echo(value)}'")
        _nothing_empty([] if name in question.as_yaml and value == {} else value, name)
    return read


def _nothing_empty(value: Any, name: str) -> None:
    """Nothing is said by leaving a field out; an empty text or list is more likely a program's mistake."""
    if value in ("", []):
        raise BadRequest(f"{name}: it is empty; give at least one, or leave the field out")
    if isinstance(value, Mapping | list):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value, 1)
        for key, item in inner:
            _nothing_empty(item, f"{name}.{key}")
