"""Names as people write them: NVIDIA B200 180 GB, Llama 3.1 70B Instruct; ids stay in JSON and in commands."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.layout import Engine
from tonnage.report.document import Command, Document, Headline, Meters, Section, Table

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
CODE: Final = re.compile(r"`[^`]*`")
BARE: Final = re.compile(r"m\d")
"""Ids of accelerators that are words of other names as well."""
WORD: Final = re.compile(r"[\w./@-]{2,}")
SELLER: Final = re.compile(r"(?<=[ht)] at )[a-z][\w-]*|(?<=the cheapest, )[a-z][\w-]*|(?<=/h \()[a-z][\w-]*(?=\))")
"""Where sentences name a provider: "$4.89/h at verda", "on spot at gcp", "the cheapest, verda", "$19/h (nebius)"."""
RUNNER: Final = re.compile(r"(?<= weights, )[a-z][\w-]*(?=\))")
"""Where they name a serving engine: "(1 replica of tp 1, fp8 weights, vllm)"."""
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
    """Vendor, name, and memory as it is sold. [GB]"""
    from tonnage.catalog import accelerators

    whole, _, profile = id.partition("@")
    part = accelerators().get(whole) or _meant(whole)
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
    return part.vendor, f"{part.name}{f' slice {profile}' if profile else ''}", 0 if cpu else memory


def _meant(name: str) -> Accelerator | None:
    """The accelerator that a name as people type it stands for; None for one of the user's own."""
    from tonnage.catalog import accelerator
    from tonnage.errors import TonnageError

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


@cache
def provider_name(id: str) -> str:
    """
    A provider as it writes itself.

    Examples
    --------
    >>> provider_name("gcp"), provider_name("verda")
    ('Google Cloud', 'Verda')
    """
    return PROVIDERS.get(id, " ".join(word[:1].upper() + word[1:] for word in id.split("-")))


def engine_title(name: str, engine: Engine | None = None) -> str:
    """A serving engine as its project writes it, with the release that is meant."""
    from tonnage.engines.registry import find_engine

    spec = find_engine(name)
    if spec is None:
        return name
    version = engine.version if engine is not None and engine.version else spec.releases[-1][1] if spec.releases else ""
    return f"{spec.title} {version}".strip()


@cache
def _known_ids() -> tuple[frozenset[str], frozenset[str]]:
    """Ids of accelerators, and those of models that name their organisation."""
    from tonnage.catalog import accelerators
    from tonnage.catalog.models import model_ids

    return frozenset(accelerators()), frozenset(id for id in model_ids() if "/" in id)


@cache
def _is_alias(id: str) -> bool:
    """Another name of a known model by its own maker, say of its instruction-tuned version."""
    from tonnage.catalog.models import look_up

    maker, slash, _ = id.partition("/")
    found = look_up(id) if slash and any(sign.isdigit() for sign in id) else None
    return found is not None and found.partition("/")[0] == maker


def _display_word(word: re.Match[str]) -> str:
    """A word of a text, named if it is an id; a full stop behind it stays."""
    parts, models = _known_ids()
    id = word[0].rstrip(".")
    if BARE.fullmatch(id) and not word.string[: word.start()].endswith(" x ") and word.string.strip() != id:
        return word[0]  # as in "BGE reranker v2 m3"
    name = part_name(id) if id in parts else model_name(id) if id in models or _is_alias(id) else id
    return name + word[0][len(id) :]


def in_names(text: str) -> str:
    """
    The text with the ids of accelerators, models, providers and engines in it as people write them; code stays.

    Examples
    --------
    >>> in_names("1 x b200-sxm-180gb (fp8 weights, vllm): $4.89/h at verda FIN-03")
    '1 x B200 180 GB (fp8 weights, vLLM): $4.89/h at Verda FIN-03'
    """
    codes = iter(CODE.findall(text))
    return "".join(_named(part) + next(codes, "") for part in CODE.split(text))


def _named(text: str) -> str:
    text = SELLER.sub(_seller, text)
    return WORD.sub(_display_word, RUNNER.sub(lambda found: engine_name(found[0]), text))


def _seller(found: re.Match[str]) -> str:
    from tonnage.catalog.providers import providers

    return provider_name(found[0]) if found[0] in providers() else found[0]


def engine_name(name: str) -> str:
    """An engine as its project writes it, without a release."""
    from tonnage.engines.registry import find_engine

    spec = find_engine(name)
    return name if spec is None else spec.title


def with_names(document: Document) -> Document:
    """The document with the ids in its text as people write them; commands stay."""

    def blocks(given: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(block(one) for one in given)

    def block(one: object) -> object:
        change = msgspec.structs.replace
        if isinstance(one, Command | Meters):
            return one
        if isinstance(one, Table):
            return change(one, title=in_names(one.title), rows=tuple(tuple(map(in_names, row)) for row in one.rows))
        if isinstance(one, Section):
            return change(one, title=in_names(one.title), blocks=blocks(one.blocks))
        assert isinstance(one, msgspec.Struct)
        if isinstance(one, Headline):
            one = change(one, details=tuple(map(in_names, one.details)))
        return change(one, text=in_names(one.text))  # type: ignore[attr-defined]

    return msgspec.structs.replace(document, first=blocks(document.first), why=blocks(document.why))
