"""Names as people write them, in every sentence: NVIDIA B200 180 GB; ids stand in fields and in what is typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from tonnage.catalog.accelerators import accelerator, accelerators
from tonnage.catalog.providers import providers
from tonnage.domain.accelerator import Accelerator
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from tonnage.domain.plan import Configuration, RankedOption
    from tonnage.domain.train_plan import TrainConfiguration

PROVIDERS: Final = {
    "aws": "AWS", "aws-capacity-blocks": "AWS Capacity Blocks", "gcp": "Google Cloud", "azure": "Azure",
    "oci": "Oracle Cloud", "ibm": "IBM Cloud", "ovhcloud": "OVHcloud", "digitalocean": "DigitalOcean",
    "coreweave": "CoreWeave", "gmi-cloud": "GMI Cloud", "runpod": "RunPod", "runpod-serverless": "RunPod Serverless",
    "datacrunch": "DataCrunch", "massedcompute": "Massed Compute", "excesssupply": "Excess Supply",
    "hotaisle": "Hot Aisle",
}  # fmt: skip
"""Providers whose own spelling is not the id with a capital."""
GENERIC: Final = re.compile(
    r"^(?:GeForce|Instinct|Tesla|Radeon|Cloud|NVIDIA|AMD|Intel|Google) |"
    r" ?\((?:per|Blackwell|\d+ c|original)[^)]*\)"
)
"""What a short name leaves out: lines of products, and remarks in brackets."""
SIZE: Final = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?) ?[Gg][Bb]\b")
MOST_NAMED: Final = 4
"""Accelerators that stand in the line of a question."""
SIZE_OF_MODEL: Final = re.compile(r"(?<![A-Za-z0-9.])\d+(?:\.\d+)?[bm](?![A-Za-z0-9])")
UNSAID: Final = re.compile(r"-(?:hf|HF|v0\.0)$")


@cache
def product(id: str) -> str:
    """
    An accelerator as its vendor and people write it; an id that the catalogue does not know stays as it is.

    Examples
    --------
    >>> product("b200-sxm-180gb"), product("mi300x"), product("tpu-v6e")
    ('NVIDIA B200 180 GB', 'AMD Instinct MI300X 192 GB', 'Google Cloud TPU v6e Trillium 32 GB')
    """
    part = _part(id)
    if part is None:
        return id
    vendor, name, memory = part
    whole = name if name.startswith(vendor) else f"{vendor} {name}"
    return _sized(whole.replace(" (per chip)", "").replace(" (per socket)", ""), memory)


@cache
def part_name(id: str) -> str:
    """
    A few words that name an accelerator in a table: without vendor, line of products and form.

    Examples
    --------
    >>> part_name("b200-sxm-180gb"), part_name("a100-sxm4-80gb"), part_name("rtx-4090")
    ('B200 180 GB', 'A100 SXM4 80 GB', 'RTX 4090 24 GB')
    """
    part = _part(id)
    if part is None:
        return id
    _, name, memory = part
    return _sized(GENERIC.sub("", name), memory)


def _sized(name: str, memory: int) -> str:
    """The name with its memory, written as people write it, where it says some or has one. [GB]"""
    return SIZE.sub(r"\1 GB", name) if SIZE.search(name) or not memory else f"{name} {memory} GB"


@cache
def _part(id: str) -> tuple[str, str, int] | None:
    """Vendor, name, and memory as it is sold; 0 for a processor, None for a name that means no accelerator. [GB]"""
    part = accelerators().get(id) or _meant(id)
    if part is None:
        return None
    gib = part.memory_bytes / 2.0**30
    stated = SIZE.search(id)
    memory = (
        int(float(stated[1]))
        if stated
        else round(gib)
        if abs(gib - round(gib)) < 0.05
        else round(part.memory_bytes / 1e9)
    )
    cpu = part.segment == "cpu"  # its memory is whatever was put into the machine
    return part.vendor, part.name, 0 if cpu else memory


def _meant(name: str) -> Accelerator | None:
    """The accelerator that a name as people type it stands for; None for one of the user's own."""
    try:
        return accelerator(name)
    except TonnageError:
        return None


@cache
def model_name(id: str) -> str:
    """
    A model as people write it, without the organisation that published it.

    Examples
    --------
    >>> model_name("meta-llama/Llama-3.1-70B-Instruct"), model_name("google-bert/bert-base-uncased")
    ('Llama 3.1 70B Instruct', 'BERT base uncased')
    >>> model_name("examples/nets/unet.profile.json")
    'unet'
    """
    last = id.rstrip("/").rpartition("/")[2]
    last = SIZE_OF_MODEL.sub(lambda found: found[0].upper(), re.sub(r"\.(?:profile\.json|json|gguf|yaml)$", "", last))
    last = UNSAID.sub("", last)
    words = last.removeprefix("Meta-").replace("_", " ").replace("-", " ").split()
    return " ".join(MODEL_WORDS.get(word, word) for word in words) or id


MODEL_WORDS: Final = {
    "bert": "BERT", "stable": "Stable", "diffusion": "Diffusion", "xl": "XL", "whisper": "Whisper", "bge": "BGE",
    "gemma": "Gemma", "gpt": "GPT", "oss": "OSS", "mms": "MMS", "tts": "TTS", "vit": "ViT", "opt": "OPT",
    "yolov8n": "YOLOv8n", "yolov8s": "YOLOv8s", "yolov8m": "YOLOv8m", "yolov8l": "YOLOv8l", "yolov8x": "YOLOv8x",
    "yolo11n": "YOLO11n", "resnet50.a1": "ResNet-50", "pythia": "Pythia", "falcon": "Falcon",
}  # fmt: skip
"""Words of repository names, lower case there, as their authors write them in prose."""


def rejected_name(what: str) -> str:
    """What was rejected, in words: the id of a whole accelerator is named, a configuration has its words."""
    return part_name(what) if what in accelerators() else what


def parts_name(count: float, id: str) -> str:
    """
    So many of an accelerator.

    Examples
    --------
    >>> parts_name(2, "l40s")
    '2 x L40S 48 GB'
    """
    return f"{count:g} x {part_name(id)}"


def accelerators_text(option: RankedOption[Configuration] | RankedOption[TrainConfiguration]) -> str:
    """What an option runs on, spares aside: "2 x L40S 48 GB"."""
    return parts_name(option.accelerators, option.configuration.accelerator)


def parts_asked(ids: Sequence[str]) -> str:
    """
    The accelerators that a question names, or how many they are.

    Examples
    --------
    >>> parts_asked(("b200-sxm-180gb", "mi300x"))
    'NVIDIA B200 180 GB or AMD Instinct MI300X 192 GB'
    """
    return " or ".join(map(product, ids)) if len(ids) <= MOST_NAMED else f"one of {len(ids)} accelerators"


@cache
def provider_name(id: str) -> str:
    """
    A provider as it writes itself; one that the catalogue does not list as the user writes it.

    Examples
    --------
    >>> provider_name("gcp"), provider_name("verda")
    ('Google Cloud', 'Verda')
    """
    if id not in providers():
        return id
    return PROVIDERS.get(id, " ".join(word[:1].upper() + word[1:] for word in id.split("-")))


class Sold(Protocol):
    """What a provider sells somewhere: an offer, a bill."""

    @property
    def provider(self) -> str: ...
    @property
    def region(self) -> str: ...


def seller(of: Sold) -> str:
    """Who sells it and where, "Verda FIN-03"."""
    return f"{provider_name(of.provider)} {of.region}".strip()
