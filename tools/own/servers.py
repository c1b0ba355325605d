"""
Models of random weights, and servers of them on this machine: llama.cpp and vLLM, with one thread on one core.

What computes may come before all others on its core (SCHED_FIFO, which needs the right to), so that a machine with
other work measures what an idle one would, but for caches and bandwidth.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HEAD = 64
"""Width of a head."""
VOCAB = 259
"""The 256 bytes, two special tokens and one more."""
START_S = 1500.0
ONE_THREAD = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}


def byte_tokens() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in plain] + [chr(256 + n) for n in range(256 - len(plain))]


def write_llama(
    path: Path,
    *,
    hidden: int,
    feed_forward: int,
    layers: int,
    kv_heads: int | None = None,
    context: int = 4096,
    rope_base: float = 10_000.0,
) -> None:
    """A Llama of random weights in 16 bits whose vocabulary is the bytes; one head in four has keys, or so many."""
    import gguf

    tokens = ["<s>", "</s>", *byte_tokens(), "Ġt"]
    heads = hidden // HEAD
    kv_heads = kv_heads or max(1, heads // 4)
    out = gguf.GGUFWriter(str(path), "llama")
    out.add_context_length(context)
    out.add_embedding_length(hidden)
    out.add_block_count(layers)
    out.add_feed_forward_length(feed_forward)
    out.add_head_count(heads)
    out.add_head_count_kv(kv_heads)
    out.add_rope_dimension_count(HEAD)
    out.add_rope_freq_base(rope_base)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(tokens))
    out.add_file_type(1)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(tokens) - 2))
    out.add_token_merges(["Ġ t"])
    out.add_bos_token_id(0)
    out.add_eos_token_id(1)
    out.add_add_bos_token(False)
    pool = ((np.random.default_rng(0).random(1_048_573, dtype=np.float32) - 0.5) * 0.1).astype(np.float16)

    def add(name: str, *shape: int, silent: tuple[slice, ...] = ()) -> None:
        values = np.resize(pool, shape)  # the same numbers over and over: speed asks for no others
        for rows in silent:  # special tokens and single bytes beyond ASCII have no text
            values[rows] = 0.0
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


_SERVE = """
import os, sys, xllamacpp
if sys.argv[4] and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {int(sys.argv[4])})
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
def serving(path: Path, *, slots: int, core: int | None = None) -> Iterator[str]:
    """The address of llama.cpp's server with one thread that computes, pinned to a core if the system can."""
    port = free_port()
    command = [sys.executable, "-c", _SERVE, str(path), str(port), str(slots), "" if core is None else str(core)]
    with started(command, port) as url:
        yield url


@contextmanager
def serving_vllm(python: Path, model: Path, *, slots: int, dtype: str) -> Iterator[str]:
    """The address of vLLM's server; on a processor one thread computes, and nothing is compiled."""
    port = free_port()
    limits = {"max-model-len": 1024, "max-num-seqs": slots, "max-num-batched-tokens": 2048, "dtype": dtype}
    command = [str(python.parent / "vllm"), "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += [
        "--served-model-name",
        "tiny",
        "--load-format",
        "dummy",
        "--enforce-eager",
        "--no-enable-prefix-caching",
    ]
    command += [text for name, value in limits.items() for text in (f"--{name}", str(value))]
    with started(command, port, environment={**ONE_THREAD, "HF_HUB_OFFLINE": "1"}) as url:
        yield url


@contextmanager
def started(command: list[str], port: int, *, environment: dict[str, str] | None = None) -> Iterator[str]:
    """The address of a server once it answers; it ends with the context."""
    with tempfile.TemporaryFile() as log:
        child: subprocess.Popen[Any] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
        )
        url = f"http://127.0.0.1:{port}"
        begun = time.monotonic()
        try:
            while not _answers(url):
                if child.poll() is not None or time.monotonic() - begun > START_S:
                    log.seek(0)
                    told = log.read().decode(errors="replace")[-2000:]
                    raise RuntimeError(f"the server ended or did not answer within {START_S:g} s: {told}")
                time.sleep(0.05)
            yield url
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/health", timeout=1):
            return True
    except OSError:
        return False


def write_vllm(python: Path, folder: Path, *, hidden: int, feed_forward: int, layers: int, dtype: str) -> None:
    """The description and tokenizer of a Llama of random numbers, which vLLM draws itself."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(python), "-c", _WORDS, str(folder)], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    shape = {"hidden_size": hidden, "intermediate_size": feed_forward, "num_hidden_layers": layers, "vocab_size": VOCAB}
    heads = {
        "num_attention_heads": hidden // HEAD,
        "num_key_value_heads": max(1, hidden // HEAD // 4),
        "head_dim": HEAD,
    }
    kind = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": dtype}
    rest = {"max_position_embeddings": 4096, "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1}
    rest |= {"rms_norm_eps": 1e-5, "hidden_act": "silu"}
    (folder / "config.json").write_text(json.dumps({**kind, **shape, **heads, **rest}), encoding="utf-8")


_WORDS = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
from transformers import PreTrainedTokenizerFast
own = Tokenizer(models.BPE())
# A random model writes any bytes: each is a letter of text, not half of one, so that no answer is without text.
own.pre_tokenizer, own.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.Fuse()
own.train_from_iterator(["a few words to join"], trainers.BpeTrainer(vocab_size=259,
    special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
PreTrainedTokenizerFast(tokenizer_object=own, bos_token="<s>", eos_token="</s>").save_pretrained(sys.argv[1])
"""


def put_first(process: int, core: int) -> int:
    """
    The thread of a process that computes, before all others on a core; the others anywhere else.

    It is the one that has used most so far: ask the server something first. Were the threads that speak HTTP on the
    same core, no token would be sent before the computing one has nothing to do.
    """
    threads = [int(path.name) for path in Path(f"/proc/{process}/task").iterdir()]
    busiest = max(threads, key=lambda thread: used_s(process, thread))
    others = os.sched_getaffinity(0) - {core}
    for thread in threads:
        os.sched_setaffinity(thread, {core} if thread == busiest else others)
    os.sched_setscheduler(busiest, os.SCHED_FIFO, os.sched_param(10))
    return busiest


def engine_of(url: str) -> int:
    """The process of vLLM that computes: the worker of the engine's core, which only waits for it, of the server."""
    found = process_of(url)
    for kind in ("EngineCore", "Worker"):
        names = [name for name in os.listdir("/proc") if name.isdigit() and kind in _command(name)]
        found = next((int(name) for name in names if _parent(name) == found), found)
    return found


def _parent(process: str) -> int:
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[1])


def process_of(url: str) -> int:
    """The process that serves an address."""
    port = url.rpartition(":")[2]
    ours = (int(name) for name in os.listdir("/proc") if name.isdigit() and port in _command(name).split())
    return next(process for process in ours if process != os.getpid())


def _command(process: str) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""


def used_s(process: int, thread: int | None = None) -> float:
    """Processor time of a process, or of one thread of it, so far. [s]"""
    place = f"/proc/{process}" if thread is None else f"/proc/{process}/task/{thread}"
    fields = Path(f"{place}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
