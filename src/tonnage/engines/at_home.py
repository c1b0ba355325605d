"""Which engines do people run on their own machine, and what starts each on a downloaded model?

Flags: llama.cpp tools/server/README.md; `ollama run`; `mlx_lm.server --help`; `vllm serve --help`.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from tonnage.domain.engine_spec import EngineSpec
from tonnage.domain.machine import Download, LocalRow
from tonnage.domain.model import Model, Moe
from tonnage.domain.precision import number_format
from tonnage.engines.registry import engines

PROGRAMS = ("llama-server", "ollama", "mlx_lm.server", "vllm")
"""Programs whose presence on a machine says which engine is installed."""
OLLAMA_FORMAT = "gguf-q4_k_m"
"""What a tag without a format means in Ollama's library, but for models published in a format of their own."""
OTHERS = {"MLX (4 bits)": ("mlx", "mlx-4bit"), "vLLM (AWQ)": ("vllm", "awq")}
"""Engine and format of the weights behind the names of commands that start files of their own."""
NATIVE = "mxfp4"
"""Format that experts are published in and that GGUF files keep."""
OWN_PIECE = 2048
"""Of a prompt, at once: mlx_lm's prefill_step_size and vLLM's max_num_batched_tokens below 70 GB. [tokens]"""


def spread_engine() -> EngineSpec:
    """The engine for one person that runs on parts of any vendor and spreads a model over unlike memories by layers."""
    return next(spec for spec in engines().values() if spec.single_user and spec.layered and spec.vendors is None)


def files_in(precisions: tuple[str, ...]) -> tuple[str, ...]:
    """Of formats that were asked for those that GGUF files come in, finest first."""
    found = (name for name in precisions if name.startswith("gguf-") or name == NATIVE)
    return tuple(sorted(found, key=lambda name: -number_format(name).bits))


def no_files_in(precisions: tuple[str, ...]) -> str:
    """Why nothing runs at home in formats that no GGUF file comes in."""
    return f"{spread_engine().title} reads GGUF files (gguf-q4_k_m, …) and mxfp4, not {', '.join(precisions)}"


def start_commands(row: LocalRow, download: Download, *, model: Model, vendor: str) -> Iterator[tuple[str, str]]:
    """
    What starts this row, by engine: llama.cpp, which was predicted, then others whose files of the model are published.

    Ollama only where its stock format is the row's and nothing lies in host memory; MLX (Apple) and vLLM with AWQ
    (NVIDIA, nothing read from host memory) run 4-bit files of their own, whatever the row's format. Where no GGUF
    repository is known, llama.cpp's command names a file that is still to be made.
    """
    yield "llama.cpp", shlex.join(_llama_server(row, download, model))
    stock = download.native or row.precision.weights == OLLAMA_FORMAT
    if download.ollama and stock and not (row.offload.layers or row.offload.expert_layers):
        yield (
            f"Ollama, its server with OLLAMA_CONTEXT_LENGTH={row.context}",
            shlex.join(["ollama", "run", download.ollama]),
        )
    if download.mlx and vendor == "Apple":
        yield "MLX (4 bits)", shlex.join(["mlx_lm.server", "--model", download.mlx])
    whole = row.offload.read_share == 0.0
    if download.awq and vendor == "NVIDIA" and whole:
        words = ["vllm", "serve", download.awq, "--max-model-len", str(row.context), "--max-num-seqs", "1"]
        yield "vLLM (AWQ)", shlex.join(words)


def _llama_server(row: LocalRow, download: Download, model: Model) -> list[str]:
    """The words of llama-server's command: `-ngl` is the number of layers on the device, 99 for all of them."""
    weights = row.precision.stored
    kind = weights.removeprefix("gguf-").upper()
    file = ["-hf", download.gguf if download.native else f"{download.gguf}:{kind}"]
    if not download.gguf:
        file = ["-m", f"{row.model.rpartition('/')[2]}-{kind}.gguf"]
    words = ["llama-server", *file, "-c", str(row.context), "-np", "1"]  # it starts four slots by itself
    if row.piece is not None:
        words += ["-ub", str(row.piece)]
    if row.precision.kv.startswith("gguf-"):
        cache = row.precision.kv.removeprefix("gguf-")
        words += ["-ctk", cache, "-ctv", cache]
    layers = model.num_layers
    if row.offload.layers >= layers:
        return [*words, "-ngl", "0"]
    words += ["-ngl", str(layers - row.offload.layers) if row.offload.layers else "99"]
    if row.split:
        words += ["-ts", ",".join(map(str, row.split))]
    if row.offload.expert_layers:
        words += ["-ncmoe", str(_first_layers(model, row.offload.expert_layers))]
    if row.offload.moved_bytes:  # what is mapped is not pinned, and a prompt would be copied twice
        words += ["--no-mmap"]
    return words


def _first_layers(model: Model, mixtures: int) -> int:
    """
    How many of its layers, from the first on, hold so many mixtures; `-ncmoe` counts those without experts, too.

    Few without experts are the first (first_k_dense_replace of DeepSeek, Kimi and GLM); many lie between (Llama 4).
    """
    every = sum(group.count for group in model.layers if isinstance(group.feed_forward, Moe))
    plain = model.num_layers - every
    return mixtures + plain if 2 * plain < every else math.ceil(mixtures * model.num_layers / every)
