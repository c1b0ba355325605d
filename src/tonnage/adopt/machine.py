"""Which accelerator do a file's own words mean? Labels of nodes, names of schedulers, instance types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.adopt.documents import whole_of
from tonnage.errors import BadFact, echo
from tonnage.export.target import accelerators_called
from tonnage.export.target import names as spelled
from tonnage.questions.adopt.answer import Machine

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
    """What labels of nodes say: GKE's accelerator, NVIDIA's product, the instance type, spot."""
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
