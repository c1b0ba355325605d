"""YAML, JSON and TOML documents of other programs: several in a file, anchors allowed, sizes bounded."""

from __future__ import annotations

import tomllib
from typing import Any, Final

from tonnage.errors import BadFact, echo

__all__ = ["documents_of", "path_in", "toml_of"]

LARGEST: Final = 1024 * 1024
"""Characters of a file that is adopted; a rendered chart of a whole platform is some 300,000."""
MOST_VALUES: Final = 100_000
DEEPEST: Final = 60


def documents_of(text: str, *, where: str) -> list[dict[str, Any]]:
    """
    The mappings among the documents of a YAML or JSON text.

    Raises
    ------
    BadFact
        Too large, too deep, malformed, or a template that was not rendered.
    """
    import yaml

    if len(text) > LARGEST:
        raise BadFact(f"{where} is larger than {LARGEST // 1024} KiB, which no deployment's file needs")
    kind = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for values, event in enumerate(yaml.parse(text, Loader=kind)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST or values > MOST_VALUES:
                raise BadFact(f"{where} is nested more than {DEEPEST} deep or holds more than {MOST_VALUES:,} values")
        found = list(yaml.load_all(text, Loader=_lenient(kind)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        hint = "; a template is rendered first (helm template, kustomize build)" if "{{" in text else ""
        raise BadFact(
            f"{where} is not valid YAML{line}: {echo(getattr(error, 'problem', '') or error)}{hint}"
        ) from None
    except (ValueError, RecursionError):
        raise BadFact(f"{where} is not valid YAML: a value cannot be read") from None
    documents: list[dict[str, Any]] = []
    for document in found:
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else [document]
        documents += [item for item in items or [] if isinstance(item, dict)]
    return documents


def _lenient(kind: Any) -> Any:
    """The safe loader; tags of other programs (!Ref, !reference) stand for what they are put before."""
    import yaml

    def plain(loader: Any, suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    loader: Any = type("LenientLoader", (kind,), {})
    loader.add_multi_constructor("!", plain)
    return loader


def toml_of(text: str, *, where: str) -> dict[str, Any]:
    """
    The tables of a TOML text.

    Raises
    ------
    BadFact
        Too large or malformed.
    """
    if len(text) > LARGEST:
        raise BadFact(f"{where} is larger than {LARGEST // 1024} KiB, which no configuration needs")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadFact(f"{where} is not valid TOML: {echo(error)}") from None


def path_in(document: Any, *path: str | int) -> Any:
    """What lies at the end of a path through mappings and lists; None where a step is missing."""
    for step in path:
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and isinstance(step, int):
            document = document[step] if step < len(document) else None
        else:
            return None
    return document
