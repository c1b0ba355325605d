"""
Pairs of predictions that a law binds: deployments drawn at random over the catalogue, under loads drawn at random.

`benchmarks.laws` says what the laws are and prints the sweep; here is how each of them finds its pairs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

from tonnage import catalog
from tonnage.catalog.engines import formats
from tonnage.core.deployment import resolve
from tonnage.core.error_model import structure
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import ServeCase, ServeResult, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LatentAttention, Model, Moe
from tonnage.domain.precision import Precision, number_format
from tonnage.errors import TonnageError, Unmeasured
from tonnage.physics.cache import cache_bytes_per_sequence
from tonnage.physics.collectives import has_link, link_rate
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.memory import weight_bytes
from tonnage.questions.predict.predict import predict
from tonnage.units import GB, MiB

MODELS: Final = (
    "meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-3B", "mistralai/Mistral-7B-v0.3", "meta-llama/Meta-Llama-3.1-8B",
    "google/gemma-2-9b", "microsoft/phi-4", "mistralai/Mistral-Small-24B-Base-2501", "google/gemma-3-27b-it",
    "Qwen/Qwen3-32B", "meta-llama/Meta-Llama-3.1-70B", "Qwen/Qwen2.5-72B", "meta-llama/Meta-Llama-3.1-405B",
    "allenai/OLMoE-1B-7B-0924", "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1",
    "zai-org/GLM-4.5-Air", "openai/gpt-oss-120b", "mistralai/Mixtral-8x22B-v0.1", "Qwen/Qwen3-235B-A22B",
    "deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V3", "ai21labs/Jamba-v0.1",
    "Qwen/Qwen3-Next-80B-A3B-Instruct", "ibm-granite/granite-4.0-h-small", "meta-llama/Llama-4-Scout-17B-16E-Instruct",
)  # fmt: skip
"""Dense, mixtures of experts, latent attention, windows and hybrids; 1 to 700 billion parameters."""
ENGINES: Final = ("vllm", "sglang", "trtllm", "lmdeploy", "llamacpp")
"""Every serving engine whose formats the catalogue knows (data/engines/support.csv; Transformers is a library)."""
ALIKE: Final = ("vllm", "sglang", "trtllm")
"""Engines with kernel tables of their own; the others borrow theirs."""
GGUF: Final = ("gguf-q8_0", "gguf-q4_k_m")
LOADS: Final = tuple(
    (prompt, output, clients)
    for prompt, output in ((128, 128), (1024, 256), (512, 1024), (4096, 512))
    for clients in (1, 4, 8, 16, 32, 64, 128)
)
"""Prompt tokens, output tokens, clients in a closed loop."""
CACHED: Final = {"cpu": 1152 * MiB, "": 256 * MiB}
"""
Last-level cache that may keep bytes between two steps: the largest that any part has, so that the law is safe for all.
AMD's data sheets: EPYC 9684X 1,152 MB of L3, MI300X 256 MB of Infinity Cache. [bytes]
"""
LAWS: Final = {
    "format": 1.3,
    "tensor": 1.25,
    "part": 1.05,
    "vendor": 1.05,
    "bytes": 1.0,
    "engine": 2.5,
    "overload": 1.05,
}
"""How far a ratio may go. [-]"""
SKEW: Final = 1.2
"""
Exponent by which the popularity of experts falls with their rank, in the kernel tables that predictions rest on
(docs/physics.md 2). Fewer experts are read than under even routing. [-]
"""
SHARD_BYTES: Final = 2.0 * GB
SAME: Final = 1e-4
"""Relative difference below which two numbers are one: no comparison. [-]"""


class Situation(NamedTuple):
    """One case, as few facts as tell it from others."""

    model: str
    part: str
    engine: str
    weights: str
    tp: int
    prompt: int
    output: int
    clients: int
    """In a closed loop; 0 where `rate_per_s` is given."""
    rate_per_s: float = 0.0
    decode: bool = False
    """Decode alone, with all clients in the batch; otherwise prompts share the accelerator."""

    def __str__(self) -> str:
        load = f"{self.rate_per_s:.3g}/s" if self.rate_per_s else f"{self.clients} clients"
        deployed = f"{self.model} {self.part} x{self.tp} {self.engine} {self.weights}"
        return f"{deployed} {self.prompt}/{self.output} {load}{' decode' if self.decode else ''}"


class Outcome(NamedTuple):
    """What `predict` says of a situation."""

    tpot_s: float
    output_tokens_per_s: float
    kv_tokens: float
    measured: bool
    """The weakest kernel is the engine's own on this part: basis *calibrated*."""


class Comparison(NamedTuple):
    """Two predictions under a law; broken where the ratio is above the law's."""

    law: str
    what: str
    """Names an exception: everything but model and load."""
    ratio: float
    one: Situation
    """What should be no slower, or no less."""
    other: Situation
    numbers: tuple[float, float]
    """Of both: seconds of TPOT, or tokens per second (`overload`)."""
    measured: bool = False
    preempted: bool = False

    @property
    def broken(self) -> bool:
        return self.ratio > LAWS[self.law] * (1.0 + 1e-9)

    @property
    def same(self) -> bool:
        """Both numbers are one: parts that are alike to the model, or a queue that only grows. Says nothing."""
        return abs(self.ratio - 1.0) < SAME


def case_of(s: Situation) -> ServeCase:
    """The case that a user would write."""
    traffic = Traffic(rate_per_s=s.rate_per_s) if s.rate_per_s else Traffic(concurrency=float(s.clients))
    if s.decode:  # clients that come and go bring prompts, whatever is timed
        traffic = Traffic(batch=float(s.clients), static=True)
    return ServeCase(
        model=s.model,
        accelerator=s.part,
        traffic=traffic,
        isl=float(s.prompt),
        osl=float(s.output),
        layout=Layout(tp=s.tp),
        precision=Precision(weights=s.weights),
        engine=s.engine,
        phase="decode" if s.decode else "both",
    )


@cache
def outcome(s: Situation) -> Outcome | None:
    """The prediction, once; nothing where it does not fit or nothing can be said."""
    try:
        found = predict(case_of(s))
    except TonnageError:
        return None
    if not isinstance(found, ServeResult) or not found.fits or found.tpot_s is None or not found.output_tokens_per_s:
        return None
    rate, kept = found.output_tokens_per_s.value, found.kv_cache_tokens or 0.0
    return Outcome(found.tpot_s.mean, rate, kept, found.basis == "calibrated" and s.engine in ALIKE)


def roomy(s: Situation) -> Outcome | None:
    """The prediction, where the cache holds every client to the end."""
    found = outcome(s)
    return found if found and found.kv_tokens >= s.clients * (s.prompt + s.output) else None


@cache
def parts() -> tuple[Accelerator, ...]:
    """Every accelerator that is sold or rented and that something can be predicted for."""
    return tuple(part for part in catalog.accelerators().values() if part.status == "released")


@cache
def known_formats(engine: str, part: str) -> dict[str, bool]:
    """Formats the engine has kernels for there, and whether their products run in fewer bits; 16 bits first."""
    accelerator = catalog.accelerator(part)
    runs = formats(engine, accelerator)
    if engine == "llamacpp":
        return dict.fromkeys(("gguf-f16", *GGUF), False) if runs else {}
    sixteen = next((name for name in ("bf16", "fp16") if name in runs), None)
    if sixteen is None:
        return {}
    found = {sixteen: False}
    for name, support in runs.items():
        stored = number_format(name)
        if stored.bits < 16:
            own = not stored.weight_only and not support.at_16_bits
            # Units slower than those of 16 bits are none of its own: INT8 on Blackwell Ultra, by its data sheet.
            if own and accelerator.peaks.get(stored.compute, 0.0) < peak_flop_per_s(accelerator, sixteen):
                continue
            found[name] = own
    return found


@cache
def model_of(name: str) -> Model:
    return catalog.model(name)


@cache
def kind_of(name: str) -> str:
    """Dense or mixture, and the kind of attention."""
    model = model_of(name)
    mixers = {type(group.mixer) for group in model.layers}
    if LatentAttention in mixers:
        return f"{structure(model)} latent"
    return structure(model) if mixers <= {Attention, type(None)} else f"{structure(model)} hybrid"


@cache
def shard_bytes(model: str, weights: str, tp: int) -> float:
    return weight_bytes(model_of(model), Precision(weights=weights), layout=Layout(tp=tp)).value


@cache
def degrees(part: str) -> tuple[int, ...]:
    """Tensor-parallel degrees inside one node."""
    accelerator = catalog.accelerator(part)
    most = max(accelerator.max_per_node or 1, accelerator.link.domain)
    return tuple(tp for tp in (1, 2, 4, 8) if tp <= most)


def starts(draw: random.Random) -> Iterator[Situation]:
    """Deployments at random that fit: models, then engines, then accelerators alike often; without a load yet."""
    while True:
        model, engine, part = draw.choice(MODELS), draw.choice(ENGINES), draw.choice(parts())
        known = known_formats(engine, part.id)
        if not known:
            continue
        # 16 bits or one format: small parts hold many models in few bits only.
        for weights in (next(iter(known)), draw.choice(list(known))):
            memory = 0.8 * part.driver_memory_bytes
            layouts = (1,) if engine == "llamacpp" else degrees(part.id)
            fitting = [tp for tp in layouts if shard_bytes(model, weights, tp) <= memory]
            if fitting:
                # More than twice the fewest is seldom asked.
                yield Situation(model, part.id, engine, weights, draw.choice(fitting[:2]), 0, 0, 0)
                break


def loaded(start: Situation, draw: random.Random, count: int = 3) -> Iterator[Situation]:
    """The deployment under some loads, every third time decode alone."""
    for prompt, output, clients in draw.sample(LOADS, count):
        yield start._replace(prompt=prompt, output=output, clients=clients, decode=draw.random() < 1 / 3)


def _pair(law: str, what: str, one: Situation, other: Situation) -> Comparison | None:
    """TPOT of what should be no slower over the other's."""
    first, second = roomy(one), roomy(other)
    if first is None or second is None:
        return None
    measured = first.measured and (second.measured or law in {"part", "vendor"})
    numbers = first.tpot_s, second.tpot_s
    return Comparison(law, what, first.tpot_s / second.tpot_s, one, other, numbers, measured)


def format_law(start: Situation, draw: random.Random) -> Iterator[Comparison | None]:
    known = known_formats(start.engine, start.part)
    sixteen = next(iter(known))
    others = [name for name in known if name != sixteen]
    for s in loaded(start, draw):
        for name in draw.sample(others, min(4, len(others))):
            if known[name] or s.clients <= 16:
                what = f"{s.engine} {s.part} {name} {kind_of(s.model)}"
                yield _pair("format", what, s._replace(weights=name), s._replace(weights=sixteen))


def tensor_law(start: Situation, draw: random.Random) -> Iterator[Comparison | None]:
    part = catalog.accelerator(start.part)
    twice = 2 * start.tp
    if not part.link.kind.startswith("nvlink") or twice > min(part.link.domain, 8) or start.engine == "llamacpp":
        return
    if shard_bytes(start.model, start.weights, twice) <= SHARD_BYTES:
        return
    for s in loaded(start, draw):
        what = f"{s.engine} {s.part} {s.weights} {kind_of(s.model)} x{twice}"
        yield _pair("tensor", what, s._replace(tp=twice), s)


@cache
def better(part: str, engine: str, weights: str, tp: int) -> tuple[str, ...]:
    """Accelerators at least equal in everything the case needs, that the engine runs in the same way."""
    mine = catalog.accelerator(part)
    known = known_formats(engine, part)
    # What the products run in, and the attention beside them.
    dtypes = {"fp16", "bf16"} | ({number_format(weights).compute} if known[weights] else set())
    if engine == "llamacpp":
        dtypes.add("fp32")  # its kernels unpack blocks in ordinary lanes
    found = []
    for other in parts():
        if other.id == part or known_formats(engine, other.id).get(weights) != known[weights]:
            continue
        equal = (
            other.driver_memory_bytes >= mine.driver_memory_bytes
            and other.memory_bytes_per_s >= mine.memory_bytes_per_s
            and (tp == 1 or _linked_as_well(other, mine, tp))
            and all(_peak(other, dtype) >= _peak(mine, dtype) for dtype in dtypes)
        )
        if equal:
            found.append(other.id)
    return tuple(found)


def _linked_as_well(part: Accelerator, other: Accelerator, tp: int) -> bool:
    """Whether so many of them reach each other at no lower rate, over links of the same reach or further."""
    inside = [max(one.max_per_node or 1, one.link.domain) >= tp for one in (part, other)]
    # Ranks of one domain may lie in several hosts (trays of GB200 and GB300), which exchanges of one host do not cross.
    hosted = [(one.max_per_node or 1) >= tp for one in (part, other)]
    linked = [has_link(one, ranks=tp) for one in (part, other)]
    # GeForce cards pass data through the host; server and workstation cards read each other's memory over PCIe.
    peers = [one.segment != "consumer" for one in (part, other)]
    return (
        inside[0] >= inside[1]
        and hosted[0] >= hosted[1]
        and linked[0] >= linked[1]
        and (linked[0] or peers[0] >= peers[1])
        and link_rate(part, ranks=tp) >= link_rate(other, ranks=tp)
    )


def _peak(part: Accelerator, dtype: str) -> float:
    try:
        return peak_flop_per_s(part, dtype)
    except Unmeasured:
        return 0.0


def part_law(start: Situation, draw: random.Random) -> Iterator[Comparison | None]:
    above = better(start.part, start.engine, start.weights, start.tp)
    for s in loaded(start, draw):
        for other in draw.sample(above, min(3, len(above))):
            law = "part" if catalog.accelerator(other).vendor == catalog.accelerator(s.part).vendor else "vendor"
            what = f"{s.engine} {other} over {s.part} {s.weights} {kind_of(s.model)}"
            yield _pair(law, what, s._replace(part=other), s)


def fewest_experts(model: Model, batch: float) -> float:
    """Share of a layer's experts that so many tokens reach at least, by a power law; 1 without experts. [-]"""
    share = 1.0
    for moe in (group.feed_forward for group in model.layers):
        if isinstance(moe, Moe):
            popular = [rank**-SKEW for rank in range(1, moe.num_experts + 1)]
            rows, total = batch * moe.num_experts_per_tok, sum(popular)
            hit = sum(1.0 - (1.0 - weight / total) ** rows for weight in popular)
            share = min(share, max(hit, moe.num_experts_per_tok) / moe.num_experts)
    return share


def bytes_of(s: Situation, batch: float) -> float:
    """
    Weights and cached keys and values that one decode step of a rank reads. [bytes]

    By the books of memory (matrices and caches that a rank holds), which no operator of a step is made from: whoever
    forgets a matrix in a step breaks the law.
    """
    at = resolve(case_of(s)).placement
    held = {part.name: part.value for part in weight_bytes(at.model, at.precision, layout=at.layout).parts}
    held["experts"] = held.get("experts", 0.0) * fewest_experts(at.model, batch)
    held.pop("towers", 0.0)
    if "head" in held:  # otherwise the embedding is the head, too
        held.pop("embedding")
    cached = cache_bytes_per_sequence(at.model, at.precision.kv, context=float(s.prompt), layout=at.layout)
    return sum(held.values()) + batch * cached


def bytes_law(start: Situation, draw: random.Random) -> Iterator[Comparison | None]:
    part = catalog.accelerator(start.part)
    cached = CACHED.get(part.segment, CACHED[""])
    known = list(known_formats(start.engine, start.part))
    for s in loaded(start, draw):
        for name in {start.weights, draw.choice(known)}:
            case = s._replace(weights=name, decode=True)
            found = roomy(case)
            if found is None:
                continue
            batch = min(float(s.clients), found.output_tokens_per_s * found.tpot_s)
            least_s = (bytes_of(case, batch) - cached) / part.memory_bytes_per_s
            what = f"{s.engine} {s.part} {name} {kind_of(s.model)}"
            yield Comparison("bytes", what, least_s / found.tpot_s, case, case, (least_s, found.tpot_s))


def engine_law(start: Situation, draw: random.Random) -> Iterator[Comparison | None]:
    if start.engine not in ALIKE:
        return
    for s in loaded(start, draw):
        for other in ALIKE:
            if other > s.engine and start.weights in known_formats(other, s.part):
                found = _pair("engine", "", s, s._replace(engine=other))
                if found is not None and found.ratio < 1.0:
                    found = _pair("engine", "", s._replace(engine=other), s)
                if found is not None:
                    names = f"{found.one.engine} after {found.other.engine}"
                    yield found._replace(what=f"{names} {s.part} {s.weights} {kind_of(s.model)}")


def overload_law(start: Situation, draw: random.Random) -> Iterator[Comparison | None]:
    for s in loaded(start, draw, 2):
        case = s._replace(decode=False)
        yield _overload(case, case._replace(clients=2 * s.clients))
        most = outcome(case._replace(clients=512))
        if most is not None:
            rate = most.output_tokens_per_s / s.output
            full = case._replace(clients=0, rate_per_s=rate)
            yield _overload(full, full._replace(rate_per_s=draw.choice((1.5, 3.0, 10.0)) * rate))


def _overload(before: Situation, after: Situation) -> Comparison | None:
    first, second = outcome(before), outcome(after)
    if first is None or second is None:
        return None
    running = after.clients or second.output_tokens_per_s * second.tpot_s
    preempted = second.kv_tokens < 1.1 * running * (after.prompt + after.output)
    numbers = first.output_tokens_per_s, second.output_tokens_per_s
    loop = "closed" if after.clients else "open"
    what = f"{after.engine} {after.part} {after.weights} {kind_of(after.model)} {loop}"
    ratio = numbers[0] / max(numbers[1], 1e-12)
    return Comparison("overload", what, ratio, after, before, numbers, preempted=preempted)


CHECKS: Final[dict[str, Callable[[Situation, random.Random], Iterator[Comparison | None]]]] = {
    "format": format_law,
    "tensor": tensor_law,
    "part": part_law,
    "bytes": bytes_law,
    "engine": engine_law,
    "overload": overload_law,
}
"""What compares a deployment under each law; `part_law` yields `vendor` too."""
