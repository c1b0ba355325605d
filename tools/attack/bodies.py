"""Bodies of up to 1 MiB: what refusing them costs, at every field and list of every question, at each entrance."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tools.attack.rows import Outcome, Row

MOST_S: Final = 1.0
"""CPU time of a refusal."""
LONGEST: Final = 2048
"""Bytes of a refusal."""
SHAPES: Final[dict[str, Any]] = {
    "a long text": "x" * 1_000_000,
    "digits": "9" * 1_000_000,
    "commas": "H100," * 200_000,
    "brackets": "[" * 1_000_000,
    "lines": "a: 1\n" * 200_000,
    "other names": [f"h10{n}" for n in range(19_000)],
    "one name": ["H100"] * 19_000,
    "more values": ["1"] * 240_000,
    "numbers": list(range(19_000)),
    "unknown fields": {f"x{n}": n for n in range(20_000)},
    "known fields, nearly": {f"acelerator{n}": n for n in range(240)},
    "groups": [{"x": 1}] * 20_000,
    "groups of near names": [{f"modell{n}": 1 for n in range(200)}] * 100,
    "depth": json.loads("[" * 38 + "1" + "]" * 38),
    "depth and width": [[[[[[1] * 6] * 6] * 6] * 6] * 6],
    "a large number": 1e308,
    "a digit too many": 10**4000,
}
CASES: Final[dict[str, dict[str, Any]]] = {
    "serve": {"kind": "serve", "model": "8B", "accelerator": "H100", "isl": 512, "osl": 128, "traffic": {"batch": 4}},
    "train": {"kind": "train", "model": "8B", "accelerator": "H100", "method": "lora", "sequence": 1024,
              "micro_batch": 1, "num_accelerators": 1},
    "infer": {"kind": "infer", "model": "resnet50", "accelerator": "H100", "batch": 8},
}  # fmt: skip
CONFIG: Final = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
}  # fmt: skip
Path = tuple[str | int, ...]


class Body(NamedTuple):
    """One question with one value in one of its places."""

    question: str
    place: Path
    shape: str
    fields: dict[str, Any]


def bodies(only: Callable[[int], bool] = lambda _: True) -> Iterator[Body]:
    """Every shape in every place of every question: its fields, and each value of its example."""
    number = itertools.count()
    for question, (example, names) in questions().items():
        places = [*dict.fromkeys((*names, *_places(example), ("what no question has",), ("model", "layers")))]
        for place, (shape, value) in itertools.product(places, SHAPES.items()):
            if only(next(number)):
                yield Body(question, place, shape, _with(example, place, value))
        if only(next(number)):
            yield Body(question, ("*",), "every field a long text", {"".join(map(str, n)): "x" * 9_000 for n in names})


def questions() -> dict[str, tuple[dict[str, Any], list[Path]]]:
    """By the address of each, a quick example and the places of its fields."""
    from tonnage.core.reading import request_fields
    from tonnage.questions.registry import CASES as KINDS_OF_CASES
    from tonnage.web.questions import QUESTIONS, nest_form_names, parse_form_lists

    found: dict[str, tuple[dict[str, Any], list[Path]]] = {}
    for path, question in QUESTIONS.items():
        places: list[Path] = [tuple(field.name.split(".")) for field in question.fields]
        example = parse_form_lists(question, nest_form_names(question.example))
        found[path] = example | ({"quick": True} if ("quick",) in places else {}), places
    for kind, case in CASES.items():
        fields = [("cases", 0, field.name) for field in request_fields(KINDS_OF_CASES[kind])]
        found[f"predict {kind}"] = {"cases": [case]}, [*fields]
    found["models"] = dict(CONFIG), [("quantization_config",), ("layer_types",), ("rope_scaling", "type")]
    return found


def _places(value: Any, at: Path = ()) -> Iterator[Path]:
    """Where something stands in a value; of equal entries the first."""
    if at:
        yield at
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _places(inner, (*at, name))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*at, 0))


def _with(value: Any, place: Path, new: Any) -> Any:
    if not place:
        return new
    name, *rest = place
    if isinstance(name, int) and isinstance(value, list):
        return [_with(value[0], tuple(rest), new), *value[1:]]
    held = value if isinstance(value, Mapping) else {}
    return {**held, name: _with(held.get(str(name), {}), tuple(rest), new)}


def address_of(body: Body) -> str:
    """Where it is sent."""
    return "/" + body.question.partition(" ")[0]


def _posted(body: Body) -> None:
    """As a worker of the server reads it, by the server's own functions."""
    from tonnage.catalog import NOTHING
    from tonnage.web import tasks
    from tonnage.web.guard import json_object
    from tonnage.web.records import Settings

    text = json.dumps(body.fields).encode()
    fields = json_object(text)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(additions=NOTHING, uploads=folder)
        if body.question.startswith("predict"):
            results = json.loads(tasks.predict(settings, body=fields))["results"]
            _raise_longest([one["error"] for one in results if "error" in one])
        elif body.question == "models":
            tasks.keep_model(settings, config=fields, text=text)
        else:
            tasks.ask(settings, path=body.question, request=fields)


def _tool(body: Body) -> None:
    """As a tool of an assistant."""
    from tonnage.catalog import NOTHING
    from tonnage.web.tool_results import PREDICT, TOOLS, call

    names = {path: name for name, path in TOOLS.items()}
    if body.question.startswith("predict"):
        cases = body.fields.get("cases", [])
        found = call(
            PREDICT, {**body.fields, "cases": cases[:50] if isinstance(cases, list) else cases}, additions=NOTHING
        )
        _raise_longest([one["error"] for one in found.data["results"] if "error" in one])
    elif body.question in names:
        call(names[body.question], body.fields, additions=NOTHING)
    else:
        _posted(body)


def _file(body: Body) -> None:
    """As a request file in YAML, by the command."""
    kind = body.question.rpartition("/")[2]
    if not body.question.startswith("plan/") or kind == "own":
        return _posted(body)
    lines = "".join(f"{json.dumps(name)}: {json.dumps(value)}\n" for name, value in body.fields.items())
    _said("plan", "-", given=f"plan: {kind}\n{lines}")


def _option(body: Body) -> None:
    """As one option of the command, which the system cuts at 128 KiB."""
    (name, *deeper), value = body.place or ("",), body.fields
    for part in body.place:
        value = value.get(part) if isinstance(value, Mapping) else value
    words = {"fit": ("fit", "8B"), "plan/serve": ("plan", "serve", "8B"), "plan/train": ("plan", "train", "8B"),
             "plan/batch": ("plan", "batch", "8B"), "cost/rent-or-buy": ("cost", "H100")}  # fmt: skip
    if deeper or not isinstance(value, str) or body.question not in words:
        return _posted(body)
    _said(*words[body.question], f"--{str(name).replace('_', '-')}", value[:131_000])


def _python(body: Body) -> None:
    """As a call from Python."""
    import tonnage

    kind = body.question.rpartition("/")[2]
    named = {"rent-or-buy": "rent_or_buy", "fit": "fit", "simulate": "simulate"}.get(kind, f"plan_{kind}")
    if not hasattr(tonnage, named):
        return _posted(body)
    getattr(tonnage, named)(**body.fields)


def _said(*arguments: str, given: str | None = None) -> None:
    from click.testing import CliRunner

    from tonnage.cli import root
    from tonnage.errors import BadRequest

    done = CliRunner().invoke(root, arguments, input=given, prog_name="tonnage")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code == 2:
        raise BadRequest(done.stderr)


def _raise_longest(sentences: list[str]) -> None:
    from tonnage.errors import BadRequest

    if sentences:
        raise BadRequest(max(sentences, key=len))


FACES: Final = {"HTTP": _posted, "tool": _tool, "file": _file, "option": _option, "Python": _python}


def refusals(share: float) -> Outcome:
    """Each body at one entrance, in turn: a refusal is short and cheap, and what is answered costs no more for it."""

    every = max(1, round(1 / share))
    usual: dict[tuple[str, str], float] = {}
    asked = questions()

    def usual_s(face: str, question: str) -> float:
        if (face, question) not in usual:
            usual[face, question] = _cpu_s(face, Body(question, (), "", asked[question][0]))[0]
        return usual[face, question]

    findings, count, refused, slowest, longest = list[str](), 0, 0, (0.0, ""), 0
    for number, body in enumerate(bodies(lambda n: n % every == 0)):
        face = face_of(number)
        usual_s("HTTP", body.question)  # whatever is read once is read by now
        what = f"{face} {body.question} {'.'.join(map(str, body.place))}: {body.shape}"
        try:
            spent, why = _cpu_s(face, body)
        except Exception as wrong:
            findings.append(f"{what}: {type(wrong).__name__} {wrong}"[:200])
            continue
        size, extra_s = len(why.encode()), spent if why else spent - usual_s(face, body.question)
        count, refused, longest, slowest = (
            count + 1,
            refused + bool(why),
            max(longest, size),
            max(slowest, (extra_s, what)),
        )
        if extra_s > MOST_S:
            findings.append(f"{what}: {spent:.1f} CPU s{'' if why else ', answered'}")
        if size > LONGEST:
            findings.append(f"{what}: a refusal of {size:,} bytes")
    told = f"{refused:,} refused, slowest {slowest[0]:.2f} CPU s ({slowest[1]}), longest {longest:,} bytes"
    return Outcome(count, tuple(findings), told)


def face_of(number: int) -> str:
    """The entrance that a body's turn brings."""
    return [*FACES][number % len(FACES)]


def asked(face: str, body: Body) -> str:
    """The sentence that refuses a body; empty where it is answered."""
    return _cpu_s(face, body)[1]


def _cpu_s(face: str, body: Body) -> tuple[float, str]:
    """CPU time, and the sentence of a refusal."""
    from tonnage.errors import TonnageError

    began = time.process_time()
    try:
        FACES[face](body)
        return time.process_time() - began, ""
    except TonnageError as wrong:
        return time.process_time() - began, str(wrong)


ROWS: Final = (
    Row(
        "a body of 1 MiB is refused within 1 CPU s and 2 kB",
        "17 shapes in every field and list of every question, by HTTP, tool, file, option and Python in turn",
        refusals,
    ),
)
