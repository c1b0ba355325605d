"""Activations: the general count reproduces the published GPT layer and follows every cut."""

import pytest
from msgspec.structs import replace
from tests.training_setups import train_setup

from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Moe
from tonnage.domain.training import TrainSetup
from tonnage.physics.activations import layer_bytes_per_token, logit_bytes, recomputed_layer_bytes

GPT = LayerGroup(
    count=1,
    mixer=Attention(num_attention_heads=64, num_key_value_heads=64, head_dim=96),
    feed_forward=Mlp(intermediate_size=4 * 6144, gated=False),
    norm_bias=True,
)
HIDDEN = 6144


def gpt_layer_bytes(*, hidden: float, heads: float, seq_len: float, tp: int, sequence_parallel: bool) -> float:
    """Activations of one GPT layer per token, nothing recomputed."""
    scores = 5 * heads * seq_len
    if sequence_parallel:
        return (34 * hidden + scores) / tp
    return 10 * hidden + (24 * hidden + scores) / tp


def setup(**changes: object) -> TrainSetup:
    return train_setup(**{"seq_len": 2048, "flash_attention": False, **changes})


def test_without_dropout_masks_the_count_is_the_papers() -> None:
    paper = gpt_layer_bytes(hidden=HIDDEN, heads=64, seq_len=2048, tp=1, sequence_parallel=False)
    assert layer_bytes_per_token(GPT, HIDDEN, setup=setup()) == pytest.approx(paper - 2 * HIDDEN)


def test_tensor_and_sequence_parallelism_cut_as_in_the_paper() -> None:
    for spread in (False, True):
        layout = TrainLayout(tp=8, sequence_parallel=spread)
        paper = gpt_layer_bytes(hidden=HIDDEN, heads=64, seq_len=2048, tp=8, sequence_parallel=spread)
        masks = 2 * HIDDEN / (8 if spread else 1)
        assert layer_bytes_per_token(GPT, HIDDEN, setup=setup(layout=layout)) == pytest.approx(paper - masks)


def test_selective_recompute_drops_the_scores() -> None:
    kept = layer_bytes_per_token(GPT, HIDDEN, setup=setup(recompute="selective"))
    assert kept == pytest.approx(32 * HIDDEN)
    assert kept == layer_bytes_per_token(GPT, HIDDEN, setup=setup(flash_attention=True))


def test_full_recompute_keeps_the_input_alone() -> None:
    assert layer_bytes_per_token(GPT, HIDDEN, setup=setup(recompute="full")) == 2 * HIDDEN
    assert recomputed_layer_bytes(GPT, HIDDEN, setup=setup(recompute="full")) > 32 * HIDDEN


def test_grouped_queries_keep_less_than_full_heads() -> None:
    grouped = replace(GPT, mixer=Attention(num_attention_heads=64, num_key_value_heads=8, head_dim=96))
    saved = layer_bytes_per_token(GPT, HIDDEN, setup=setup()) - layer_bytes_per_token(grouped, HIDDEN, setup=setup())
    assert saved == pytest.approx(2 * 2 * 56 * 96)


def test_a_mixture_keeps_its_chosen_experts_not_all() -> None:
    moe = replace(GPT, feed_forward=Moe(num_experts=64, num_experts_per_tok=2, moe_intermediate_size=4 * HIDDEN))
    more = replace(GPT, feed_forward=Moe(num_experts=128, num_experts_per_tok=2, moe_intermediate_size=4 * HIDDEN))
    assert layer_bytes_per_token(moe, HIDDEN, setup=setup()) == layer_bytes_per_token(more, HIDDEN, setup=setup())
    assert layer_bytes_per_token(moe, HIDDEN, setup=setup()) > layer_bytes_per_token(GPT, HIDDEN, setup=setup())


def test_latent_attention_is_counted_in_its_expanded_form() -> None:
    latent = LatentAttention(
        num_attention_heads=128,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        q_lora_rank=1536,
    )
    group = LayerGroup(count=1, mixer=latent)
    values = 128 * (192 + 192 + 128 + 128) + 2 * (1536 + 512) + 7168 + 2 * 7168
    assert layer_bytes_per_token(group, 7168, setup=setup(flash_attention=True)) == pytest.approx(2 * values)


def test_frozen_matrices_keep_no_input() -> None:
    adapters = setup(method="lora", lora_targets=("q_proj", "v_proj"), software="eager", flash_attention=True)
    everything = replace(adapters, lora_targets=())
    assert layer_bytes_per_token(GPT, HIDDEN, setup=adapters) < layer_bytes_per_token(GPT, HIDDEN, setup=everything)


def test_a_chunked_loss_holds_less() -> None:
    assert logit_bytes(128256, setup=setup(fused_loss=True)) < logit_bytes(128256, setup=setup()) / 2


def test_thirty_two_bit_training_keeps_twice_as_much() -> None:
    wide = layer_bytes_per_token(GPT, HIDDEN, setup=setup(precision="fp32", flash_attention=True))
    assert wide == pytest.approx(2 * layer_bytes_per_token(GPT, HIDDEN, setup=setup(flash_attention=True)))
