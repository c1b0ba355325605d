"""Which catalogued architecture does a model's name mean, and in which weight format?

People write base, instruct, renamed and quantised variants of one architecture: "Llama-3.1-8B",
"nvidia/Llama-3.1-70B-Instruct-FP8", "TheBloke/Llama-2-13B-chat-GGUF:Q4_K_M", "llama3.1:8b". The vendor, the words that
change no shape (Instruct, Chat, it, a date) and the precision suffix are taken off; what remains must equal what
remains of a catalogue id, sizes included. Nothing is guessed: `Taken.steps` says what was taken as what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from tonnage.errors import BadRequest, UnknownName

EXTENSIONS: Final = (".json", ".safetensors", ".gguf")
"""Of files that hold a model or say what it is."""


def looks_like_path(spec: str) -> bool:
    """Whether a text is written as a path, or is a folder without being written as a model id."""
    return spec.startswith(("/", "./", "../", "~", ".\\")) or spec in {".", ".."} or spec.lower().endswith(EXTENSIONS)


MAX_NAME_LENGTH: Final = 256

SAME_SHAPE: Final = frozenset(
    {"instruct", "chat", "it", "hf", "base", "pt", "thinking", "reasoning", "preview", "dpo", "sft", "rlhf", "latest",
     "text", "c4ai", "safetensors", "unsloth", "quantized", "compressed", "dynamic", "mlx", "marlin", "autoround",
     "original", "abliterated", "uncensored", "qat", "ud"}
)  # fmt: skip
"""Words of a name that change no shape."""

BASE_IS_A_SIZE: Final = (
    "vit", "bert", "roberta", "xlm", "t5", "mt5", "flan", "whisper", "deit", "swin", "convnext", "bart", "deberta",
    "dinov2", "modernbert", "electra", "bge", "gte", "e5", "nomic", "convnextv2", "megatron", "transformer",
)  # fmt: skip
"""First words of families in which "base" names a size, between "small" and "large"."""

VENDORS: Final = ("meta", "nvidia", "mistralai", "google", "microsoft")
"""Words that some vendors put in front of their names ("Meta-Llama-3-8B")."""

_SUFFIXES: Final[tuple[tuple[str, str], ...]] = (
    (r"(?:unsloth-)?bnb-4bit", "nf4"),
    (r"bnb-8bit", "int8_weight"),
    (r"nf4|qlora", "nf4"),
    (r"fp8-block(?:wise)?", "fp8_block"),
    (r"fp8(?:-(?:dynamic|static|kv|per-?tensor|static-per-?tensor|e4m3|tensorwise|model))*", "fp8"),
    (r"float8", "fp8"),
    (r"gptq(?:-marlin)?(?:-int8|-8bit)", "int8_weight"),
    (r"gptq(?:-marlin)?(?:-(?:int4|4bit|w4a16|g?128g?|32g))*", "gptq"),
    (r"awq(?:-marlin)?(?:-(?:int4|4bit|w4a16|sym|g128))*|int4-awq", "awq"),
    (r"quantized\.w8a8|w8a8(?:-int8)?|int8-w8a8|smoothquant", "int8"),
    (r"w8a16|quantized\.w8a16", "int8_weight"),
    (r"w4a16(?:-g128)?|quantized\.w4a16|int4-w4a16|autoround-int4|4bit|int4", "int4"),
    (r"int8|8bit", "int8_weight"),
    (r"(?:nvfp4|fp4)(?:-v\d)?", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"mxfp8", "mxfp8"),
    (r"bf16", "bf16"),
    (r"fp16|f16", "fp16"),
    (r"fp32|f32", "fp32"),
)
_HINT: Final = re.compile(r"bit|fp|nf4|qlora|float8|gptq|awq|w[48]a|int[48]|smoothquant|f16|f32|gguf|exl[23]|q\d")
"""Stands in every suffix that names a format: most names of the catalogue have none, and are read at once."""
_GGUF: Final = re.compile(r"[-.:](i?q\d(?:_[0-9a-z]+)*|bf16|f16|f32)$")
_EXL: Final = re.compile(r"[-.:](exl[23])(?:[-.:](\d(?:\.\d+)?)bpw)?$|[-.:](\d(?:\.\d+)?)bpw[-.:](exl[23])$")
_DATE: Final = re.compile(r"\d{4}|\d{6}|\d{8}")
_VERSION: Final = re.compile(r"v\d\.\d$")
_GGUF_LEVELS: Final = {
    "iq4_xs": "gguf-iq4_xs", "q3_k_l": "gguf-q3_k_m", "q2_k_s": "gguf-q2_k", "q5_1": "gguf-q5_0", "q3_k": "gguf-q3_k_m",
    "q4_k": "gguf-q4_k_m", "q5_k": "gguf-q5_k_m", "q4_k_xl": "gguf-q4_k_m", "q8": "gguf-q8_0", "iq4_nl": "gguf-q4_0",
    "bf16": "gguf-bf16", "f16": "gguf-f16", "f32": "gguf-f32", "q4": "gguf-q4_k_m", "q5": "gguf-q5_k_m",
    "q6": "gguf-q6_k", "q3": "gguf-q3_k_m", "q2": "gguf-q2_k", "q2_k_l": "gguf-q2_k", "q2_k_xl": "gguf-q2_k",
    "q3_k_xl": "gguf-q3_k_m", "q4_k_l": "gguf-q4_k_m", "q5_k_l": "gguf-q5_k_m", "q5_k_xl": "gguf-q5_k_m",
    "q6_k_l": "gguf-q6_k", "q6_k_xl": "gguf-q6_k", "q8_k_xl": "gguf-q8_0",
}  # fmt: skip
_GGUF_KNOWN: Final = frozenset(
    {"q8_0", "q6_k", "q5_k_m", "q5_k_s", "q5_0", "q4_k_m", "q4_k_s", "q4_0", "q4_1", "q3_k_m", "q3_k_s", "q2_k"}
)


class ParsedName(NamedTuple):
    """A name taken apart: the key that identifies the shape, the weight format, and what was taken as what."""

    key: str
    quantization: str | None
    steps: tuple[str, ...]


class Index(NamedTuple):
    """Catalogue ids by the key of their shape, and by the key without a trailing version where that is unique."""

    by_key: Mapping[str, str]
    by_alias: Mapping[str, str]
    ids: tuple[str, ...]
    names: tuple[str, ...]
    """Ids, and their last part where a vendor's word stands in front of it, for suggestions."""


def parse_name(name: str) -> ParsedName:
    """
    The key of a name, its weight format and the steps taken.

    Examples
    --------
    >>> parse_name("nvidia/Llama-3.1-70B-Instruct-FP8")[:2]
    ('llama3.170b', 'fp8')
    >>> parse_name("TheBloke/Llama-2-13B-chat-GGUF:Q4_K_M")[:2]
    ('llama213b', 'gguf-q4_k_m')
    """
    if len(name) > MAX_NAME_LENGTH:
        raise BadRequest(
            f"model: a name of {len(name)} characters is too long; give a catalogue id such as 'Qwen/Qwen3-8B'"
        )
    steps: list[str] = []
    vendor, slash, plain = name.strip().rpartition("/")
    if slash:
        steps.append(f"'{vendor}' is the vendor")
    rest, quantization = _precision(plain.lower(), steps)
    words = [*filter(None, re.split(r"[-_:\s]+", re.sub(r"(?<!\d)(\d)_(?=\d(?!\d))", r"\1.", rest)))]
    if len(words) > 1 and words[0] in VENDORS:
        steps.append(f"'{words[0]}' is the vendor")
        words = words[1:]
    kept = []
    for number, word in enumerate(words):
        a_size = word == "base" and words[0] in BASE_IS_A_SIZE
        if number and not a_size and (word in SAME_SHAPE or _DATE.fullmatch(word)):
            steps.append(f"'{word}' changes no shape")
        else:
            kept.append(word)
    return ParsedName("".join(kept), quantization, tuple(steps))


def _precision(name: str, steps: list[str]) -> tuple[str, str | None]:
    """The name without its precision suffixes, and the format they mean: the innermost level, the last other one."""
    if _HINT.search(name) is None:
        return name, None
    found: str | None = None
    gguf = "gguf" in name
    while True:
        if name.endswith(("-gguf", ".gguf", ":gguf", "_gguf")):
            name = name[:-5]
            continue
        shorter, said = _one_precision(name, gguf)
        if said is None:
            trimmed = _without_last_word(name)
            shorter, said = _one_precision(trimmed, gguf)
            if said is None and not (trimmed != name and trimmed.endswith("-gguf")):
                break
            steps.append(f"'{name[len(trimmed) :].strip('-.:')}' changes no shape")
            name = trimmed
            continue
        steps.append(f"'{name[len(shorter) :].strip('-.:')}' is the weight format {said}")
        found = said if found is None else found
        name = shorter
    if gguf and found is None:
        found = "gguf-q4_k_m"
        steps.append(f"'gguf' without a level is taken as {found}")
    return name, found


def _without_last_word(name: str) -> str:
    """Without a last word that changes no shape, behind which a precision may stand ("-MXFP4-Preview")."""
    head, _, word = re.sub(r"[:.](?=[a-z]+$)", "-", name).rpartition("-")
    return name[: len(head)] if head and (word in SAME_SHAPE or _DATE.fullmatch(word)) else name


@cache
def _suffixes() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compiled when a name may have one, for most commands read no such name."""
    return tuple((re.compile(rf"(?:^|[-.:])(?:{pattern})$"), name) for pattern, name in _SUFFIXES)


def _one_precision(name: str, gguf: bool) -> tuple[str, str | None]:
    level = _GGUF.search(name)
    if level is not None and (level.group(1)[0] in "iq" or gguf):
        said = level.group(1)
        return name[: level.start()], f"gguf-{said}" if said in _GGUF_KNOWN else _GGUF_LEVELS.get(said, f"gguf-{said}")
    bits = _EXL.search(name)
    if bits is not None:
        kind, rate = bits.group(1) or bits.group(4), bits.group(2) or bits.group(3) or "4.0"
        return name[: bits.start()], f"{kind}-{rate}bpw"
    for pattern, said in _suffixes():
        match = pattern.search(name)
        if match is not None and match.start() > 0:
            return name[: match.start()], said
    return name, None


def index(ids: Iterable[str], aliases: Mapping[str, str]) -> Index:
    """Prepare the look-up once; `aliases` are other names and the ids they stand for."""
    by_key: dict[str, str] = {}
    loose: dict[str, str | None] = {}
    kept = tuple(ids)
    for id in kept:
        key = parse_name(id).key
        by_key.setdefault(key, id)
        short = _VERSION.sub("", key)
        loose[short] = None if short in loose and loose[short] != id else id
    by_alias = {short: id for short, id in loose.items() if id is not None and short not in by_key}
    for alias, id in aliases.items():
        by_alias[alias.lower()] = by_alias[parse_name(alias).key] = id
    return Index(by_key, by_alias, kept, (*kept, *_short_names(kept)))


def _short_names(ids: Iterable[str]) -> Iterable[str]:
    """Such as "Llama-3.1-8B" for "meta-llama/Meta-Llama-3.1-8B"."""
    for id in ids:
        first, dash, rest = id.rpartition("/")[2].partition("-")
        if dash and first.lower() in VENDORS:
            yield rest


def find(name: str, known: Index) -> tuple[str, ParsedName]:
    """
    The catalogue id a name means, and how it was read.

    Raises
    ------
    UnknownName
        No catalogue id has this shape; suggests the nearest.
    """
    taken = parse_name(name)
    if name in known.ids:
        return name, ParsedName(taken.key, None, ("it is a catalogue id",))
    found = _lookup_name(name, taken, known)
    if found is None:
        raise UnknownName("model", name, known=known.names)
    return found, taken


def look_up(name: str, known: Index) -> str | None:
    """The catalogue id that a name means; none where `find` would raise, without looking for near names."""
    return name if name in known.ids else _lookup_name(name, parse_name(name), known)


def _lookup_name(name: str, taken: ParsedName, known: Index) -> str | None:
    found = known.by_alias.get(name.lower()) or known.by_key.get(taken.key) or known.by_alias.get(taken.key)
    return found if taken.key else None
