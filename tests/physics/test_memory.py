"""Memory of serving: weights, GGUF files, cache and buffers of a pass."""

import msgspec
import pytest

from tonnage import catalog
from tonnage.domain.layout import Layout
from tonnage.domain.precision import FORMATS, Precision, number_format
from tonnage.physics.buffers import activation_peak, layer_peak_bytes, logits_peak_bytes
from tonnage.physics.memory import (
    checkpoint_precision,
    gguf_bits,
    kv_bytes_per_token,
    padded_vocabulary,
    resolve_precision,
    weight_bytes,
)
from tonnage.physics.parameters import parameters
from tonnage.units import GiB

BF16 = Precision()
EVERYWHERE = ("meta-llama/Meta-Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-V3")


@pytest.mark.parametrize("name", EVERYWHERE)
def test_unsharded_bf16_weights_are_two_bytes_per_parameter(name: str) -> None:
    model = msgspec.structs.replace(catalog.model(name), stored_weight_bytes=None)
    assert weight_bytes(model, BF16).value == pytest.approx(2 * parameters(model).value, rel=0.002)


@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_ranks_together_hold_the_model_and_a_few_copies(name: str, tp: int) -> None:
    model = catalog.model(name)
    whole, rank = weight_bytes(model, BF16).value, weight_bytes(model, BF16, layout=Layout(tp=tp)).value
    assert whole <= tp * rank <= 1.06 * whole


def test_quantised_weights_leave_embedding_head_and_router_at_16_bits() -> None:
    model = catalog.model("mistralai/Mixtral-8x7B-v0.1")
    whole, narrow = weight_bytes(model, BF16), weight_bytes(model, Precision(weights="fp8", activations="fp8"))
    for name in ("embedding", "head", "router", "norms"):
        assert narrow.part(name) == whole.part(name)
    assert narrow.part("experts") == pytest.approx(whole.part("experts") / 2)


def test_gguf_quantises_embeddings_too() -> None:
    model = catalog.model("meta-llama/Meta-Llama-3.1-8B")
    assert weight_bytes(model, Precision(weights="gguf-q4_k_m")).part("embedding") < 0.3 * weight_bytes(
        model, BF16
    ).part("embedding")


def test_whole_experts_and_cut_experts_take_the_same_memory() -> None:
    model = catalog.model("mistralai/Mixtral-8x7B-v0.1")
    cut = weight_bytes(model, BF16, layout=Layout(tp=8))
    whole = weight_bytes(model, BF16, layout=Layout(tp=8, ep=8))
    assert cut.part("experts") == pytest.approx(whole.part("experts"))


def test_data_parallel_attention_copies_attention_and_shares_experts() -> None:
    model = catalog.model("deepseek-ai/DeepSeek-V3")
    one, eight = weight_bytes(model, BF16), weight_bytes(model, BF16, layout=Layout(dp=8, ep=8))
    assert eight.part("attention") == one.part("attention")
    assert eight.part("experts") == pytest.approx(one.part("experts") / 8)


def test_pipeline_stages_hold_their_layers_and_one_end() -> None:
    model = catalog.model("meta-llama/Meta-Llama-3.1-70B")
    whole, stage = weight_bytes(model, BF16), weight_bytes(model, BF16, layout=Layout(pp=4))
    assert stage.part("feed_forward") == pytest.approx(whole.part("feed_forward") / 4)
    assert stage.part("embedding") + stage.part("head") == whole.part("embedding")


def test_a_tied_head_is_held_again_by_the_last_stage_only_once() -> None:
    model = catalog.model("Qwen/Qwen3-0.6B")
    assert weight_bytes(model, BF16).part("head") == 0
    assert weight_bytes(model, BF16, layout=Layout(pp=2)).part("embedding") == weight_bytes(model, BF16).part(
        "embedding"
    )


def test_exact_file_sizes_replace_the_estimate_for_the_checkpoint_s_own_format() -> None:
    model = msgspec.structs.replace(catalog.model("meta-llama/Meta-Llama-3.1-8B"), stored_weight_bytes=17e9)
    assert weight_bytes(model, checkpoint_precision(model)).value == pytest.approx(17e9)
    assert weight_bytes(model, Precision(weights="fp8")).value < 10e9


def test_key_value_projections_are_copied_when_heads_are_fewer_than_ranks() -> None:
    model = catalog.model("Qwen/Qwen2.5-3B")  # two key/value heads
    assert (
        kv_bytes_per_token(model, "bf16", layout=Layout(tp=8)).value
        == kv_bytes_per_token(model, "bf16", layout=Layout(tp=2)).value
    )


def test_vocabulary_is_padded_to_64_rows_a_rank() -> None:
    assert padded_vocabulary(vocab_size=128256, tp=1) == 128256
    assert padded_vocabulary(vocab_size=50257, tp=8) == 50688


def test_every_language_model_has_weights_of_its_published_size() -> None:
    """Weights follow the parameter count, whatever the architecture; encoders and networks included."""
    for id, model in catalog.models().items():
        if not (model.layers or model.encoder):
            continue
        found = weight_bytes(msgspec.structs.replace(model, stored_weight_bytes=None), BF16).value
        assert found == pytest.approx(2 * parameters(model).value, rel=0.02), id


def test_70b_full_weights_in_gib() -> None:
    assert weight_bytes(catalog.model("meta-llama/Meta-Llama-3.1-70B"), BF16).value / GiB == pytest.approx(
        131.4, abs=0.1
    )


def test_a_pipeline_holds_mixtures_apart_from_the_dense_layers_that_lead() -> None:
    """Sixty-one layers on four stages: at most sixteen each; the three dense ones sit on the first, not the fullest."""
    model = catalog.model("deepseek-ai/DeepSeek-V3")
    dense, mixtures = model.layers
    whole = weight_bytes(msgspec.structs.replace(model, layers=(mixtures,)), BF16)
    stage = weight_bytes(model, BF16, layout=Layout(pp=4))
    layers = -(-(dense.count + mixtures.count) // 4)
    assert stage.part("experts") == pytest.approx(whole.part("experts") * layers / mixtures.count)
    assert stage.part("attention") == pytest.approx(whole.part("attention") * layers / mixtures.count)


def test_an_encoder_is_cut_into_as_many_stages_as_the_decoder() -> None:
    model = catalog.model("openai/whisper-large-v3")
    whole, stage = weight_bytes(model, BF16), weight_bytes(model, BF16, layout=Layout(pp=2))
    assert stage.part("feed_forward") == pytest.approx(whole.part("feed_forward") / 2)


@pytest.mark.parametrize(
    ("native", "quantization", "weights", "kv", "activations"),
    [
        ("bf16", None, "bf16", "bf16", "bf16"),
        ("fp16", None, "fp16", "fp16", "fp16"),
        ("fp32", None, "fp32", "fp16", "fp32"),
        ("bf16", "fp8", "fp8", "bf16", "fp8"),
        ("fp16", "awq", "awq", "fp16", "fp16"),
    ],
)
def test_a_checkpoint_is_served_as_it_was_published(
    native: str, quantization: str | None, weights: str, kv: str, activations: str
) -> None:
    model = msgspec.structs.replace(
        catalog.model("meta-llama/Meta-Llama-3.1-8B"), native_dtype=native, quantization=quantization
    )
    found = checkpoint_precision(model)
    assert (found.weights, found.kv, found.activations) == (weights, kv, activations)


def test_vectors_and_norms_of_quantised_weights_take_two_bytes_and_of_single_precision_four() -> None:
    model = catalog.model("meta-llama/Meta-Llama-3.1-8B")
    half, single = weight_bytes(model, BF16), weight_bytes(model, Precision(weights="fp32", activations="fp32"))
    for name in ("attention", "feed_forward", "embedding", "head"):
        assert single.part(name) == pytest.approx(2 * half.part(name), rel=1e-3)
    assert weight_bytes(model, Precision(weights="fp8")).part("head") == half.part("head")


@pytest.mark.parametrize(
    ("name", "given", "weights", "experts"),
    [
        ("MiniMaxAI/MiniMax-M2.5", Precision(weights="fp8", activations="fp8"), "fp8_block", None),
        ("MiniMaxAI/MiniMax-M2.5", Precision(activations="fp8", experts="fp8"), "bf16", "fp8_block"),
        ("deepseek-ai/DeepSeek-V3", Precision(weights="fp8", activations="fp8"), "fp8_block", None),
        ("MiniMaxAI/MiniMax-M2.5", Precision(weights="nvfp4", activations="nvfp4"), "nvfp4", None),
        ("meta-llama/Meta-Llama-3.1-8B", Precision(weights="fp8", activations="fp8"), "fp8", None),
    ],
)
def test_fp8_of_a_checkpoint_with_scales_of_blocks_is_that_checkpoint(
    name: str, given: Precision, weights: str, experts: str | None
) -> None:
    found = resolve_precision(given, catalog.model(name))
    assert (found.weights, found.experts, found.activations) == (weights, experts, given.activations)


def test_the_head_always_gets_six_bits_or_more() -> None:
    mixed = [name for name in FORMATS if name.startswith("gguf-q") and name not in {"gguf-q8_0", "gguf-q6_k"}]
    assert len(mixed) > 8
    for name in mixed:
        assert gguf_bits(number_format(name), "head") == 6.5625, name


def test_a_plain_format_gives_every_matrix_the_same() -> None:
    assert {gguf_bits(number_format("fp8"), role) for role in ("head", "value", "down", "other")} == {8}


@pytest.mark.parametrize("level", ["gguf-q4_k_m", "gguf-q4_k_s", "gguf-q3_k_m"])
def test_a_deep_model_with_shared_key_value_heads_keeps_its_values_finer(level: str) -> None:
    stored = number_format(level)
    assert gguf_bits(stored, "value", depth=80, shared_kv=8) >= 5.5 > gguf_bits(stored, "other", depth=80, shared_kv=8)


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
