"""Parameter counts follow from shapes: parts sum, experts switch off, vectors and biases are found where they are."""

import pytest

from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Model, Moe, StateSpace, Tower
from tonnage.physics.matrices import feed_forward_matrices, matrix_parameters, mixer_matrices
from tonnage.physics.parameters import (
    active_parameters,
    embedding_parameters,
    feed_forward_parameters,
    head_parameters,
    layer_parameters,
    mixer_parameters,
    parameters,
)

GQA = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128)


def decoder(**changes: object) -> Model:
    group = LayerGroup(count=32, mixer=GQA, feed_forward=Mlp(intermediate_size=14336))
    facts = {"id": "x", "family": "x", "kind": "llm", "hidden_size": 4096, "vocab_size": 128256, "layers": (group,)}
    return Model(**{**facts, **changes})


def test_the_parts_sum_to_the_total() -> None:
    total = parameters(decoder(towers=(Tower(name="vision", parameters=5e8),), extra_parameters=7, learned_positions=9))
    assert total.value == sum(part.value for part in total.parts)
    assert {part.name for part in total.parts} == {
        "embedding",
        "positions",
        "attention",
        "feed_forward",
        "norms",
        "head",
        "towers",
        "other",
    }


def test_tied_embeddings_cost_the_head_once() -> None:
    untied, tied = decoder(), decoder(tie_word_embeddings=True)
    assert parameters(untied).value - parameters(tied).value == 128256 * 4096
    assert head_parameters(tied) == 0
    assert head_parameters(decoder(has_head=False)) == 0


def test_an_embedding_of_another_width_is_projected_both_ways() -> None:
    narrow = decoder(embedding_size=512, tie_word_embeddings=True)
    assert embedding_parameters(narrow) == 128256 * 512 + 512 * 4096
    assert head_parameters(narrow) == 512 * 4096


def test_biases_norms_and_sinks_of_attention() -> None:
    plain = mixer_parameters(GQA, 4096)
    rich = Attention(
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        bias=True,
        output_bias=True,
        qk_norm=True,
        sinks=True,
    )
    assert mixer_parameters(rich, 4096) - plain == (32 + 8 + 8) * 128 + 4096 + 2 * 128 + 32


def test_a_gate_is_as_wide_as_the_query_and_shared_keys_cost_nothing() -> None:
    plain = mixer_parameters(GQA, 4096)
    gated = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128, gated=True)
    shared = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128, kv_shared=True)
    one = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128, key_is_value=True)
    assert mixer_parameters(gated, 4096) - plain == 4096 * 4096
    assert plain - mixer_parameters(shared, 4096) == 2 * 1024 * 4096
    assert plain - mixer_parameters(one, 4096) == 1024 * 4096


def test_an_indexer_reads_the_query_latent() -> None:
    dense = LatentAttention(
        num_attention_heads=128,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        q_lora_rank=1536,
    )
    sparse = LatentAttention(
        num_attention_heads=128,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        q_lora_rank=1536,
        index_heads=64,
        index_head_dim=128,
        index_topk=2048,
    )
    more = mixer_parameters(sparse, 7168) - mixer_parameters(dense, 7168)
    assert more == 64 * 128 * 1536 + 128 * 7168 + 64 * 7168 + 2 * 128


def test_a_token_passes_the_chosen_experts_and_the_shared_one() -> None:
    moe = Moe(
        num_experts=64,
        num_experts_per_tok=6,
        moe_intermediate_size=1408,
        shared_intermediate_size=2816,
        shared_gate=True,
    )
    layer = LayerGroup(count=1, feed_forward=moe, norms=0)
    every, used = (layer_parameters(layer, 2048, active=active) for active in (False, True))
    assert every - used == 58 * 3 * 2048 * 1408
    assert used == 6 * 3 * 2048 * 1408 + 3 * 2048 * 2816 + 64 * 2048 + 2048


def test_latent_experts_work_in_their_own_width() -> None:
    moe = Moe(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=100, gated=False, latent_size=10, bias=True)
    assert feed_forward_parameters(moe, 40) == 4 * (2 * 10 * 100 + 100 + 10) + 2 * 40 * 10 + 4 * 40


def test_towers_and_unused_experts_are_not_active() -> None:
    group = LayerGroup(
        count=2, mixer=GQA, feed_forward=Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64)
    )
    model = decoder(layers=(group,), towers=(Tower(name="vision", parameters=1e6),))
    assert parameters(model).value - active_parameters(model).value == 1e6 + 2 * 6 * 3 * 4096 * 64
    assert active_parameters(decoder()).value == parameters(decoder()).value


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("mamba1", 2 * 128 * 64 + 128 * 4 + (4 + 32) * 128 + 128 * 4 + 64 * 128 + 128 * (16 + 3)),
        ("mamba2", (256 + 2 * 2 * 16 + 8) * 64 + (128 + 64) * 4 + 64 * 128 + (2 * 128 + 64 + 24)),
        ("gated_deltanet", (2 * 32 + 2 * 128) * 64 + 16 * 64 + (64 + 128) * 4 + 64 * 128 + 16 + 16),
        ("kda", 192 * 64 + 8 * 64 + 2 * 16 * 64 + 32 * 16 + 128 * 16 + 192 * 4 + 64 * 128 + 8 + 32 + 16),
        ("lightning", 4 * 128 * 64 + 64 * 128 + 128),
        ("xlstm", (2 * 128 + 128 + 128 + 16) * 64 + 64 * 128 + 128 + 16),
        ("rwkv", 4 * 128 * 64 + 64 * 128),
        ("short_conv", 3 * 128 * 64 + 128 * 4 + 64 * 128),
    ],
)
def test_each_recurrent_mixer_counted_by_hand(kind: str, expected: int) -> None:
    mixer = StateSpace(kind=kind, num_heads=8, head_dim=16, state_size=16, num_groups=2)
    assert mixer_parameters(mixer, 64) == expected


@pytest.mark.parametrize(("kind", "pieces"), [("mamba1", 8192), ("short_conv", 8192), ("mamba2", 1)])
def test_channels_that_nothing_mixes_are_pieces_of_their_own(kind: str, pieces: int) -> None:
    """Jamba has no heads: its ranks divide channels."""
    mixer = StateSpace(kind=kind, num_heads=1, head_dim=8192, state_size=16, num_groups=1)  # type: ignore[arg-type]
    assert {matrix.parts for matrix in mixer_matrices(mixer, 4096)} == {pieces}


def test_matrices_say_how_a_group_of_ranks_cuts_them() -> None:
    cut = {m.name: (m.split, m.parts) for m in mixer_matrices(GQA, 4096)}
    assert cut == {
        "q_proj": ("outputs", 32),
        "k_proj": ("outputs", 8),
        "v_proj": ("outputs", 8),
        "o_proj": ("inputs", 32),
    }
    moe = Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64)
    experts = [m for m in feed_forward_matrices(moe, 32) if m.split == "experts"]
    assert [(m.copies, m.active) for m in experts] == [(8, 2), (8, 2)]
    assert matrix_parameters(experts, active=True) * 4 == matrix_parameters(experts)


def test_a_layer_may_have_its_own_width() -> None:
    group = LayerGroup(
        count=1, feed_forward=Mlp(intermediate_size=10, gated=False, bias=True), hidden_size=4, norm_bias=True
    )
    assert layer_parameters(group, 999) == 2 * 4 * 10 + 10 + 4 + 2 * 2 * 4


def test_a_network_without_layers_carries_its_published_count() -> None:
    net = Model(id="r", family="ResNet", kind="cnn", published_parameters=25557032)
    assert parameters(net).value == 25557032
    assert [part.basis for part in parameters(net).parts] == ["assumed"]


def test_of_published_counts_the_active_one_is_that_of_a_token() -> None:
    net = Model(id="r", family="x", kind="cnn", published_parameters=100, published_active_parameters=7)
    assert (parameters(net).value, active_parameters(net).value) == (100, 7)
    assert active_parameters(Model(id="r", family="x", kind="cnn", published_parameters=100)).value == 100


def test_a_bias_of_the_head_has_a_value_for_each_word() -> None:
    assert head_parameters(decoder(head_bias=True)) - head_parameters(decoder()) == 128256
    tied = decoder(tie_word_embeddings=True, head_bias=True)
    assert head_parameters(tied) == 128256
