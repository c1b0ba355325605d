"""An answer as layers that are compared apart: what was decided, its numbers, its words.

Decisions are the names, choices, counts and yes or no of an answer: every string of its JSON without a blank, integers,
booleans and what is absent. Numbers are its floats. Words are everything that is written to be read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from typing import Any, Final

from tools.corpus.asking import Answer

Layers = dict[str, Any]
"""`code`, `decisions` and `words` by path, `numbers` by path as (count, sum, sum weighted by place)."""

TOLERANCE: Final = 1e-9
"""Of a sum of numbers, relative to the sum of their sizes. [-]"""

TABLES: Final = "provenance.catalogue.data"
"""Which tables were read: it changes with each of them, whether or not an answer does, and decides nothing."""

WHOLE: Final = 3
"""Entries of a list whose decisions are kept one by one; further ones are kept as one digest for each path."""

_INDEX: Final = re.compile(r"\[\d+\]")


def layers_of(answer: Answer) -> Layers:
    """The layers of an answer: of its JSON (one object, or one a line) or its text, and of the files it wrote."""
    decisions: dict[str, Any] = {}
    folded: dict[str, list[Any]] = defaultdict(list)
    numbers: dict[str, list[float]] = defaultdict(list)
    words: dict[str, list[str]] = defaultdict(list)
    values, texts = _read(answer)
    for path, value in _leaves(values, ""):
        if path.endswith(TABLES):
            continue
        anywhere = _INDEX.sub("[]", path)
        if isinstance(value, float):
            numbers[anywhere].append(value)
        elif isinstance(value, str) and re.search(r"\s", value):
            words[anywhere].append(value)
        elif any(int(index[1:-1]) >= WHOLE for index in _INDEX.findall(path)):
            folded[anywhere].append(value)
        else:
            decisions[path] = value
    decisions |= {f"{path} (rest)": [len(found), _digest(found)] for path, found in folded.items()}
    return {
        "code": answer.code,
        "decisions": decisions,
        "numbers": {path: _sums(found) for path, found in numbers.items()},
        "words": {path: _digest(found) for path, found in (words | texts).items()},
    }


def _read(answer: Answer) -> tuple[Any, dict[str, list[str]]]:
    texts = {f"file {name}": [text] for name, text in answer.files.items()}
    if answer.error:
        texts["stderr"] = [answer.error]
    try:
        return json.loads(answer.out), texts
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in answer.out.splitlines()], texts
    except ValueError:
        return [], texts | {"stdout": [answer.out]}


def _leaves(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _leaves(each, f"{path}[{index}]")
    else:
        yield path, value


def _digest(values: list[Any]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _sums(values: list[float]) -> list[float]:
    """Count, sum, sum of sizes, and a sum that sees values change places."""
    return [
        len(values),
        sum(values),
        sum(abs(value) for value in values),
        sum(value * (place + 1) / len(values) for place, value in enumerate(values)),
    ]


def differences(then: Layers, now: Layers, *, tolerance: float = TOLERANCE) -> list[tuple[str, str, str]]:
    """What differs: the layer, the path without its places in lists, and both values."""
    found = []
    if then["code"] != now["code"]:
        found.append(("decisions", "exit code", f"{then['code']} -> {now['code']}"))
    for layer in ("decisions", "numbers", "words"):
        for path in sorted(then[layer].keys() | now[layer].keys()):
            old, new = then[layer].get(path), now[layer].get(path)
            if old == new or (layer == "numbers" and old and new and _near(old, new, tolerance)):
                continue
            found.append((layer, _INDEX.sub("[]", path), f"{_said(old)} -> {_said(new)}"))
    return found


def _near(old: list[float], new: list[float], tolerance: float) -> bool:
    """Whether two lists of numbers are the same within the tolerance, in the same order."""
    margin = tolerance * max(old[2], new[2])
    return old[0] == new[0] and all(abs(a - b) <= margin for a, b in zip(old[1:], new[1:], strict=True))


def _said(value: Any) -> str:
    if isinstance(value, list) and len(value) == 4:
        return f"{value[0]} numbers, mean {value[1] / value[0]:.10g}"
    return "absent" if value is None else json.dumps(value)
