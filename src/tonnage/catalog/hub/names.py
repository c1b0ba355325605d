"""
Which architecture does a model's name or a bare size such as "13B" mean, and in which weight format?

People write base, instruct, renamed and quantised variants of one architecture: "Llama-3.1-8B",
"nvidia/Llama-3.1-70B-Instruct-FP8", "TheBloke/Llama-2-13B-chat-GGUF:Q4_K_M", "llama3.1:8b". The vendor, the words that
change no shape (Instruct, Chat, it, a date) and the precision suffix are taken off; what remains must equal what
remains of a catalogue id, sizes included. Nothing is guessed: `ParsedName.steps` says what was taken as what.

Of a bare size, depth, width and heads are interpolated between known decoders (GPT-2, Qwen2.5, Llama 3.2 and 3.1); the
feed-forward width is then chosen so that the total is the size asked for. A mixture whose total and active sizes are
published, and nothing else, gets the depth and width of mixtures of its active size, and experts that meet both
totals. The model says in `assumed` what it is: its weights and the work of a token follow from what was published, its
cache does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe
from tonnage.errors import BadRequest, UnknownName, echo

EXTENSIONS: Final = (".json", ".safetensors", ".gguf")
"""Of files that hold a model or say what it is."""


def looks_like_path(spec: str) -> bool:
    """Whether a text is written as a path: by how it begins, or by the ending of a file that holds a model."""
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
    ('llama3.1-70b', 'fp8')
    >>> parse_name("TheBloke/Llama-2-13B-chat-GGUF:Q4_K_M")[:2]
    ('llama2-13b', 'gguf-q4_k_m')
    """
    if len(name) > MAX_NAME_LENGTH:
        raise BadRequest(
            f"model: a name of {len(name)} characters is too long; give a catalogue id such as 'Qwen/Qwen3-8B'"
        )
    steps: list[str] = []
    vendor, slash, bare = name.strip().rpartition("/")
    if slash:
        steps.append(f"'{vendor}' is the vendor")
    rest, quantization = _precision(bare.lower(), steps)
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
    # Numbers stay apart: "Qwen33-2B" is no "Qwen3-32B".
    key = re.sub(r"(?<!\d)-|-(?!\d)", "", "-".join(kept))
    return ParsedName(key, quantization, tuple(steps))


def tuning(name: str) -> frozenset[str]:
    """
    The words of a name that say how a model of its shape was tuned, and of which day it is.

    >>> sorted(tuning("nvidia/Llama-3.1-70B-Instruct-FP8")), sorted(tuning("llama 3.1 70b"))
    (['instruct'], [])
    """
    told = (re.fullmatch(r"'(.+)' changes no shape", step) for step in parse_name(name).steps)
    return frozenset(step[1] for step in told if step)


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
    """The name without the precision that stands last, and the format that it means; None = none stands last."""
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


_SIZE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,4})?)\s*([mMbBtT])")
_MIXTURE: Final = re.compile(r"\d{1,4}\s*[xX×]\s*\d{1,5}(?:\.\d+)?\s*[mMbB]")
_UNITS: Final = {"m": 1e6, "b": 1e9, "t": 1e12}
_SMALLEST, _LARGEST = 20e6, 5e12

_SHAPES: Final = (
    (20e6, 6, 320), (0.1e9, 12, 768), (0.494e9, 24, 896), (1.236e9, 16, 2048), (3.213e9, 28, 3072), (8.03e9, 32, 4096),
    (14.77e9, 48, 5120), (32.76e9, 64, 5120), (70.55e9, 80, 8192), (405.9e9, 126, 16384), (1000e9, 160, 22528),
)  # fmt: skip
"""Parameters, layers and width: a toy, GPT-2, Qwen2.5 0.5B, 14B and 32B, Llama 3.2 and 3.1; the last by trend."""

_TIED_BELOW: Final = 4e9
"""Decoders below this share the embedding with the head (Llama 3.2, Qwen3)."""


def bare_size(text: str) -> float | None:
    """
    Parameters that a bare size names, or None when the text is no size.

    Examples
    --------
    >>> bare_size("13B"), bare_size("350m"), bare_size("Llama-3.1-8B")
    (13000000000.0, 350000000.0, None)
    """
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else float(match.group(1)) * _UNITS[match.group(2).lower()]


def read_size(text: str) -> Model | None:
    """
    The decoder a bare size stands for, or None when the text is no size.

    Raises
    ------
    BadRequest
        A size no decoder has, or a mixture ("8x7B"), whose shape no size tells.
    """
    size = bare_size(text)
    if size is not None:
        return decoder_of_size(size, name=text.strip())
    if _MIXTURE.fullmatch(text.strip()):
        raise BadRequest(
            f"model: '{echo(text)}' is a mixture of experts, and its size alone tells no shape; "
            "name one, such as 'mistralai/Mixtral-8x7B-v0.1', or give its config.json"
        )
    return None


def decoder_of_size(size: float, *, name: str) -> Model:
    """A dense decoder with that many parameters, to 1 %, its feed-forward width a multiple that kernels like."""
    if not _SMALLEST <= size <= _LARGEST:
        raise BadRequest(f"model: '{echo(name)}' is no size of a decoder; expected 20M to 5T, such as '13B'")
    layers, width = _depth_and_width(size)
    head_dim = 128 if width >= 2048 else 64
    heads = width // head_dim
    kv_heads = max(divisor for divisor in (1, 2, 4, 8) if heads % divisor == 0)
    vocabulary = 128_256 if size >= 0.8e9 else 32_000
    tied = size < _TIED_BELOW
    # Total = (1 or 2) V D + L (2 D N H + 2 D K H + 3 D F + 2 D) + D, solved for F.
    outside = vocabulary * width * (1 if tied else 2) + width
    mixer = 2 * width * heads * head_dim + 2 * width * kv_heads * head_dim + 2 * width
    each = (size - outside) / layers - mixer
    step = 256 if width >= 2048 else 32
    inner = max(round(each / (3 * width) / step) * step, 64)
    group = LayerGroup(
        count=layers,
        mixer=Attention(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim),
        feed_forward=Mlp(intermediate_size=inner),
    )
    shape = f"{layers} layers of width {width}, feed-forward {inner}, {heads} heads, {kv_heads} key-value heads"
    return Model(
        id=name,
        family="generic",
        kind="llm",
        hidden_size=width,
        vocab_size=vocabulary,
        layers=(group,),
        tie_word_embeddings=tied,
        max_context=131_072,
        source="interpolated between known dense decoders",
        assumed=(f"bare size '{name}': a dense decoder of that size with {shape}, vocabulary {vocabulary:,}",),
    )


_MIXTURES: Final = (
    (0.5e9, 16, 1280), (1.3e9, 16, 2048), (3.3e9, 48, 2048), (6.6e9, 36, 3072), (12e9, 46, 4096), (22e9, 80, 4096),
    (37e9, 61, 7168), (95e9, 92, 8192), (200e9, 120, 12288),
)  # fmt: skip
"""Active parameters, layers and width: small OCR models, OLMoE, Qwen3-30B-A3B, between, GLM-4.5-Air, Qwen3-235B-A22B
and Hy3, DeepSeek-V3, Qwen3.8-2.4T; the last by trend."""


def mixture_of_size(total: float, active: float, *, name: str) -> Model:
    """
    A mixture of experts with that many parameters in all, to 1 %, and for each token, to 3 %.

    About eight experts are chosen and one is shared, as in most mixtures since DeepSeek-V3; their width follows from
    what a token uses beyond attention and vocabulary, their number from the total.
    """
    if not _SMALLEST <= active < total <= _LARGEST:
        raise BadRequest(
            f"model: '{echo(name)}' has no sizes of a mixture; expected active parameters below the total, 20M to 5T"
        )
    layers, width = _depth_and_width(active, _MIXTURES)
    vocabulary, head_dim, kv_heads = 151_936, 128, 8 if width >= 3072 else 4
    heads = max(width // head_dim, kv_heads)
    outside = 2.0 * vocabulary * width + width
    mixer = 2 * width * heads * head_dim + 2 * width * kv_heads * head_dim + 2 * width
    used, held = (active - outside) / layers - mixer, (total - outside) / layers - mixer
    if used < 0.1 * active / layers:
        raise BadRequest(
            f"model: '{echo(name)}': {active:.3g} active parameters are too few for a mixture of {total:.3g}"
        )
    attention = Attention(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim)
    groups = _mixture_layers(used / (3 * width), held / (3 * width), layers=layers)
    layout = tuple(LayerGroup(count=count, mixer=attention, feed_forward=experts) for count, experts in groups if count)
    return Model(
        id=name,
        family="generic",
        kind="llm-moe",
        hidden_size=width,
        vocab_size=vocabulary,
        layers=layout,
        max_context=131_072,
        source="interpolated between known mixtures",
    )


def _mixture_layers(used: float, held: float, *, layers: int) -> tuple[tuple[int, Moe], tuple[int, Moe]]:
    """
    How many layers have which experts, for the width that a token uses and the width that a layer holds.

    Widths and numbers split over eight ranks as kernels like them: routed experts in steps of 128 to 512, eights of
    them. The shared one takes what whole experts leave of `used`, and some layers hold eight more to meet `held`.
    """
    even = used / 9
    step = 512 if even >= 1536 else 256 if even >= 640 else 128
    inner = max(round(even / step) * step, 128)
    chosen = max(round(used / inner) - 1, 1)
    shared = max(round((used - chosen * inner) / 128) * 128, 128)
    count = max((held - shared) / inner, chosen)
    few = math.floor(count / 8) * 8
    more = round((count - few) / 8 * layers)
    made = [
        Moe(
            num_experts=max(number, chosen),
            num_experts_per_tok=chosen,
            moe_intermediate_size=inner,
            shared_intermediate_size=shared,
        )
        for number in (few, few + 8)
    ]
    return (layers - more, made[0]), (more, made[1])


def _depth_and_width(size: float, shapes: tuple[tuple[float, int, int], ...] = _SHAPES) -> tuple[int, int]:
    """
    Layers and width of a decoder of `size` parameters: layers that stages of a pipeline divide, heads that ranks do.

    Between the two nearest known decoders both grow as powers of the size; beyond the last they go on so.
    """
    points = [(math.log(parameters), math.log(layers), math.log(width)) for parameters, layers, width in shapes]
    x = math.log(size)
    upper = next((number for number, point in enumerate(points) if point[0] >= x), len(points) - 1)
    high = max(upper, 1)
    low = high - 1
    share = (x - points[low][0]) / (points[high][0] - points[low][0])
    layers = math.exp(points[low][1] + share * (points[high][1] - points[low][1]))
    width = math.exp(points[low][2] + share * (points[high][2] - points[low][2]))
    step = 1024 if width >= 4096 else 512 if width >= 2048 else 128
    even = 4 if layers >= 24 else 2
    return max(round(layers / even) * even, 4), max(round(width / step) * step, 128)
