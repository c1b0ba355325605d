"""Each reader of others' data meets bad inputs: an answer or one sentence. `make fuzz` feeds a million."""

import random

import pytest
from tools.fuzz.__main__ import read_once
from tools.fuzz.mutate import mutated
from tools.fuzz.readers import READERS, allowed, reader

INPUTS = 60

# What fuzzing has found once, as small as it was made.
FOUND = {
    "cases": b'{"kind": "serve", "model": "8B", "accelerator": "H100", "isl": 1%s, "osl": 9}' % (b"0" * 400),
    "trace.csv": b"arrived_at,num_prefill_tokens," + b"x" * 140_000,
    "trace.jsonl": b'{"timestamp": 1%s, "input_length": 9, "output_length": 5}' % (b"0" * 5_000),
    "stream": b"HTTP/1.1 200 OK\r\nContent-Length: 20006\r\n\r\ndata: " + b"[" * 19_999 + b"\n",
    "requests": b"? [a, b]\n: 1\n",
    "metrics": b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{} 1%s\n" % (b"0" * 400),
    "adopt-scripts": b"A=$A$A$A$A\nA=x\n" + b"A=$A$A$A$A\n" * 30 + b"vllm serve $A --data-parallel-size 9e999",
    "adopt-documents": b"kind: Deployment\napiVersion: a\nspec:\n  replicas: .inf\n",
    "adopt-toml": b"model.name = 'a'\n[training]\nlocal_batch_size = 1e400\nsteps = 1%s\n" % (b"0" * 5_000),
    "pasted": b"TPOT 21 ms at 1%s clients" % (b"0" * 400),
    "reports": b'{"metadata": {}, "metrics": {"inter_chunk_latency": {"value": [1%s]}}}\n' % (b"0" * 400),
}


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite has a timeout of its own; two seconds are held by `make fuzz`."""
    monkeypatch.setattr("tools.fuzz.__main__.MOST_S", 0)


@pytest.mark.parametrize("name", sorted(READERS))
def test_bad_inputs_get_an_answer_or_one_sentence(name: str) -> None:
    read, seeds, words = reader(name)
    assert seeds
    pick = random.Random(name)
    for data in (mutated(pick, seeds, words) for _ in range(INPUTS)):
        assert read_once(read, data, allowed()) in {"read", "refused"}, data[:400]


@pytest.mark.parametrize("name", sorted(READERS))
def test_good_inputs_are_read(name: str) -> None:
    """Else nothing but the first check of a reader would ever be reached."""
    read, seeds, _ = reader(name)
    assert any(read_once(read, seed, allowed()) == "read" for seed in seeds)


@pytest.mark.parametrize("name", sorted(FOUND))
def test_what_was_found_stays_corrected(name: str) -> None:
    read, _, _ = reader(name)
    assert read_once(read, FOUND[name], allowed()) in {"read", "refused"}
