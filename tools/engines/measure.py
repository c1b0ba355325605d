"""
A second real engine, measured by our own client: Transformers' server (and vLLM's on a processor) on a tiny model.

    python -m tools.engines.measure NAME PYTHON     NAME: transformers or vllm; PYTHON: that engine's own environment

A model of random weights is made (0.6 million parameters), the engine serves it with one thread, the client of
`tonnage measure serve` asks it at 1 and 4 requests at once, and prints what it saw and what the client itself cost. The
same file of results is then read back by `tonnage measure import`, which must say the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.own.servers import ONE_THREAD, free_port, started

from tonnage.domain.measurement import Load
from tonnage.measure.importers import read_report
from tonnage.measure.records import Spec
from tonnage.measure.serve import measure_serve

MODEL = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
own = Tokenizer(models.BPE())
own.pre_tokenizer, own.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
own.train_from_iterator(["the quick brown fox jumps over the lazy dog " * 50], trainers.BpeTrainer(
    vocab_size=512, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
words = PreTrainedTokenizerFast(tokenizer_object=own, bos_token="<s>", eos_token="</s>")
words.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
words.save_pretrained(sys.argv[1])
LlamaForCausalLM(LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=len(words), bos_token_id=0, eos_token_id=1)).save_pretrained(sys.argv[1])
"""


OPTIONS = {
    "transformers": "--device cpu --continuous-batching --cb-num-blocks 64",
    "vllm": "--served-model-name {model} --max-model-len 1024 --max-num-seqs 8 --enforce-eager --dtype float32",
}
"""Of each engine's command `serve`."""


def main() -> None:
    """Serve the model and ask it."""
    name, python = sys.argv[1], Path(sys.argv[2]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        port, model = free_port(), Path(folder) / "tiny"
        own = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": folder, **ONE_THREAD}
        subprocess.run([str(python), "-c", MODEL, str(model)], check=True, env={**os.environ, **own})
        begun, options = time.monotonic(), OPTIONS[name].format(model=model).split()
        command = [str(python.parent / name), "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
        with started([*command, *options], port, environment=own) as url:
            print(f"{name}: answers after {time.monotonic() - begun:.0f} s")
            for places in (1, 4):
                asked(url, str(model), places, Path(folder) / f"{places}.jsonl")


def asked(url: str, model: str, places: int, path: Path) -> None:
    """One load, and the same file read back."""
    # Transformers refuses a field that it does not know.
    spec = Spec(
        url=url,
        kind="chat",
        model=model,
        load=Load(concurrency=places, requests=8 * places, warmup=places),
        prompt_tokens=64,
        output_tokens=16,
        ignore_eos=False,
    )
    found = measure_serve(spec, path)
    point, again = found.points[0], read_report(path).points[0]
    assert again == point, "the file says something else"
    ttft, tpot = (x.p50 if x is not None else None for x in (point.ttft_s, point.tpot_s))
    told = ", ".join(f"{n} p50 {v * 1e3:.1f} ms" for n, v in (("TTFT", ttft), ("TPOT", tpot)) if v is not None)
    print(
        f"  {places} at once: {point.completed} of {point.requests} answered, {told}, "
        f"{point.output_tokens_per_s or 0:.0f} output tokens/s, {point.output_tokens or 0:.1f} tokens an answer, "
        f"client late by {(point.client_delay_s or 0) * 1e3:.1f} ms at p99 {point.failures or ''}"
    )
    for note in found.notes:
        print(f"    {note}")


if __name__ == "__main__":
    main()
