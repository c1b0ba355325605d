"""The activation peak: the larger of sampler and widest layer."""

from __future__ import annotations

import pytest

from tonnage import catalog
from tonnage.domain.layout import Layout
from tonnage.physics.buffers import activation_peak, layer_peak_bytes, logits_peak_bytes

LLAMA = catalog.model("meta-llama/Meta-Llama-3.1-8B")


def test_many_sequences_make_the_sampler_the_peak_and_long_steps_the_layer() -> None:
    sampler = activation_peak(LLAMA, Layout(), max_num_seqs=1024, step_tokens=8192)
    layer = activation_peak(LLAMA, Layout(), max_num_seqs=256, step_tokens=32768)
    assert [part.name for part in (*sampler.parts, *layer.parts)] == ["sampler", "widest layer"]


def test_it_is_a_maximum_and_not_a_sum() -> None:
    both = activation_peak(LLAMA, Layout(), max_num_seqs=1024, step_tokens=8192).value
    assert both == logits_peak_bytes(max_num_seqs=1024, vocab_size=128256)


def test_tensor_parallelism_cuts_the_layer_and_not_the_sampler() -> None:
    assert layer_peak_bytes(tokens=1, hidden_size=4096, intermediate_size=14336, tp=4) == 2 * (3 * 3584 + 3 * 4096)
    one, four = (activation_peak(LLAMA, Layout(tp=tp), max_num_seqs=1024, step_tokens=8192).value for tp in (1, 4))
    assert one == four


def test_fewer_tokens_than_sequences_sample_fewer_rows() -> None:
    few = activation_peak(LLAMA, Layout(), max_num_seqs=1024, step_tokens=16).value
    assert few == pytest.approx(logits_peak_bytes(max_num_seqs=16, vocab_size=128256))
