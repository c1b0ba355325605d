"""What does a serving engine do when a setting is not given?

Each engine has a function that returns its defaults as `Default`s: field, value, and where it is written. Versions
matter: vLLM raised its memory share in 0.21 and changed its batch limits four times. A version can be a release
("0.6.4"), a word around one ("rocm7.0_vllm_0.10.2"), or a date ("2025-07"), which stands for the release of that month;
without any of them the newest release known here is assumed, and `assumptions` says so.

The tables are small, change with releases of other people's software, and belong to the code that applies their rules;
so they are code, with a source each, and not a catalogue file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from tonnage.errors import UnknownName
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.layout import Engine, Layout
from tonnage.nouns.model import Model
from tonnage.units import GiB

__all__ = [
    "ENGINES",
    "Default",
    "assumptions",
    "defaults",
    "engine_name",
    "explain_defaults",
    "release",
    "unsupported",
    "visible_memory_bytes",
]

Release = tuple[int, ...]


class Default(msgspec.Struct, frozen=True, kw_only=True):
    """One setting an engine chooses by itself, and where that is written."""

    field: str
    value: Any
    source: str


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine looks at when it chooses: its release, the device, the model, the degrees, and who asks."""

    engine: Engine
    release: Release
    accelerator: Accelerator
    model: Model
    layout: Layout
    offline: bool
    """The library's own batch class rather than the API server."""

    @property
    def memory_gib(self) -> float:
        """Memory a process sees. [GiB]"""
        return visible_memory_bytes(self.accelerator) / GiB


def visible_memory_bytes(accelerator: Accelerator) -> float:
    """
    Memory that a CUDA process sees: what the driver lists, less what it keeps. [bytes]

    Logs give 79.18 GiB of H100's 79.65, 23.58 of RTX 3090's 24.0, 14.56 of T4's 15.0, 139.8 of H200's 140.4, 178.35 of
    B200's 179.06: 450 MiB and 0.15 % fit all within 0.3 % (A100 keeps 0.4 % more). Apple lets a process wire three
    quarters of unified memory (Metal recommendedMaxWorkingSetSize); other vendors list what is usable.
    """
    listed = accelerator.driver_memory_bytes
    if accelerator.vendor == "Apple":
        return 0.75 * listed
    if accelerator.vendor != "NVIDIA" or accelerator.segment == "edge":
        return listed
    return listed - 450 * 2**20 - 0.0015 * listed


RELEASED: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "vllm": (
        ("2023-09", "0.2"), ("2023-12", "0.2.6"), ("2024-02", "0.3"), ("2024-04", "0.4"), ("2024-06", "0.5"),
        ("2024-09", "0.6"), ("2024-12", "0.6.5"), ("2025-01", "0.7"), ("2025-03", "0.8"), ("2025-05", "0.9"),
        ("2025-07", "0.10"), ("2025-10", "0.11"), ("2025-12", "0.12"), ("2026-01", "0.14"), ("2026-03", "0.18"),
        ("2026-04", "0.19"), ("2026-05", "0.21"), ("2026-06", "0.22"), ("2026-08", "0.27"),
    ),
    "sglang": (
        ("2024-01", "0.1"), ("2024-07", "0.2"), ("2024-09", "0.3"), ("2024-12", "0.4"), ("2025-06", "0.4.7"),
        ("2025-07", "0.4.9"), ("2025-09", "0.5.2"), ("2025-11", "0.5.5"), ("2026-02", "0.5.8"), ("2026-04", "0.5.10"),
    ),
    "llamacpp": (
        ("2023-08", "1000"), ("2024-03", "2413"), ("2024-06", "3100"), ("2024-11", "4000"), ("2025-06", "5600"),
    ),
    "trtllm": (
        ("2023-10", "0.5"), ("2024-07", "0.11"), ("2024-12", "0.16"), ("2025-03", "0.18"), ("2025-09", "1.0"),
        ("2025-10", "1.1"), ("2025-12", "1.2"),
    ),
}  # fmt: skip
"""Month in which a release, line or build (llama.cpp) appeared; source: the projects' release pages."""


def release(engine: Engine, year: int | None = None) -> Release | None:
    """The release as numbers; from a date in the version, else from the year it ran; absent when neither is given."""
    text = engine.version or ""
    if build := re.search(r"\bb(\d{3,5})\b", text):
        return (int(build.group(1)),)
    found = _RELEASE.search(_after_name(text, engine.name))
    known = RELEASED.get(engine.name, ())
    month = _month(text) or (f"{year}-06" if year is not None else None)
    if found is not None and (month is None or ".x" not in text):
        return _numbers(found.group(1))
    if month is None or not known:
        return _numbers(found.group(1)) if found is not None else None
    dated = _numbers(next((number for day, number in reversed(known) if day <= month), known[0][1]))
    if found is not None:  # "0.2.x (Dec 2023)": the month picks the release of that line
        line = _numbers(found.group(1))
        return dated if dated[: len(line)] == line else line
    # "V1 (Jan 2025)": the V1 engine before it became the default behaves like the release that made it so.
    return max(dated, (0, 8)) if engine.name == "vllm" and re.match(r"v1\b", text, re.IGNORECASE) else dated


_RELEASE: Final = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d{1,3}){1,2})(?!\d)")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def _month(text: str) -> str | None:
    """The month a text names: "2025-07", "20251006", "Jan 2025", or the middle of a bare year."""
    if found := re.search(r"(20\d\d)-?([01]\d)", text):
        return f"{found.group(1)}-{found.group(2)}"
    if found := re.search(r"\b(\w{3})\w*[ -](20\d\d)\b", text):
        name = found.group(1).lower()
        return f"{found.group(2)}-{_MONTHS.index(name) + 1:02d}" if name in _MONTHS else f"{found.group(2)}-06"
    found = re.search(r"\b(20\d\d)\b", text)
    return f"{found.group(1)}-06" if found else None


def _after_name(text: str, name: str) -> str:
    """The part of a container tag that follows the engine's name: "rocm7.0.0_vllm_0.10.2" -> "0.10.2"."""
    return text.rsplit(f"{name}_", 1)[-1] if f"{name}_" in text else text


def _numbers(text: str) -> Release:
    return tuple(int(number) for number in text.split("."))


def _vllm(at: Deployment) -> Iterator[Default]:
    source = "vLLM EngineArgs.get_batch_defaults"
    yield Default(
        field="memory_fraction",
        value=0.92 if at.release >= (0, 21) else 0.90,
        source="vLLM gpu_memory_utilization: 0.90 of the total up to 0.19, 0.92 since 0.21 (start logs)",
    )
    yield Default(field="block_tokens", value=16, source="vLLM CacheConfig.block_size on CUDA and ROCm")
    chunked = at.release >= (0, 8)
    length = at.engine.max_model_len or at.model.max_context or 4096
    yield Default(field="max_model_len", value=length, source="the model's own context")
    yield Default(field="chunked_prefill", value=chunked, source="vLLM: on since the V1 engine became default (0.8)")
    yield Default(field="prefix_caching", value=chunked, source="vLLM: on since the V1 engine became default (0.8)")
    yield Default(field="cuda_graphs", value=at.release >= (0, 2, 6), source="vLLM: on since 0.2.6")
    yield Default(field="async_scheduling", value=at.release >= (0, 14), source="vLLM: on since 0.14 (release notes)")
    if not chunked:
        yield Default(field="max_num_seqs", value=256, source="vLLM SchedulerConfig up to 0.7")
        yield Default(field="max_num_batched_tokens", value=_whole_prompts(at, length), source="vLLM up to 0.7")
        return
    name = f"{at.accelerator.id} {at.accelerator.name}".lower()
    large = at.memory_gib >= 70 and ("a100" not in name or at.release < (0, 9))
    sequences = 1024 if large and at.release >= (0, 8, 3) else 256
    yield Default(field="max_num_seqs", value=sequences, source=source + ": 70 GiB and more, A100 excepted")
    tokens = (16384 if at.offline else 8192) if large else (8192 if at.offline else 2048)
    tokens = max(tokens, at.engine.max_num_seqs or 0)
    yield Default(field="max_num_batched_tokens", value=tokens, source=source + ": by memory and by usage")


def _whole_prompts(at: Deployment, length: int) -> int:
    """Up to 0.7 whole prompts ran in one step, unless chunking was on; it was by itself beyond 32k of context."""
    chunked = at.engine.chunked_prefill or (length > 32768 and at.release >= (0, 5, 1))
    if chunked:
        return 2048 if at.release >= (0, 6) else 512
    return max(length, 2048 if at.release < (0, 2, 6) else 2560 if at.release < (0, 3) else 2048)


def _sglang(at: Deployment) -> Iterator[Default]:
    chunk = at.engine.max_num_batched_tokens or _sglang_chunk(at)
    yield Default(
        field="max_num_batched_tokens", value=chunk, source="SGLang ServerArgs: chunked_prefill_size by memory"
    )
    yield Default(
        field="memory_fraction",
        # Who asks for larger chunks is taken to set the share beside it: with the reserve by chunk, 8 x H200 with
        # chunks of 32768 would queue where published runs did not.
        value=round(_sglang_share(at, min(chunk, _sglang_chunk(at))), 3),
        source="SGLang ServerArgs: mem_fraction_static = 1 - reserve for activations and graphs",
    )
    yield Default(field="block_tokens", value=1, source="SGLang page_size")
    yield Default(
        field="max_num_seqs", value=4096 if at.release >= (0, 4) else 2048, source="SGLang max_running_requests"
    )
    yield Default(field="chunked_prefill", value=True, source="SGLang: on by default")
    yield Default(field="prefix_caching", value=True, source="SGLang: radix cache on by default")
    yield Default(field="cuda_graphs", value=True, source="SGLang: on by default")
    if at.model.max_context:
        yield Default(field="max_model_len", value=at.model.max_context, source="the model's own context")


def _sglang_chunk(at: Deployment) -> int:
    gib = at.accelerator.driver_memory_bytes / GiB
    if at.release < (0, 4, 9):
        return 2048 if gib < 25_000 / 1024 else 8192
    if gib >= 160:
        return 16384
    if gib < 35:
        return 2048
    return 4096 if gib < 60 and at.release >= (0, 5, 4) else 8192


def _sglang_share(at: Deployment, chunk: int) -> float:
    tp, ranks = at.layout.tp * at.layout.dp, at.layout.ranks
    if at.release < (0, 4, 9):
        return 0.79 if tp >= 16 else 0.81 if tp >= 8 else 0.85 if tp >= 4 else 0.87 if tp >= 2 else 0.88
    listed = at.accelerator.driver_memory_bytes / 2**20
    gib = listed / 1024
    if at.release < (0, 5, 4):
        reserve = 2.8 + ranks / 10 if gib < 35 else 9.5 + ranks / 2 if gib < 90 else 12 + ranks / 2 if gib < 160 else 32
        return (listed - (reserve + (4 if at.layout.dp > 1 else 0)) * 1024) / listed
    graphs = _sglang_graphs(gib, tp)
    reserved = 512 + max(chunk, 2048) * 1.5 + graphs * 2 + tp * at.layout.pp / 8 * 1024
    if at.layout.dp > 1:
        reserved += graphs * at.layout.dp * (4.5 if graphs > 300 else 3)
    if gib > 60:
        reserved = max(reserved, 10 * 1024)
    return (listed - reserved) / listed


def _sglang_graphs(gib: float, tp: int) -> int:
    """cuda_graph_max_bs: the largest batch captured, by memory and ranks (SGLang 0.5.4 and later)."""
    few = tp < 4
    if gib < 20:
        return 8
    if gib < 35:
        return 24 if few else 80
    if gib < 60:
        return 32 if few else 160
    return 256 if few and gib < 160 else 512


def _trtllm(at: Deployment) -> Iterator[Default]:
    yield Default(
        field="memory_fraction", value=0.90, source="TensorRT-LLM KvCacheConfig.free_gpu_memory_fraction, of free"
    )
    sequences = 2048 if at.release >= (0, 11) else 256
    yield Default(field="max_num_seqs", value=sequences, source="TensorRT-LLM max_batch_size: 256, 2048 since 0.11")
    yield Default(field="max_num_batched_tokens", value=8192, source="TensorRT-LLM max_num_tokens")
    tokens = 32 if at.release >= (0, 16) else 64 if at.release >= (0, 8) else 128
    yield Default(field="block_tokens", value=tokens, source="TensorRT-LLM tokens_per_block")
    chunked = at.release >= (1, 2)
    yield Default(
        field="chunked_prefill", value=chunked, source="TensorRT-LLM enable_chunked_prefill: off unless asked for"
    )
    yield Default(field="prefix_caching", value=at.release >= (0, 18), source="TensorRT-LLM enable_block_reuse")
    yield Default(field="cuda_graphs", value=at.release >= (1, 0), source="TensorRT-LLM PyTorch backend: on since 1.0")
    if at.model.max_context:
        yield Default(field="max_model_len", value=at.model.max_context, source="the model's own context")


def _lmdeploy(at: Deployment) -> Iterator[Default]:
    yield Default(field="memory_fraction", value=0.80, source="LMDeploy cache_max_entry_count: of free since 0.2.1")
    sequences = 256 if at.memory_gib >= 70 else 128
    yield Default(field="max_num_seqs", value=sequences, source="LMDeploy TurbomindEngineConfig.max_batch_size")
    yield Default(field="max_num_batched_tokens", value=8192, source="LMDeploy max_prefill_token_num")
    yield Default(field="block_tokens", value=64, source="LMDeploy cache_block_seq_len")
    yield Default(field="chunked_prefill", value=True, source="LMDeploy TurboMind splits prompts")
    yield Default(field="prefix_caching", value=False, source="LMDeploy enable_prefix_caching")


def _tgi(at: Deployment) -> Iterator[Default]:
    yield Default(field="memory_fraction", value=0.95, source="TGI flash_causal_lm: keeps 5 % after warm-up")
    yield Default(field="max_num_batched_tokens", value=4096, source="TGI --max-batch-prefill-tokens up to 2.x")
    yield Default(field="max_num_seqs", value=256, source="TGI: limited by tokens; largest captured batch")
    yield Default(field="block_tokens", value=16, source="TGI BLOCK_SIZE")
    yield Default(field="chunked_prefill", value=at.release >= (3, 0), source="TGI 3.0 notes")
    yield Default(field="prefix_caching", value=at.release >= (2, 3), source="TGI 2.3 notes")


def _mii(at: Deployment) -> Iterator[Default]:
    yield Default(field="memory_fraction", value=1.0, source="DeepSpeed RaggedInferenceEngineConfig: all but 1 GB")
    yield Default(field="max_num_batched_tokens", value=768, source="DeepSpeed max_ragged_batch_size")
    yield Default(field="max_num_seqs", value=512, source="DeepSpeed max_ragged_sequence_count")
    yield Default(field="block_tokens", value=128, source="DeepSpeed blocked attention, kv_block_size")
    yield Default(field="chunked_prefill", value=True, source="DeepSpeed-FastGen Dynamic SplitFuse (arXiv 2401.08671)")


def _llamacpp(at: Deployment) -> Iterator[Default]:
    yield Default(field="max_num_batched_tokens", value=512, source="llama.cpp n_ubatch")
    yield Default(field="max_num_seqs", value=at.engine.max_num_seqs or 1, source="llama.cpp n_parallel")
    yield Default(field="block_tokens", value=1, source="llama.cpp: one cell per token")
    yield Default(field="chunked_prefill", value=True, source="llama.cpp splits prompts into ubatches")
    whole = 4096 if at.release >= (4000,) else 512
    length = min(whole, at.model.max_context or whole)
    yield Default(field="max_model_len", value=length, source="llama.cpp n_ctx: 512, 4096 since late 2024")


def _exllama(at: Deployment) -> Iterator[Default]:
    length = at.model.max_context or 2048
    yield Default(field="max_model_len", value=length, source="ExLlamaV2: cache of max_seq_len from the model's config")
    yield Default(field="max_num_batched_tokens", value=2048, source="ExLlamaV2 max_input_len")
    yield Default(field="max_num_seqs", value=1, source="ExLlamaV2Cache batch_size")
    yield Default(field="block_tokens", value=1, source="ExLlamaV2Cache")


def _by_need(at: Deployment) -> Iterator[Default]:
    """Libraries that allocate for the batch at hand: Transformers, FasterTransformer, CTranslate2 and their like."""
    source = f"{at.engine.name}: allocates for the batch it is given"
    yield Default(field="block_tokens", value=1, source=source)
    yield Default(field="chunked_prefill", value=False, source=source)
    yield Default(field="cuda_graphs", value=False, source=source)


ENGINES: Final[dict[str, Callable[[Deployment], Iterator[Default]]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trtllm": _trtllm,
    "lmdeploy": _lmdeploy,
    "tgi": _tgi,
    "deepspeed-mii": _mii,
    "llamacpp": _llamacpp,
    "exllamav2": _exllama,
    "exllamav3": _exllama,
    "hf": _by_need,
    "fastertransformer": _by_need,
    "autoawq": _by_need,
    "ctransformers": _by_need,
    "ctranslate2": _by_need,
    "tensorrt": _by_need,
    "pytorch": _by_need,
    "gpt-fast": _by_need,
    "mlc": _by_need,
}
"""Engines by name, and the function that knows each one's defaults."""

_ALIASES: Final = {
    "tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "transformers": "hf", "llama.cpp": "llamacpp",
    "llama-cpp": "llamacpp", "text-generation-inference": "tgi", "mii": "deepspeed-mii", "exllama": "exllamav2",
}  # fmt: skip

NEWEST: Final[Release] = (99_999,)
"""Stands for the newest release when the version is not known."""


LAYERED: Final = frozenset({"llamacpp", "hf", "exllamav2", "exllamav3"})
"""Engines that spread a model over devices by its layers, which take turns: memory of all, speed of one."""

LEAST_CAPABILITY: Final = {"vllm": 7.0, "sglang": 7.5, "trtllm": 8.0, "lmdeploy": 7.0, "tgi": 7.5, "deepspeed-mii": 8.0}
"""Lowest CUDA compute capability each engine supports (installation pages of the projects)."""
VENDORS: Final = {
    "vllm": ("NVIDIA", "AMD", "Intel", "Google", "AWS"), "sglang": ("NVIDIA", "AMD", "Intel", "Google"),
    "trtllm": ("NVIDIA",), "lmdeploy": ("NVIDIA",), "tgi": ("NVIDIA", "AMD", "Intel", "AWS"),
    "deepspeed-mii": ("NVIDIA",), "exllamav2": ("NVIDIA", "AMD"), "exllamav3": ("NVIDIA",),
}  # fmt: skip
"""Makers whose accelerators an engine runs on; engines not listed run anywhere."""


def unsupported(engine: str, accelerator: Accelerator) -> str | None:
    """One sentence why the engine does not run on this accelerator; absent when nothing speaks against it."""
    name = engine_name(engine)
    if accelerator.vendor not in VENDORS.get(name, (accelerator.vendor,)):
        return f"{name} does not run on {accelerator.vendor} accelerators"
    least, stated = LEAST_CAPABILITY.get(name), accelerator.compute_capability
    # Other makers name their targets otherwise ("gfx942").
    if accelerator.vendor == "NVIDIA" and least is not None and stated is not None and float(stated) < least:
        return f"{name} needs compute capability {least}, and {accelerator.name} has {stated}"
    return None


def explain_defaults(
    engine: Engine,
    accelerator: Accelerator,
    *,
    model: Model,
    layout: Layout | None = None,
    year: int | None = None,
    offline: bool = False,
) -> tuple[Default, ...]:
    """The settings the engine would choose itself on this accelerator for this model, each with its source."""
    name = engine_name(engine.name)
    known = msgspec.structs.replace(engine, name=name)
    at = Deployment(
        engine=known,
        release=release(known, year) or NEWEST,
        accelerator=accelerator,
        model=model,
        layout=layout or Layout(),
        offline=offline,
    )
    return tuple(ENGINES[name](at))


def defaults(
    engine: Engine,
    accelerator: Accelerator,
    *,
    model: Model,
    layout: Layout | None = None,
    year: int | None = None,
    offline: bool = False,
) -> Engine:
    """
    The engine with every absent setting filled by its own default; what the user gave stays.

    `year` dates an engine whose version is not known; `offline` takes the defaults of the batch class where they
    differ from the server's.
    """
    chosen = explain_defaults(engine, accelerator, model=model, layout=layout, year=year, offline=offline)
    filled = {default.field: default.value for default in chosen if getattr(engine, default.field) is None}
    return msgspec.structs.replace(engine, name=engine_name(engine.name), **filled)


def assumptions(engine: Engine, year: int | None = None) -> tuple[str, ...]:
    """What had to be assumed about the engine, one sentence each."""
    if release(msgspec.structs.replace(engine, name=engine_name(engine.name)), year) is not None:
        return ()
    what = f"version '{engine.version}' is not a release" if engine.version else "version not given"
    return (f"{engine.name}: {what}; defaults of the newest release known are used",)


def engine_name(name: str) -> str:
    """The engine's own name for any spelling of it."""
    key = name.strip().lower()
    key = _ALIASES.get(key, key)
    if key not in ENGINES:
        raise UnknownName("engine", name, known=ENGINES)
    return key
