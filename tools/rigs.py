"""
Machines at home as their owners published them: how far off are predictions, and are their owners' choices found?

`python -m tools.rigs` predicts the rates; with `choices` behind it (and a task, else chat) it says where the model and
format that each owner runs stand in the answers of `tonnage local`, asked with that owner's context: in the list, and
among what was released when the page was published, for nobody runs what is not out; and counts why not.

Reads `measurements/rigs.csv`: a machine as its owner writes it (`machine`, read as `tonnage local -a` reads it), the
model, format and context, and the rates. Where the page states no memory rate the host is what `tonnage local` assumes.
A row with `split` = tensor is predicted as `tonnage predict` would, for an owner's answer splits by layers. Nothing was
set by these rows when their first prediction was written down (docs/log/2026-11.md).
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace
from tools.local_points import speed_with

from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.published import downloads
from tonnage.catalog.standings import Task, task_of
from tonnage.core.deployment import deploy
from tonnage.core.machine import is_unified, machine_named
from tonnage.core.serving_traffic import served_latency
from tonnage.domain.machine import LocalRow, Machine
from tonnage.domain.precision import Precision
from tonnage.questions.own.local import local
from tonnage.questions.own.question import LocalRequest
from tonnage.questions.own.speed import Asked, case_at_home, roomy, speed_of
from tonnage.questions.own.unlike import spread_out

RIGS = Path(__file__).resolve().parents[1] / "measurements" / "rigs.csv"
LEAST_CONTEXT = 4096
FASTER = 1.5
"""From here on a model is taken to be chosen for its speed. [-]"""


def rows_of() -> list[dict[str, str]]:
    """Every row of the table."""
    with RIGS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def machine_of(row: dict[str, str]) -> Machine:
    """The machine as the owner names it."""
    return machine_named(
        row["machine"],
        memory_bytes=float(row["memory_gb"]) * 1e9 if row["memory_gb"] else None,
        host_bytes_per_s=float(row["host_gb_per_s"]) * 1e9 if row["host_gb_per_s"] else None,
    )


def asked_of(row: dict[str, str], *, prompt: bool = False) -> Asked:
    """The question behind a row: its decode rate, or its prompt rate."""
    weights, kv = row["weights"], row["cache"] or "fp16"
    formats = Precision(weights=weights, kv=kv, activations="fp16")
    if weights == "mxfp4":  # what is no expert stays as published under vLLM, in 8 bits in GGUF files
        formats = replace(formats, weights="bf16" if row["engine"] == "vllm" else "gguf-q8_0", experts=weights)
    length = int(row["prompt_tokens"] if prompt else row["depth_tokens"])
    return Asked(
        model=resolve(row["model"]),
        precision=formats,
        context=max(LEAST_CONTEXT, int(row["context_tokens"] or 0), length + 256),
        prompt=length,
        piece=int(row["piece_tokens"] or 512) if prompt else 512,
        engine=row["engine"],
        mapped=True,  # no owner says otherwise, and it is the engine's default
    )


def predicted(row: dict[str, str], *, prompt: bool = False) -> float | str:
    """Tokens/s that the tool says, or why it says none."""
    asked, machine = asked_of(row, prompt=prompt), machine_of(row)
    if row["split"] == "tensor":
        assert machine.device is not None
        part = roomy(machine.device)
        case = replace(case_at_home(asked, part, count=machine.count), split_mode="tensor")
        latency, _ = served_latency(deploy(case, model=asked.model, accelerator=part))
        return case.isl / latency.ttft_s if prompt else 1.0 / latency.tpot_s
    found: LocalRow | str
    kind, _, count = row["placement"].partition(":")
    if machine.others:
        spread = spread_out(asked, machine)
        found = spread if isinstance(spread, str) else spread.row
    elif kind == "fit":
        found = speed_of(asked, machine)
    else:
        layers, experts = (int(count or 0) if kind == name else 0 for name in ("layers", "experts"))
        found = speed_with(asked, machine, layers=layers, expert_layers=experts)
    return found if isinstance(found, str) else (found.prompt_per_s if prompt else found.decode_per_s).value


def kind_of(row: dict[str, str]) -> str:
    """What a row is a row of."""
    machine = machine_of(row)
    if machine.device is None:
        return "processors"
    if machine.others:
        return "unlike cards, by layers"
    if machine.count > 1:
        return "equal cards, every layer over all" if row["split"] else "equal cards, by layers"
    if row["placement"].startswith("experts"):
        return "one card, experts in host memory"
    return "unified memory" if is_unified(machine.device) else "one card"


def errors(*, prompt: bool = False) -> list[tuple[dict[str, str], float | str]]:
    """Row and predicted rate, or why there is none."""
    column = "prompt_per_s" if prompt else "decode_per_s"
    return [(row, predicted(row, prompt=prompt)) for row in rows_of() if row[column]]


class Choice(NamedTuple):
    """Where one model that an owner runs, and its format, stand in the owner's answers; 0 = not in them."""

    place: int
    """In the general list."""
    then: int
    """Among its models that were released when the page was published."""
    cause: str
    """Why it is not among the first three of those; empty where it is."""
    format: int
    """Of the format, in the answer about the model."""
    format_cause: str


def chosen(rows: list[dict[str, str]], task: Task) -> dict[str, Choice]:
    """The models of one rig."""
    machine, known = machine_of(rows[0]), {resolve(one.model).id: one.released for one in downloads()}
    context = max(int(row["context_tokens"] or LocalRequest().context) for row in rows)
    every = local(LocalRequest(context=context, task=task), machine).rows
    models = [resolve(row.model).id for row in every]
    day = rows[0]["published"]
    then = [n for n, model in enumerate(models) if known[model][: len(day)] <= day]
    found = {}
    for model in dict.fromkeys(row["model"] for row in rows):
        own = resolve(model).id
        place = models.index(own) if own in models else None
        among = then.index(place) + 1 if place in then else 0
        of_model = local(LocalRequest(model=model, exact=True, context=context), machine).frontier
        told = [row.precision.stored for row in of_model]
        theirs = [row["weights"] for row in rows if row["model"] == model]
        where = min((told.index(one) + 1 if one in told else 0 for one in theirs), key=lambda n: n or 99)
        found[model] = Choice(
            place=0 if place is None else place + 1,
            then=among,
            cause="" if 1 <= among <= 3 else _why(own, place, every, first=then[:3], listed=own in known),
            format=where,
            format_cause="" if 1 <= where <= 3 else _why_format(theirs, where, of_model),
        )
    return found


def _why(model: str, place: int | None, rows: Sequence[LocalRow], *, first: list[int], listed: bool) -> str:
    """What keeps a model from the first three of those that were released."""
    if place is None:
        return "does not run with that context" if listed else "not in our list of files"
    row = rows[place]
    if row.stands is None:
        return "no published score places it"
    fastest = max(rows[n].decode_per_s.value for n in first)
    if row.decode_per_s.value > FASTER * fastest:
        return f"over {FASTER:g} times as fast as each of the first three"
    if row.decode_per_s.value < LocalRequest().min_per_s:
        return f"below {LocalRequest().min_per_s:g} tokens/s"
    return "three others score higher"


def _why_format(theirs: list[str], place: int, rows: Sequence[LocalRow]) -> str:
    """What keeps a format from the first three of the answer about its model."""
    if place:
        return f"finer ones make {LocalRequest().min_per_s:g} tokens/s, too"
    if not rows:
        return "the model does not run with that context"
    return (
        "another kind of file" if all(one.startswith(("mlx", "bf16")) for one in theirs) else "no other beats another"
    )


def choices(task: Task) -> None:
    """Print where each rig's own choice stands, on how many of them it is among the first three, and why not."""
    rigs: dict[str, list[dict[str, str]]] = {}
    for row in rows_of():
        rigs.setdefault(row["rig"], []).append(row)
    found = {rig: chosen(rows, task) for rig, rows in rigs.items()}
    for rig, models in found.items():
        for model, one in models.items():
            theirs = ", ".join(dict.fromkeys(row["weights"] for row in rigs[rig] if row["model"] == model))
            places = (str(place or "-") for place in (one.place, one.then, one.format))
            print(
                f"{rig:18} {model.partition('/')[2] + ' ' + theirs:50} {' | '.join(places):14} {one.cause}", flush=True
            )
    print("places: in the list, among what was released when the page was published, format of the model")
    for what, place, cause in (
        ("model among the first three", attrgetter("place"), None),
        ("model among the first three of its day", attrgetter("then"), attrgetter("cause")),
        ("format of the model among its first three", attrgetter("format"), attrgetter("format_cause")),
    ):
        best = {rig: [one for one in own.values() if 1 <= place(one) <= 3] for rig, own in found.items()}
        print(f"{what}: {sum(map(bool, best.values()))} of {len(found)} rigs")
        missed = [next(iter(found[rig].values())) for rig, own in best.items() if not own]
        for why, count in Counter(map(cause, missed)).most_common() if cause else ():
            print(f"  {count:4d}  {why}")


def _summary(misses: Iterable[float]) -> str:
    found = list(misses)
    return f"{len(found):4d}   {median(found):4.0%}   {max(found):4.0%}" if found else "none"


def main() -> None:
    """Print every row and the median error of each kind."""
    for prompt, title, column in ((False, "decode", "decode_per_s"), (True, "prompt", "prompt_per_s")):
        found = errors(prompt=prompt)
        known = [(row, value, value / float(row[column]) - 1.0) for row, value in found if not isinstance(value, str)]
        print(f"{title}, tokens/s: published, predicted, error")
        for row, value in found:
            told = (
                f"refused: {value}"
                if isinstance(value, str)
                else f"{value:8.1f} {value / float(row[column]) - 1:+7.0%}"
            )
            what = f"{row['id']:26} {row['model'].partition('/')[2]:34} {row['weights']:11}"
            print(f"  {what} {float(row[column]):8.1f} {told}")
        print(f"  {len({row['rig'] for row in rows_of()})} rigs; {_summary(abs(error) for _, _, error in known)}")
        for kind in dict.fromkeys(kind_of(row) for row, _, _ in known):
            print(f"    {kind:34} {_summary(abs(error) for row, _, error in known if kind_of(row) == kind)}")
        by_rig = {row["rig"]: [abs(e) for other, _, e in known if other["rig"] == row["rig"]] for row, _, _ in known}
        print(f"    {'one value a rig':34} {_summary(map(median, by_rig.values()))}")


if __name__ == "__main__":
    choices(task_of(sys.argv[-1])) if "choices" in sys.argv else main()
