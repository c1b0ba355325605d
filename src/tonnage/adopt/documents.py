"""Documents of other programs (YAML, JSON, TOML), within limits, and which accelerator their own words mean."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tonnage.errors import BadFact, echo
from tonnage.export.target import accelerators_called
from tonnage.export.target import names as spelled
from tonnage.questions.adopt.question import Machine

LARGEST: Final = 1024 * 1024
"""Characters of a file that is adopted; a rendered chart of a whole platform is some 300,000."""
MOST_VALUES: Final = 100_000
MOST: Final = 10**9
"""Of replicas, nodes or accelerators."""
DEEPEST: Final = 60


def documents_of(text: str, *, where: str) -> list[dict[str, Any]]:
    """
    The mappings among the documents of a YAML or JSON text.

    Raises
    ------
    BadFact
        Too large, too deep, malformed, a name given twice, or a template that was not rendered.
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
        found = list(_construct_documents(_lenient(kind)(text), where))
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


def _construct_documents(loader: Any, where: str) -> Iterator[Any]:
    """Each document's value, once its nodes are known to be few however often anchors repeat them."""
    try:
        while loader.check_node():
            node = loader.get_node()
            if _values(node, {}, where) > MOST_VALUES:
                raise BadFact(f"{where} holds more than {MOST_VALUES:,} values once its anchors are written out")
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _values(node: Any, known: dict[int, int], where: str) -> int:
    """How many values a node is with every alias written out; one that holds itself is more than may be."""
    if not isinstance(node.value, list):
        return 1
    if id(node) not in known:
        known[id(node)] = MOST_VALUES + 1
        pairs = [item for item in node.value if isinstance(item, tuple)]
        names = [name.value for name, _ in pairs if isinstance(name.value, str) and name.value != "<<"]
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise BadFact(f"{where} gives '{echo(twice)}' twice in one mapping; keep one")
        inner = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = min(MOST_VALUES + 1, 1 + sum([_values(part, known, where) for part in inner]))
    return known[id(node)]


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
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is no TOMLDecodeError
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


def group_in(document: Any, *path: str | int) -> dict[str, Any]:
    """The mapping at the end of a path; an empty one where there is none, or something else."""
    found = path_in(document, *path)
    return found if isinstance(found, dict) else {}


def list_in(document: Any, *path: str | int) -> list[Any]:
    """The list at the end of a path; an empty one where there is none, or something else."""
    found = path_in(document, *path)
    return found if isinstance(found, list) else []


def count_in(document: Any, *path: str | int) -> int | None:
    """
    The count at the end of a path; None where the document states none.

    Raises
    ------
    BadFact
        What stands there is no whole number: taking it for one would answer another question.
    """
    found = path_in(document, *path)
    if found is None:
        return None
    count = whole_of(found)
    if count is None:
        name = ".".join(map(str, path))
        raise BadFact(f"{name}: a whole number up to {MOST:,} is expected, not '{echo(found)}'")
    return count


def whole_of(value: Any) -> int | None:
    """A count as documents write it, as number or text; None where it is none."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= MOST else None


_LABELS: Final = {"cloud.google.com/gke-accelerator": "gke", "nvidia.com/gpu.product": "product"}
_INSTANCE: Final = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "karpenter.k8s.aws/instance-type",
)
_SPOT: Final = {
    "cloud.google.com/gke-spot": "true",
    "eks.amazonaws.com/capacityType": "SPOT",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "karpenter.sh/capacity-type": "spot",
}
_GPUS: Final = re.compile(r"--(?:gpus-per-node|gres|gpus-per-task|gpus)[= ](?:gpu:)?(?:([A-Za-z][\w.-]*):)?(\d+)")


def machine_of_labels(labels: Mapping[str, str]) -> Machine:
    """
    What labels of nodes say: the accelerator by GKE's or NVIDIA's label, else the instance type; and whether it is
    spot.
    """
    found = Machine(spot=any(labels.get(name) == value for name, value in _SPOT.items()))
    for label, by in _LABELS.items():
        if label in labels:
            named = accelerators_called(labels[label].removesuffix("-SHARED"), by=by)
            provider = "gcp" if by == "gke" else ""
            return Machine(accelerators=named, words=f"{label}: {labels[label]}", spot=found.spot, provider=provider)
    kind = next((labels[name] for name in _INSTANCE if name in labels), "")
    if kind:
        provider = "azure" if kind.startswith("Standard_") else "aws" if re.match(r"[a-z]\d\w*\.\w+$", kind) else ""
        return Machine(
            instance_type=kind.removeprefix("Standard_"),
            words=f"instance type {kind}",
            spot=found.spot,
            provider=provider,
        )
    return found


def machine_of_words(word: str, *, by: str, memory: str = "") -> Machine:
    """What a scheduler's own name of an accelerator says, and its memory; the name itself where nobody spells it so."""
    if not word:
        return Machine()
    named = accelerators_called(word, by=by) or accelerators_called(word.removesuffix("-SXM"), by=by)
    fitting = tuple(name for name in named if memory and spelled(name).memory == memory.replace(" ", "").rstrip("."))
    return Machine(accelerators=fitting or named or (word,), words=f"{word} {memory}".strip())


def machine_of_directives(directives: Iterable[str]) -> tuple[Machine, int]:
    """What #SBATCH lines say: nodes, accelerators of a node, and how many such jobs the array holds."""
    nodes, count, words, replicas = 1, None, "", 1
    for line in directives:
        if found := re.match(r"(?:--nodes[= ]|-N ?)(\d+)", line):
            nodes = _count(found[1], line)
        elif found := _GPUS.match(line):
            words, count = found[1] or words, _count(found[2], line)
        elif found := re.match(r"--array[= ](\d+)-(\d+)", line):
            replicas = max(1, _count(found[2], line) - _count(found[1], line) + 1)
    accelerators = (words.lower(),) if words else ()
    return Machine(nodes=nodes, count=count, words=f"gpu:{words}" if words else "", accelerators=accelerators), replicas


def _count(text: str, line: str) -> int:
    count = whole_of(text)
    if count is None:
        raise BadFact(f"'#SBATCH {echo(line)}': a whole number is expected")
    return count
