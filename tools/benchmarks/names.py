"""
Is what was asked answered, and nothing like it? Misspelt and unfit names, over command line, Python, HTTP and MCP.

    python -m tools.benchmarks.names                500 requests, a minute or two; the faults and a table
    python -m tools.benchmarks.names --count 2000 --seed 7

Names of the catalogue's accelerators and models are misspelt (a character dropped, doubled, swapped, another digit),
given words and sizes that they do not have, or asked for what they cannot do; whether they are understood is left to
Tonnage. An answer is of the name that was asked where each of its words stands in the name, id or alias that the answer
gives, which this module reads by itself; else the name was substituted. A refusal says what to write instead.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
from click.testing import CliRunner

import tonnage
from tonnage import catalog
from tonnage.catalog.models import keys_of, model_ids
from tonnage.catalog.published import downloads
from tonnage.cli import root
from tonnage.errors import TonnageError

WAY_ON: Final = re.compile(
    r"did you mean|write |give |known:|expected|sold with|leave |ask |name |`tonnage|--\w|catalogue|take|sizes? |fits? "
    r"|shorten |choose "
)
"""How a refusal tells what to do."""
NEUTRAL: Final = frozenset({
    "nvidia", "amd", "intel", "apple", "google", "aws", "geforce", "radeon", "instinct", "tesla", "quadro", "gpu",
    "cpu", "x", "gb", "gib", "core", "cores", "the", "and", "it", "instruct", "chat", "hf", "base", "processor",
})  # fmt: skip
"""Words that tell no two parts or models apart."""
TOKEN: Final = re.compile(r"[a-z]+|\d+(?:\.\d+)?b?(?![a-z0-9])|\d+(?:\.\d+)?")
SUFFIXES: Final = ("Ti", "Super", "XT", "Pro", "Max", "D", "SE", "Ultra", "Mega", "48GB", "7GB", "300GB", "NVL", "X")
VARIANTS: Final = ("9B", "33B", "v9", "Turbo", "2.7", "A7B", "Nano", "71B")


class Asked(NamedTuple):
    """One request: the question, its fields, and the names that its answer must have."""

    question: str
    fields: dict[str, str]
    part: str
    model: str


class Outcome(NamedTuple):
    """What a face made of it."""

    refused: str
    """Its sentence; empty = an answer."""
    answer: dict[str, Any]


def tokens(name: str) -> list[str]:
    """
    Words and numbers of a name.

    Examples
    --------
    >>> tokens("2 x RTX3090 Ti"), tokens("Qwen/Qwen3.5-35B-A3B")
    (['2', 'x', 'rtx', '3090', 'ti'], ['qwen', 'qwen', '3.5', '35b', 'a', '3b'])
    """
    return TOKEN.findall(name.lower().replace("+", ""))


def misspelt(name: str, draw: random.Random, *, endings: tuple[str, ...]) -> str:
    """The name with one fault, or as it is."""
    at = draw.randrange(len(name))
    kind = draw.choice(("drop", "double", "swap", "digit", "ending", "spaces", "as it is", "as it is"))
    if kind == "drop":
        return name[:at] + name[at + 1 :]
    if kind == "double":
        return name[:at] + name[at] + name[at:]
    if kind == "swap" and at:
        return name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :]
    digits = [place for place, character in enumerate(name) if character.isdigit()]
    if kind == "digit" and digits:
        at = draw.choice(digits)
        return name[:at] + draw.choice("0123456789") + name[at + 1 :]
    if kind == "ending":
        return f"{name} {draw.choice(endings)}"
    return name.replace("-", " ").replace("_", " ") if kind == "spaces" else name


def requests(count: int, seed: int) -> Iterator[Asked]:
    """So many requests of three questions, the same for the same seed."""
    draw = random.Random(seed)
    parts = sorted(part.name for part in catalog.accelerators().values() if part.segment in {"consumer", "workstation"})
    shown = sorted(one.model for one in downloads())
    every = sorted(model_ids(catalog.NOTHING))
    for number in range(count):
        part = misspelt(draw.choice(parts), draw, endings=SUFFIXES)
        chosen = draw.choice(shown if draw.random() < 0.6 else every)
        model = misspelt(chosen.rpartition("/")[2], draw, endings=VARIANTS)
        group = f"{draw.choice(('', '', '2 x ', '3 '))}{part}"
        if draw.random() < 0.2:
            group += f" + {draw.choice(('', '1 ', '2 x '))}{draw.choice(parts)}"
        question = ("local", "plan/own", "fit")[number % 3]
        named = {"local": "accelerator", "plan/own": "own", "fit": "accelerator"}[question]
        machine = part if question == "fit" else group
        fields = {named: machine, "model": model}
        if question != "fit" and draw.random() < 0.3:
            fields["context" if draw.random() < 0.5 else "min_speed"] = draw.choice(("4M", "28.5 t/s", "-3", "64k"))
        yield Asked(question, fields, machine, model)


def by_command(asked: Asked) -> Outcome:
    """The command line."""
    fields = dict(asked.fields)
    words = asked.question.split("/")
    first = fields.pop({"local": "", "plan/own": "own", "fit": "model"}[asked.question], None)
    flags = [text for name, value in fields.items() for text in (f"--{name.replace('_', '-')}", value)]
    done = CliRunner().invoke(root, [*words, *flags, "--json", *(["--", first] if first else [])])
    if done.exit_code in {0, 3} and done.stdout.startswith("{"):
        return Outcome("", json.loads(done.stdout))
    return Outcome(done.output.strip() or repr(done.exception), {})


def by_python(asked: Asked) -> Outcome:
    """The functions of the package."""
    function = {"local": tonnage.local, "plan/own": tonnage.plan_own, "fit": tonnage.fit}[asked.question]
    try:
        return Outcome("", msgspec.to_builtins(function(**asked.fields)))  # type: ignore[arg-type]
    except TonnageError as error:
        return Outcome(str(error), {})


def by_tool(asked: Asked) -> Outcome:
    """What an assistant's tool returns, as its reader sees it."""
    from tonnage.web.tool_results import call

    tool = {"local": "models_for_machine", "plan/own": "plan_owned_accelerators", "fit": "check_memory_fit"}
    try:
        found = call(tool[asked.question], asked.fields, additions=catalog.NOTHING)
    except TonnageError as error:
        return Outcome(str(error), {})
    return Outcome("", {"text": found.text, **found.data})


def by_http(address: str) -> Callable[[Asked], Outcome]:
    """A server that runs."""

    def ask(asked: Asked) -> Outcome:
        data = json.dumps(asked.fields).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            with urlopen(Request(f"{address}/{asked.question}", data, headers), timeout=120) as reply:
                return Outcome("", json.load(reply))
        except HTTPError as error:
            said = error.read().decode()
            return Outcome(f"no such address: {error.code}" if error.code in {404, 405} else said, {})

    return ask


@contextmanager
def serving() -> Iterator[str]:
    """The address of `tonnage web`, which ends with the block."""
    command = [sys.executable, "-m", "tonnage", "web", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            line = next(line for line in server.stdout if "http://" in line)
            found = re.search(r"http://[\w.:]+", line)
            assert found is not None
            yield found[0].rstrip(".:/")
        finally:
            server.terminate()


def of_part(id: str) -> set[str]:
    """Words that an accelerator goes by."""
    part = catalog.accelerators().get(id)
    names = (*names_of(id), *((part.vendor, part.memory_type, part.form_factor) if part else ()))
    sizes = {f"{part.memory_bytes / unit:.0f}" for unit in (1e9, 2**30)} if part else set()
    return {token for name in names for token in tokens(name)} | sizes | NEUTRAL


def form(name: str) -> tuple[str, tuple[str, ...]]:
    """Letters and numbers of a name, wherever its spaces stand, without a vendor's word before it."""
    plain = re.sub(rf"^(?:{'|'.join(NEUTRAL)})\s", "", name.lower().rpartition("/")[2])
    return re.sub(r"[^a-z0-9]", "", plain), tuple(re.findall(r"\d+", plain))


def is_spelling(text: str, names: Iterable[str]) -> bool:
    """Whether a text is one of the names with its spaces elsewhere: the same letters, and the same numbers."""
    bare = re.sub(r"^\s*\d+\s*(?:x\s|\s)", "", text)
    return form(bare) in {form(name) for name in names}


def names_of(id: str) -> tuple[str, ...]:
    """Of an accelerator."""
    part = catalog.accelerators().get(id)
    return (id, part.name, *part.aliases) if part else (id,)


def of_model(id: str) -> set[str]:
    """Words that a model goes by."""
    names = (id, *(keys_of(id) if id in model_ids(catalog.NOTHING) else ()))
    return {token for name in names for token in tokens(name)} | NEUTRAL


def models_in(answer: Mapping[str, Any]) -> set[str]:
    """Every model that an answer is about."""
    groups = answer.get("groups", ())
    rows = [
        *answer.get("rows", ()),
        *(row for group in groups for row in group.get("rows", ())),
        *answer.get("mixed", ()),
    ]
    return {row["model"] for row in rows if "model" in row} | ({answer["model"]} if "model" in answer else set())


def parts_in(asked: Asked, answer: Mapping[str, Any]) -> set[str]:
    """Every accelerator that an answer is about."""
    groups = {group["accelerator"] for group in answer.get("groups", ())}
    named = {answer[name] for name in ("accelerator", "device") if isinstance(answer.get(name), str) and answer[name]}
    return groups | named | {other.partition(" x ")[2] for other in answer.get("others", ())}


def substituted(asked: Asked, answer: Mapping[str, Any]) -> str:
    """A word that was asked and that the answer's names do not have; empty = every one is there."""
    parts = parts_in(asked, answer)
    if parts:
        known = set().union(*map(of_part, parts))
        counts = {found for found in re.findall(r"(?:^|\+)\s*(\d+)\s", asked.part)}
        left = [token for token in tokens(asked.part) if token not in known | counts]
        if left and not (len(parts) == 1 and is_spelling(asked.part, names_of(*parts))):
            return f"accelerator '{asked.part}' answered as {sorted(parts)}: {left}"
    for model in models_in(answer):
        left = [token for token in tokens(asked.model) if token not in of_model(model)]
        if left and not is_spelling(asked.model, (model, *keys_of(model))):
            return f"model '{asked.model}' answered as {model}: {left}"
    return ""


def main() -> None:
    """Asks, and prints what was substituted and how often each face answered or refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["TONNAGE_OFFLINE"] = "1"
    with serving() as address:
        faults, table = judge(options.count, options.seed, http=by_http(address))
    print("\n".join(faults))
    for (face, how), times in sorted(table.items()):
        print(f"{face:8} {how:24} {times:5}")
    print(f"{options.count} requests, {len(faults)} substituted or without a way on")
    sys.exit(1 if faults else 0)


def judge(
    count: int, seed: int, *, http: Callable[[Asked], Outcome] | None
) -> tuple[list[str], Counter[tuple[str, str]]]:
    """Faults, and how often each face answered or refused, each request over one face in turn."""
    faces: dict[str, Callable[[Asked], Outcome]] = {"command": by_command, "python": by_python, "mcp": by_tool}
    if http is not None:
        faces["http"] = http
    faults: list[str] = []
    table: Counter[tuple[str, str]] = Counter()
    for number, asked in enumerate(requests(count, seed)):
        face = list(faces)[number // 3 % len(faces)]
        found = faces[face](asked)
        if found.refused:
            way = WAY_ON.search(found.refused) is not None and "Traceback" not in found.refused
            table[face, "refused, with a way on" if way else "refused, without"] += 1
            faults += [] if way else [f"{face} {asked.fields}: {found.refused[:300]}"]
            continue
        table[face, "answered"] += 1
        said = substituted(asked, found.answer)
        faults += [f"{face} {asked.question} {asked.fields}: {said}"] if said else []
    return faults, table


if __name__ == "__main__":
    main()
