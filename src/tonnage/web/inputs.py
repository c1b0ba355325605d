"""Fields of a form as its template shows them: label, value, unit, choices, cards of traffic, rows of lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from tonnage.catalog import model_name, provider_name
from tonnage.catalog.traffic import profiles
from tonnage.core.files import read_written
from tonnage.core.reading import request_fields
from tonnage.domain.metrics import OBJECTIVES
from tonnage.domain.requests.field import Field, groups_of
from tonnage.errors import TonnageError
from tonnage.questions.question import LENGTHS
from tonnage.questions.registry import REQUESTS
from tonnage.web.measured import CHOICE
from tonnage.web.questions import OWN_LENGTHS, Question

UNITS: Final = {
    "USD": "$", "tokens": "tokens", "tokens/s": "tokens/s", "fraction": "%", "USD/year": "$/year", "years": "years",
}  # fmt: skip
"""Dimension -> what stands beside its input where its plain numbers have no unit of their own."""
SPOKEN: Final = {"/s": "per second", "/h": "$/h", "/kWh": "$/kWh"}
"""Units that stand in other words beside an input."""
LISTS: Final = {
    "model": "models", "accelerator": "accelerators", "exclude": "accelerators", "traffic": "profiles",
    "profile": "profiles",
}  # fmt: skip
"""Field -> list of names that complete it."""
ROWS: Final = {
    "workloads": ("name", "kind", "model", "traffic", "rate", "ttft", "tpot", "items", "window"),
    "own": ("name", "accelerator", "count", "usd_per_hour"),
    "quotas": ("most", "accelerator", "provider", "region", "term"),
}
"""List of entries -> the fields that stand in each row of a form."""
PLAIN_GROUPS: Final = ("slo", "traffic", "layout")
"""Groups whose fields say by themselves what they are."""
ACRONYMS: Final = {
    **{one.title.lower(): one.title for one in OBJECTIVES}, "eu": "EU", "tp": "TP", "pp": "PP", "dp": "DP",
    "ep": "EP", "cp": "CP", "kv": "KV cache", "ecc": "ECC", "mig": "MIG", "nvlink": "NVLink", "nvme": "NVMe",
    "lora": "LoRA", "gpu": "GPU", "cpu": "CPU", "slo": "SLO", "fps": "FPS", "moe": "MoE", "rl": "RL",
    "usd": "USD", "pue": "PUE", "seq": "sequence", "len": "length",
}  # fmt: skip
"""Words of field names that are written otherwise."""
LABELS: Final = {
    **{one.title.lower(): one.words for one in OBJECTIVES},
    "rate": "Requests",
    CHOICE.name: "Measurements that count",
}
"""Names of fields that a form writes out; chips keep the short ones."""
GROUPS: Final = ("Workload", "Objectives", "Accelerators", "Offers", "Reliability", "Model and engine", "Search")
CARDS: Final = ("chat", "code", "rag", "summarise", "reasoning", "agent")
"""Traffic profiles that a form shows side by side."""


def inputs_of(
    question: Question, values: Mapping[str, Any], *, problems: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    own = OWN_LENGTHS if all(values.get(name) for name in LENGTHS) else ""
    return [
        _input(field, values.get(field.name, ""), written=field.name in question.as_yaml,
               problem=(problems or {}).get(field.name, ""), otherwise=own)
        for field in question.fields
    ]  # fmt: skip


def group_fields(inputs: Iterable[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Fields by their group, in the order in which people meet them."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for one in inputs:
        groups.setdefault(one["group"] or "Other", []).append(one)
    return sorted(groups.items(), key=lambda item: GROUPS.index(item[0]) if item[0] in GROUPS else len(GROUPS))


def _input(field: Field, value: Any, *, written: bool, problem: str, otherwise: str) -> dict[str, Any]:
    """What the template says of one field: how it is named, filled, chosen from, and what is wrong with it."""
    text, (group, _, last) = str(value), field.name.rpartition(".")
    choices = ("true", "false") if field.reads == "flag" else field.choices
    label = _label(last)
    has_unit = any(letter.isalpha() or letter in "$%/" for letter in text)
    unit = _unit(field)
    entries = _entries(text) if last in ROWS and written else None
    of = _of(group)
    cards = _cards(text.lower()) if field.name == "traffic" else ()
    return {
        "name": field.name,
        "chip": f"{of}{label}",
        "label": _title(field),
        "help": "mean tokens of published traces" if cards else field.help.replace(", path, or", ", or"),
        "cards": cards,
        "picked": text.lower() or otherwise,
        "group": group.replace("_", " ").capitalize() if group else field.group,
        "value": text,
        "said": _said(text, last=last, unit="" if has_unit or field.choices else unit, entries=entries),
        "unit": "" if field.choices or has_unit else SPOKEN.get(unit, unit),
        "usual": _usual(field),
        "entries": entries,
        "columns": _columns(last) if entries is not None else (),
        "rows": max(3, text.count("\n") + 1) if written else 0,
        "wide": written or last == "model",
        "choices": choices if field.reads in ("flag", "text") else (),
        "problem": problem,
        "list": LISTS.get(last, ""),
    }


@lru_cache(maxsize=8)
def _columns(name: str) -> tuple[dict[str, Any], ...]:
    """Fields of a list's entries, those that stand in each row first; the others are added to a row by hand."""
    (of,) = (group.of for group in groups_of(REQUESTS["fleet"]) if group.name == name)
    fields = {field.name: field for field in request_fields(of) if field.reads != "entries"}
    made = []
    for field in sorted(fields.values(), key=lambda one: one.name not in ROWS[name]):
        words = "Requests" if field.name == "rate" else _label(field.name)
        unit = "" if field.choices or field.reads == "tokens" else _unit(field)
        made.append({
            "name": field.name, "label": f"{words} ({SPOKEN.get(unit, unit)})" if unit else words,
            "choices": ("true", "false") if field.reads == "flag" else field.choices,
            "usual": _usual(field).partition(",")[0],
            "list": LISTS.get(field.name, ""), "shown": field.name in ROWS[name],
        })  # fmt: skip
    return tuple(made)


def _unit(field: Field) -> str:
    """The unit in which plain numbers of a field are taken."""
    return field.usual.unit if field.usual is not None else UNITS.get(field.reads, "")


def _of(group: str) -> str:
    """What stands before the label of a field of a group."""
    return "" if group in PLAIN_GROUPS or not group else f"{group.replace('_', ' ').capitalize()}: "


def _title(field: Field) -> str:
    """The label of a field beside its input."""
    group, _, last = field.name.rpartition(".")
    return f"{_of(group)}{_label(last)}" if _of(group) else LABELS.get(last, _label(last))


def with_labels(text: str, question: Question) -> str:
    """An error with the labels of the form in place of names of its fields: the first word, and names of more words."""
    titles = {field.name: _title(field) for field in question.fields}
    name = re.compile(r"^[a-z0-9_.]+(?=: | is missing)|\b[a-z0-9]+(?:[_.][a-z0-9]+)+\b")
    return name.sub(lambda found: titles.get(found[0], found[0]), text)


def _said(text: str, *, last: str, unit: str, entries: list[dict[str, Any]] | None) -> str:
    """What a chip says of a value: a model's usual name, a number with the unit it is taken in, a list by its names."""
    if entries is not None:
        named = [str(one.get("name") or one.get("accelerator") or one.get("model") or "") for one in entries]
        return f"{len(entries)}: {', '.join(filter(None, named))}"
    if last == "model":
        return _model_said(text)
    if text in ("true", "false"):
        return "yes" if text == "true" else "no"
    if last in ("provider", "accelerator", "region"):
        return ", ".join(provider_name(one) if last == "provider" else one for one in re.split(r",\s*", text))
    return f"{text}{'' if unit[:1] in '/%' else ' '}{unit}" if unit and text and "," not in text else text


def _usual(field: Field) -> str:
    """What holds where a choice is left open."""
    if field.reads == "flag":
        return "yes, as usual" if field.default else "no, as usual"
    return f"{field.default}, as usual" if isinstance(field.default, str) and field.default else "whatever is best"


def _entries(text: str) -> list[dict[str, Any]] | None:
    """The entries of a list that a form shows as rows; None where the text is no list of groups without inner ones."""
    try:
        found = read_written(text, what="") if text.strip() else []
    except TonnageError:
        return None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        return None
    flat = [{str(name): value for name, value in one.items()} for one in found]
    return None if any(isinstance(value, dict | list) for one in flat for value in one.values()) else flat


def _cards(value: str) -> tuple[tuple[str, str, str], ...]:
    """Traffic profiles to choose from, with their mean lengths; none where something else is asked for."""
    if value not in ("", OWN_LENGTHS, *CARDS):
        return ()
    lengths = {name: profiles()[name].lengths for name in CARDS}
    known = (
        (
            name,
            "RAG" if name == "rag" else name.capitalize(),
            f"{it.prompt_tokens:,.0f} in, {it.output_tokens:,.0f} out",
        )
        for name, it in lengths.items()
    )
    return (*known, (OWN_LENGTHS, "Own", "set lengths"))


def _label(name: str) -> str:
    """
    A field's name as people write it.

    Examples
    --------
    >>> _label("kv_host_link"), _label("ttft"), _label("peak_to_mean")
    ('KV cache host link', 'TTFT', 'Peak to mean')
    """
    words = " ".join(ACRONYMS.get(word, word) for word in {"eu": "eu_only"}.get(name, name).split("_"))
    return words[:1].upper() + words[1:]


def _model_said(text: str) -> str:
    """The model as people write it, where the catalogue knows the name."""
    known = "/" in text and not text.endswith((".json", ".gguf", ".yaml")) and "://" not in text
    return model_name(text) if known else text
