"""How is a model read that somebody writes out: the fields of our noun, or those of a config.json?

A mapping with `layers`, `network` or `towers` is the `Model` noun itself; any other is read as a config.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage.catalog.hub.config import read_config
from tonnage.domain.model import Model
from tonnage.errors import BadFact, echo

__all__ = ["read_inline"]

NOUN_FIELDS: Final = frozenset({"layers", "encoder", "network", "towers"})


def read_inline(given: Mapping[str, Any], *, where: str = "model") -> Model:
    """
    A model from its fields.

    Raises
    ------
    BadFact
        A field is missing, unknown, of the wrong type or absurd.
    """
    if not NOUN_FIELDS & set(given):
        return _from_config(given, where)
    facts = {"family": "own", "kind": "llm", "id": "inline", **given}
    known = {field.name for field in msgspec.structs.fields(Model)}
    unknown = sorted(str(name) for name in facts if name not in known)
    if unknown:
        raise BadFact(f"{where}: '{echo(unknown[0])}' is no field of a model; expected {', '.join(sorted(known))}")
    try:
        found: Model = msgspec.convert(facts, Model)
    except (msgspec.ValidationError, RecursionError) as problem:
        raise BadFact(f"{where}: {echo(problem)}") from None
    _check(found, where)
    return found


def _from_config(given: Mapping[str, Any], where: str) -> Model:
    found = read_config(given, file=where, name=str(given.get("id", "")) or "inline")
    stated = {key: given[key] for key in ("licence", "notes", "source") if isinstance(given.get(key), str)}
    return msgspec.structs.replace(found, **stated)


def _check(found: Model, where: str) -> None:
    """Sizes must be positive: a converted struct only has the right types."""
    sizes = {"hidden_size": found.hidden_size, "vocab_size": found.vocab_size}
    for number, group in enumerate((*found.encoder, *found.layers)):
        sizes[f"layers[{number}].count"] = group.count
        for part in (group.mixer, group.feed_forward, group.cross_attention):
            if part is None:
                continue
            for name, value in msgspec.structs.asdict(part).items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    sizes[f"layers[{number}].{name}"] = int(value)
    for name, value in sizes.items():
        if not 0 <= value < 1 << 31:
            raise BadFact(f"{where}: '{name}' is '{value}'; expected a number from 0 to {(1 << 31) - 1}")
    if found.layers and found.hidden_size < 1:
        raise BadFact(f"{where}: 'hidden_size' is missing; expected the width of the layers")
