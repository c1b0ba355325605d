"""What one reader takes for one thing and another for something else: each must be refused, at every entrance."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

BAD_REQUEST: Final = 2
ASKED: Final = {"plan": "serve", "model": "8B", "rate": "2/s", "traffic": "chat", "ttft": "1 s", "accelerator": "L4"}
FIELDS: Final = (
    ("ttft", ("0,5 s", "1,500 ms", "1:30", "5 sec5", "½ s", "-1 s", "nan s", "1e400 s", "0x5 s")),
    ("rate", ("1,2,3/s", "1,5/s", "4 s", "4/s/s", "1e999/s", "4/month2")),
    ("budget", ("2,50 $/h", "2.50 €/h", "2,500 $/h")),
    ("kv_host_link", ("400 Gb/s", "400 Mb/s", "400 b/s", "400 gbps", "400")),
    ("prompt_tokens", ("8.192", "8.192 k4")),
    ("kv_host", ("80 Gb", "80", "80 GBB", "8,0 GB")),
    ("rate", ("+-4/s", "4..5/s")),
)
"""A field, and texts that are read in more than one way."""
_HEAD: Final = "time,prompt_tokens,output_tokens\n"
TRACES: Final = {
    "milliseconds of the clock": _HEAD + "1700000000123,9,9\n1700000060123,9,9\n",
    "an exponent in a date": _HEAD + "2023-11-16 18:15:46.1e5,9,9\n2023-11-16 18:15:47,9,9\n",
    "an offset beside none": _HEAD + "2023-11-16T18:15:46+02:00,9,9\n2023-11-16 18:15:50,9,9\n",
    "Z beside none": _HEAD + "2023-11-16T18:15:46Z,9,9\n2023-11-16 18:15:50,9,9\n",
    "decimal commas": _HEAD + '"0,5",9,9\n"1,5",9,9\n',
    "days of a spreadsheet": _HEAD + "".join(f"{45246.5 + i / 86400:.8f},9,9\n" for i in range(60)),
    "two lengths of prompts": "time,prompt_tokens,input_tokens,output_tokens\n0,9,99,9\n",
    "two times": "time,timestamp,prompt_tokens,output_tokens\n0,5,9,9\n",
    "tokens with a comma": _HEAD + '0,"1,5",9\n1,9,9\n',
}
NAMED_TWICE: Final = '{"model": "8B", "rate": "2/s", "rate": "200/s", "traffic": "chat"}'
YAML: Final = {
    "a name given twice": "plan: serve\nmodel: 8B\nrate: 2/s\nrate: 200/s\ntraffic: chat\n",
    "minutes to the base of 60": "plan: serve\nmodel: 8B\nrate: 2/s\ntraffic: chat\nttft: 1:30\n",
    "an octal number": "plan: serve\nmodel: 8B\nconcurrency: 010\ntraffic: chat\n",
    "an anchor": "plan: serve\nmodel: &a 8B\nrate: 2/s\ntraffic: *a\n",
}
PASTED: Final = (
    "TPOT 2,5 ms at 32 clients",
    "TPOT 21 ms at 3,2 clients",
    "TPOT 21 at 32 clients",
    "TPOT 1.2.3 ms at 3 clients",
    "TPOT -21 ms at 32 clients",
    "TPOT 21 ms at 1e3 clients",
    "TPOT 21 ms at 32 to 64 clients",
)
DEPLOYED: Final = {
    "a fraction of a count": "vllm serve a/b --tensor-parallel-size 2.5",
    "a decimal comma": "vllm serve a/b --gpu-memory-utilization 0,9",
}
QUOTED: Final = {
    "price": ("1,95", "$2,50/h", "€1.95/h", "$16/h for 8", "$2/day", "2:30", "010", "1.95 cents/h"),
    "term": ("12", "12 m", "12 min", "1,5 years", "2027-01-01"),
    "minimum": ("1.5", "1,000", "2 nodes", "010"),
    "take_or_pay": ("80", "0,8", "120 %"),
    "upfront": ("30", "$1000"),
    "ramp": ("[4=32, 1=16]", "[1=16, 4=8]", "[1=16.5]", "{1: 16}"),
    "start": ("15.1.2027", "01/02/2027", "2027-02-30"),
    "as_of": ("2099-01-01", "yesterday"),
    "network": ("400 Gb/s", "400"),
    "country": ("UK", "USA"),
}
"""A field of a quote, and texts of a file that are read in more than one way, or in none."""
MANIFESTS: Final = {
    "replicas that are no count": "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 2.5\n  template: {}\n",
    "a name given twice": "services:\n  a:\n    image: vllm/vllm-openai:v0.9.0\n    command: a\n    command: b\n",
}


def refused(take: Callable[[], object]) -> bool:
    """Whether it is refused with one sentence."""
    from tonnage.errors import TonnageError

    try:
        take()
    except TonnageError as wrong:
        return bool(str(wrong).strip()) and "\n" not in str(wrong)
    return False


def _command(*arguments: str) -> None:
    """The command line as a terminal has it: exit code 2 with one sentence is a refusal, and nothing else is."""
    from click.testing import CliRunner

    from tonnage.cli import root
    from tonnage.errors import BadRequest

    told = CliRunner().invoke(root, list(arguments))
    if told.exit_code == BAD_REQUEST and isinstance(told.exception, SystemExit):
        raise BadRequest(told.stderr.strip())


def _options(field: str, text: str) -> None:
    flags = [
        part
        for name, value in {**ASKED, field: text}.items()
        if name not in ("plan", "model")
        for part in (f"--{name.replace('_', '-')}", value)
    ]
    _command("plan", "serve", "8B", *flags)


def _file(content: str, *command: str, name: str = "request.yaml") -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(content, encoding="utf-8")
        _command(*command, str(path))


def _quoted(field: str, text: str) -> None:
    from tonnage.core.quotes import quotes_of_file
    from tonnage.questions.serve.question import serve_request

    entry = {"accelerator": "H100", "price": "$2/h", "term": "12 months", field: text}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quotes.yaml"
        path.write_text(
            "- {" + ", ".join(f"{name}: {value}" for name, value in entry.items()) + "}\n", encoding="utf-8"
        )
        serve_request({"model": "8B", "rate": "2/s", "quotes": quotes_of_file(str(path))})


def _posted(body: dict[str, Any]) -> None:
    from tonnage.catalog import NOTHING
    from tonnage.web.answering import answer_form
    from tonnage.web.guard import json_object
    from tonnage.web.questions import QUESTIONS, parse_form_lists

    question = QUESTIONS["plan/serve"]
    answer_form(question, parse_form_lists(question, json_object(json.dumps(body).encode())), additions=NOTHING)


def _query(query: str) -> None:
    from urllib.parse import parse_qsl

    from tonnage.web.guard import single_fields

    single_fields(parse_qsl(query))


def _traced(text: str) -> None:
    from tonnage.catalog.traces import read_trace

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        path.write_text(text, encoding="utf-8")
        read_trace(path)


def _every() -> list[tuple[str, str, Callable[[], object]]]:
    from tonnage.adopt import read_running
    from tonnage.measure.points import read_pasted
    from tonnage.web.guard import json_object

    found: list[tuple[str, str, Callable[[], object]]] = []
    for field, texts in FIELDS:
        for text in texts:
            whole = {**ASKED, field: text}
            body = {name: value for name, value in whole.items() if name != "plan"}
            lines = "".join(
                f"{name}: {value if name != field else json.dumps(value)}\n" for name, value in whole.items()
            )
            found += [
                ("command line", f"{field} {text}", lambda field=field, text=text: _options(field, text)),
                ("YAML file", f"{field} {text}", lambda lines=lines: _file(lines, "plan")),
                ("HTTP", f"{field} {text}", lambda body=body: _posted(body)),
            ]
    found += [("YAML file", why, lambda text=text: _file(text, "plan")) for why, text in YAML.items()]
    found += [
        ("JSON file", "a name given twice", lambda: _file(NAMED_TWICE, "plan", "serve", name="request.json")),
        ("HTTP", "a name given twice in JSON", lambda: json_object(NAMED_TWICE.encode())),
        ("HTTP", "a field given twice", lambda: _query("model=8B&rate=2/s&rate=200/s")),
    ]
    found += [
        ("file of quotes", f"{field} {text}", lambda field=field, text=text: _quoted(field, text))
        for field, texts in QUOTED.items()
        for text in texts
    ]
    found += [("trace", why, lambda text=text: _traced(text)) for why, text in TRACES.items()]
    found += [
        ("pasted row", text, lambda text=text: read_pasted(text, prompt_tokens=9, output_tokens=9)) for text in PASTED
    ]
    found += [
        ("running file", why, lambda text=text: _strict(read_running(text, name="run.sh")))
        for why, text in DEPLOYED.items()
    ]
    found += [
        ("running file", why, lambda text=text: read_running(text, name="a.yaml")) for why, text in MANIFESTS.items()
    ]
    return found


def _strict(running: Any) -> None:
    """What an option's value cannot mean is named among what was not understood, and not taken."""
    from tonnage.errors import BadRequest

    if running.unknown and not running.settings:
        raise BadRequest("; ".join(running.unknown))


MISREAD = _every()
"""Where, what, and how it is put there."""
