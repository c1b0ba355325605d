"""A real engine: llama.cpp's server inside this process, a model of random weights, and its own clock beside ours."""

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.patience import PATIENCE_S
from tonnage.domain.measurement import Load
from tonnage.measure.client import Reply, ask, open_connection, request_bytes, target_of
from tonnage.measure.records import Spec, read_log
from tonnage.measure.serve import measure_serve

gguf = pytest.importorskip("gguf", reason="the test makes a GGUF model: pip install gguf")
xllamacpp = pytest.importorskip("xllamacpp", reason="the test serves it: pip install xllamacpp")

HIDDEN, FEED_FORWARD, LAYERS, HEADS, KV_HEADS = 512, 1536, 4, 8, 2


def byte_tokens() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in plain] + [chr(256 + n) for n in range(256 - len(plain))]


def write_model(path: Path) -> None:
    """A Llama of random weights whose vocabulary is the bytes."""
    tokens = ["<s>", "</s>", *byte_tokens(), "Ġt"]
    control = [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(tokens) - 2)
    out = gguf.GGUFWriter(str(path), "llama")
    out.add_context_length(2048)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(FEED_FORWARD)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_rope_dimension_count(HIDDEN // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types(control)
    out.add_token_merges(["Ġ t"])
    out.add_bos_token_id(0)
    out.add_eos_token_id(1)
    out.add_add_bos_token(False)
    draw = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) * 0.05).astype(np.float32)

    out.add_tensor("token_embd.weight", matrix(len(tokens), HIDDEN))
    out.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    head = matrix(len(tokens), HIDDEN)
    head[:2] = 0.0  # special tokens have no text
    head[96:] = 0.0  # nor have single bytes beyond ASCII
    out.add_tensor("output.weight", head)
    narrow = KV_HEADS * HIDDEN // HEADS
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32))
        for name, rows, columns in (
            ("attn_q", HIDDEN, HIDDEN),
            ("attn_k", narrow, HIDDEN),
            ("attn_v", narrow, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN),
            ("ffn_gate", FEED_FORWARD, HIDDEN),
            ("ffn_up", FEED_FORWARD, HIDDEN),
            ("ffn_down", HIDDEN, FEED_FORWARD),
        ):
            out.add_tensor(f"blk.{layer}.{name}.weight", matrix(rows, columns))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = xllamacpp.CommonParams()
    given.model.path = str(path)
    given.model_alias = {"tiny"}
    given.hostnames = ["127.0.0.1"]
    given.port = port
    given.n_ctx = 4096
    given.n_parallel = 4
    given.endpoint_metrics = True
    given.cpuparams.n_threads = 1
    server = xllamacpp.Server(given)
    yield server.listening_address
    del server


def spec(url: str, *, concurrency: int, requests: int) -> Spec:
    return Spec(
        url=url,
        kind="completions",
        model="tiny",
        load=Load(concurrency=concurrency, requests=requests, warmup=2, duration_s=200.0),
        prompt_tokens=200,
        output_tokens=48,
    )


def test_latencies_agree_with_the_engines_own_clock(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    found = measure_serve(spec(engine, concurrency=1, requests=10), path)
    point = found.points[0]
    assert point.completed == 10 and point.output_tokens == 48
    assert point.prompt_tokens == pytest.approx(200, rel=0.1)
    good = [outcome for outcome in read_log(path).outcomes if not outcome.warmup]
    theirs = np.array([o.server_prompt_s + o.server_predicted_s for o in good])
    ours = np.array([o.last_s - o.sent_s for o in good])
    for rank in (50, 90, 95):
        server = float(np.percentile(theirs, rank))
        # On a busy machine the client is late, too, and says by how much.
        late = point.client_delay_s or 0.0
        assert float(np.percentile(ours, rank)) == pytest.approx(server, abs=0.001 + 0.03 * server + late)
    read = float(np.median([o.server_prompt_s for o in good]))
    assert point.ttft_s.p50 == pytest.approx(read, abs=0.001 + 0.03 * read + (point.client_delay_s or 0.0))


def test_its_prefix_cache_answers_no_prompt_of_a_run_that_is_repeated(engine: str, tmp_path: Path) -> None:
    def counted() -> tuple[float, float]:
        page = httpx.get(f"{engine}/metrics").text
        found = re.findall(r"^llamacpp:prompt_tokens(?:_cached)?_total (\S+)", page, re.MULTILINE)
        return float(found[0]), float(found[1])

    computed, cached = counted()
    for name in ("a", "b"):
        point = measure_serve(spec(engine, concurrency=2, requests=4), tmp_path / f"{name}.jsonl").points[0]
        assert point.cached_share < 0.02
    computed, cached = (later - earlier for later, earlier in zip(counted(), (computed, cached), strict=True))
    assert computed > 2 * 4 * 180 and cached < 0.02 * computed


def test_what_its_prefix_cache_held_is_said(engine: str) -> None:
    """The same words again, as a client may that is none of ours."""
    target = target_of(engine, model="tiny", kind="completions")
    connection = open_connection(target, key=None)
    data = request_bytes(connection, prompt="one and the same", output_tokens=1, ignore_eos=True)

    async def ask_twice() -> list[Reply]:
        return [await ask(connection, data, timeout_s=PATIENCE_S) for _ in range(2)]

    first, second = asyncio.run(ask_twice())
    assert first.cached_tokens < second.cached_tokens == second.prompt_tokens - 1


def test_the_engines_counters_are_read_beside(engine: str, tmp_path: Path) -> None:
    found = measure_serve(spec(engine, concurrency=4, requests=8), tmp_path / "a.jsonl")
    server = found.points[0].server
    assert server.engine == "llama.cpp"
    assert found.points[0].failures == {}
