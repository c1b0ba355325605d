"""Models of random weights for llama.cpp, and its server in a process of its own on one core."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HEAD = 64
"""Width of a head."""


def byte_tokens() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in plain] + [chr(256 + n) for n in range(256 - len(plain))]


def write_llama(path: Path, *, hidden: int, feed_forward: int, layers: int, half: bool = True) -> float:
    """A Llama of random weights (16 bits, or 32) whose vocabulary is the bytes; its parameters."""
    import gguf

    tokens = ["<s>", "</s>", *byte_tokens(), "Ġt"]
    heads, kv_heads = hidden // HEAD, max(1, hidden // HEAD // 4)
    out = gguf.GGUFWriter(str(path), "llama")
    out.add_context_length(4096)
    out.add_embedding_length(hidden)
    out.add_block_count(layers)
    out.add_feed_forward_length(feed_forward)
    out.add_head_count(heads)
    out.add_head_count_kv(kv_heads)
    out.add_rope_dimension_count(HEAD)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(tokens))
    out.add_file_type(1 if half else 0)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(tokens) - 2))
    out.add_token_merges(["Ġ t"])
    out.add_bos_token_id(0)
    out.add_eos_token_id(1)
    out.add_add_bos_token(False)
    kind = np.float16 if half else np.float32
    pool = ((np.random.default_rng(0).random(1_048_573, dtype=np.float32) - 0.5) * 0.1).astype(kind)
    total = 0.0

    def add(name: str, *shape: int, silent: tuple[slice, ...] = ()) -> None:
        nonlocal total
        values = np.resize(pool, shape)  # the same numbers over and over: speed asks for no others
        for rows in silent:  # special tokens and single bytes beyond ASCII have no text
            values[rows] = 0.0
        total += values.size
        out.add_tensor(name, values)

    add("token_embd.weight", len(tokens), hidden)
    add("output.weight", len(tokens), hidden, silent=(slice(0, 2), slice(96, None)))
    out.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
    narrow = kv_heads * HEAD
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{layer}.{name}.weight", np.ones(hidden, np.float32))
        for name, rows, columns in (
            ("attn_q", hidden, hidden),
            ("attn_k", narrow, hidden),
            ("attn_v", narrow, hidden),
            ("attn_output", hidden, hidden),
            ("ffn_gate", feed_forward, hidden),
            ("ffn_up", feed_forward, hidden),
            ("ffn_down", hidden, feed_forward),
        ):
            add(f"blk.{layer}.{name}.weight", rows, columns)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return total


_SERVE = """
import os, sys, xllamacpp
if sys.argv[4] and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {int(sys.argv[4])})
    if sys.argv[5]:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
given = xllamacpp.CommonParams()
given.model.path, given.port = sys.argv[1], int(sys.argv[2])
given.model_alias = {"tiny"}
given.hostnames = ["127.0.0.1"]
given.n_parallel = int(sys.argv[3])
given.n_ctx = 1024 * given.n_parallel
given.endpoint_metrics = True
given.cache_prompt = False
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(given)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def serving(path: Path, *, slots: int, core: int | None = None, first: bool = False) -> Iterator[str]:
    """The address of llama.cpp's server with one thread, pinned to a core if the system can, and `first` there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    child: subprocess.Popen[Any] = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _SERVE,
            str(path),
            str(port),
            str(slots),
            "" if core is None else str(core),
            "first" if first else "",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(400):
            try:
                with urllib.request.urlopen(url + "/health", timeout=1):
                    break
            except OSError:
                if child.poll() is not None:
                    raise RuntimeError("the server ended") from None
                time.sleep(0.05)
        yield url
    finally:
        child.kill()
        child.wait()


def process_of(url: str) -> int:
    """The process that serves an address."""
    port = url.rpartition(":")[2]
    ours = (int(name) for name in os.listdir("/proc") if name.isdigit() and port in _command(name).split())
    return next(process for process in ours if process != os.getpid())


def best_of(path: Path, *, repeats: int, folder: Path) -> dict[str, str]:
    """One request after another: of several repeats the one in which the server had most of its core, as a row."""
    from tonnage.domain.measurement import Load
    from tonnage.measure.records import Spec
    from tonnage.measure.serve import measure_serve

    found = []
    with serving(path, slots=1, core=max(os.sched_getaffinity(0))) as url:
        child = process_of(url)
        for repeat in range(repeats):
            begun, used = time.monotonic(), used_s(child)
            load = Load(concurrency=1, requests=2, warmup=1, duration_s=900.0)
            spec = Spec(
                url=url,
                kind="completions",
                model="tiny",
                load=load,
                prompt_tokens=128,
                output_tokens=24,
                timeout_s=600.0,
            )
            point = measure_serve(spec, folder / f"{path.stem}-{repeat}.jsonl").points[0]
            share = min(1.0, (used_s(child) - used) / (time.monotonic() - begun))
            assert point.ttft_s is not None and point.tpot_s is not None
            found.append((share, point))
    share, point = max(found, key=lambda one: one[0])
    return {"server_cpu_share": str(share), "prompt_tokens": str(point.prompt_tokens),
            "ttft_s": str(point.ttft_s.mean), "tpot_s": str(point.tpot_s.mean)}  # fmt: skip


def _command(process: str) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""


def used_s(process: int) -> float:
    """Processor time of a process so far. [s]"""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
