"""Mixers: FLOP and bytes of every operator of a small layer, counted by hand.

Two prompts of 3 tokens after 5 cached ones and seven sequences of 11 tokens that try 2 each: 6 + 14 = 20 rows. A query
of a prompt sees (6 + 7 + 8) / 3 = 7 keys. Hidden width 10; 16-bit values of 2 bytes unless a test says otherwise.
"""

import pytest
from msgspec.structs import replace

from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LatentAttention, StateSpace
from tonnage.domain.precision import Precision
from tonnage.physics.mixers import cross_attention_work, mixer_work
from tonnage.physics.shares import Share, Tokens, share
from tonnage.physics.work import Operator, Work

BOTH = Tokens(prompts=2, chunk=3, cached=5, decodes=7, context=11, drafted=2)
GQA = Attention(num_attention_heads=4, num_key_value_heads=2, head_dim=8, v_head_dim=6)
MLA = LatentAttention(
    num_attention_heads=4, kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6, q_lora_rank=12
)
FOLDED = LatentAttention(
    num_attention_heads=4,
    kv_lora_rank=14,
    qk_rope_head_dim=2,
    qk_nope_head_dim=14,
    v_head_dim=16,
    q_lora_rank=12,
    absorbed=True,
    o_lora_rank=5,
    o_groups=2,
    window=4,
    compress_ratio=2,
)
CHOSEN = replace(FOLDED, index_heads=2, index_head_dim=4, index_topk=3)
MAMBA = StateSpace(kind="mamba2", num_heads=4, head_dim=8, state_size=16, num_groups=2)


def rank(tp: int = 1, kv: str = "bf16") -> Share:
    return share(hidden=10, layout=Layout(tp=tp), precision=Precision(kv=kv))


def counted(work: Work) -> dict[str, tuple[float, float, float, float]]:
    """Executions, FLOP, bytes read and written of each operator."""
    assert len({op.name for op in work}) == len(work)
    return {op.name: (op.count, op.flop, op.read_bytes, op.write_bytes) for op in work}


def product(m: float, n: float, k: float) -> object:
    """A 16-bit product of three layers: 2 m n k FLOP; reads the n x k matrix and m x k values, writes m x n."""
    return pytest.approx((3, 2 * m * n * k, 2 * n * k + 2 * m * k, 2 * m * n))


def core(flop: float, read_bytes: float, write_bytes: float) -> object:
    return pytest.approx((3, flop, read_bytes, write_bytes))


def shape(op: Operator) -> tuple[float | None, ...]:
    return op.m, op.batch, op.context, op.heads, op.kv_heads, op.head_dim, op.window


def named(work: Work, name: str) -> Operator:
    return next(op for op in work if op.name == name)


def test_grouped_queries_on_one_rank() -> None:
    work = mixer_work(GQA, rank(kv="fp8"), tokens=BOTH, count=3)
    # Queries of 4 x 8 values, keys of 2 x 8, values of 2 x 6: 60 outputs. A cached key and value: 2 x (8 + 6) bytes.
    assert counted(work) == {
        "attention input": product(20, 60, 10),
        "rotary and cache": core(0, 2 * 20 * 60, 2 * 20 * 60),
        "attention prefill": core(2 * 4 * 14 * 6 * 7, 28 * 2 * (5 + 3) + 2 * 6 * 32, 2 * 6 * 24),
        "attention decode": core(2 * 4 * 14 * 14 * 11, 28 * 7 * 11 + 2 * 14 * 32, 2 * 14 * 24),
        "attention output": product(20, 10, 24),
    }
    assert shape(named(work, "attention prefill")) == (6, 2, 5, 4, 2, 8, None)
    assert shape(named(work, "attention decode")) == (14, 7, 11, 4, 2, 8, None)


def test_grouped_queries_on_two_ranks() -> None:
    work = mixer_work(GQA, rank(2), tokens=BOTH, count=3)
    # Two query heads and one pair each: 16 + 8 + 6 outputs; a cached key and value is 14 values of 2 bytes.
    assert counted(work) == {
        "attention input": product(20, 30, 10),
        "rotary and cache": core(0, 2 * 20 * 30, 2 * 20 * 30),
        "attention prefill": core(2 * 2 * 14 * 6 * 7, 28 * 2 * (5 + 3) + 2 * 6 * 16, 2 * 6 * 12),
        "attention decode": core(2 * 2 * 14 * 14 * 11, 28 * 7 * 11 + 2 * 14 * 16, 2 * 14 * 12),
        "attention output": product(20, 10, 12),
    }


@pytest.mark.parametrize(
    ("changes", "outputs", "moved"),
    [
        ({"gated": True}, 60 + 4 * 6, 60),  # a gate for each value of the output
        ({"key_is_value": True}, 32 + 2 * 8, 48),
        ({"kv_shared": True}, 32, 32),
        ({"v_head_dim": None}, 32 + 2 * 16, 64),
    ],
)
def test_what_the_input_projects(changes: dict[str, object], outputs: float, moved: float) -> None:
    found = counted(mixer_work(replace(GQA, **changes), rank(), tokens=BOTH, count=3))
    assert found["attention input"] == product(20, outputs, 10)
    assert found["rotary and cache"] == core(0, 40 * moved, 40 * moved)


def test_a_norm_of_queries_passes_over_them() -> None:
    found = counted(mixer_work(replace(GQA, qk_norm=True), rank(2), tokens=BOTH, count=3))
    assert found["query and key norm"] == core(0, 2 * 20 * 16, 2 * 20 * 16)


def test_a_window_bounds_prompts_and_decodes() -> None:
    work = mixer_work(replace(GQA, window=4), rank(), tokens=replace(BOTH, cached=2), count=3)
    found = counted(work)
    # Queries see 3, 4 and 4 keys; the two cached tokens fit in the window. A key and value: 2 x 14 values of 2 bytes.
    assert found["attention prefill"] == core(2 * 4 * 14 * 6 * 11 / 3, 56 * 2 * (2 + 3) + 2 * 6 * 32, 2 * 6 * 24)
    assert found["attention decode"] == core(2 * 4 * 14 * 14 * 4, 56 * 7 * 4 + 2 * 14 * 32, 2 * 14 * 24)
    assert shape(named(work, "attention prefill")) == (6, 2, 2, 4, 2, 8, 4)
    assert shape(named(work, "attention decode")) == (14, 7, 4, 4, 2, 8, 4)
    late = counted(mixer_work(replace(GQA, window=4), rank(), tokens=BOTH, count=3))
    assert late["attention prefill"] == core(2 * 4 * 14 * 6 * 4, 56 * 2 * (4 + 3) + 2 * 6 * 32, 2 * 6 * 24)


def test_without_a_mask_every_query_sees_the_whole_chunk() -> None:
    found = counted(mixer_work(replace(GQA, causal=False), rank(), tokens=BOTH, count=3))
    assert found["attention prefill"][1] == 2 * 4 * 14 * 6 * 8
    encoder = share(hidden=10, layout=Layout(), precision=Precision(), encoder=True)
    assert counted(mixer_work(GQA, encoder, tokens=BOTH, count=3))["attention prefill"][1] == 2 * 4 * 14 * 6 * 8


def test_only_what_the_step_holds_is_attended() -> None:
    prompts = counted(mixer_work(GQA, rank(), tokens=replace(BOTH, decodes=0), count=3))
    assert "attention prefill" in prompts
    assert "attention decode" not in prompts
    decodes = counted(mixer_work(GQA, rank(), tokens=replace(BOTH, prompts=0), count=3))
    assert "attention decode" in decodes
    assert "attention prefill" not in decodes


def test_an_indexer_over_plain_keys() -> None:
    indexed = replace(GQA, index_heads=2, index_head_dim=4, index_topk=3)
    work = mixer_work(indexed, rank(), tokens=BOTH, count=3)
    found = counted(work)
    # 14 rows score 11 keys, 6 rows 7: 196 scores of 2 heads x 4 values; 7 x 11 + 2 x 8 = 93 keys of 4 16-bit values
    # are read, and one 32-bit score of each 128 keys is written.
    assert found["index query"] == product(20, 8, 10)
    assert found["index key"] == product(20, 4, 10)
    assert found["index scores"] == core(2 * 2 * 4 * 196, 4 * 2 * 93, 4 * 196 / 128)
    assert shape(named(work, "index scores")) == (20, 9, 11, 2, 1, 4, None)
    # Three keys are attended, at most.
    assert found["attention decode"] == core(2 * 4 * 14 * 14 * 3, 56 * 7 * 3 + 2 * 14 * 32, 2 * 14 * 24)
    assert found["attention prefill"][1] == 2 * 4 * 14 * 6 * 3


def test_latent_attention_on_one_rank() -> None:
    work = mixer_work(MLA, rank(kv="fp8"), tokens=BOTH, count=3)
    # A latent of 16 + 4 values, queries of rank 12. Prompts expand the latents of 2 x (5 + 3) tokens to 4 heads of
    # 8 + 6 values and attend keys of 8 + 4; decodes meet the latents: products of 16 + 4 and of 16 values a head.
    assert counted(work) == {
        "latent down": product(20, 20 + 12, 10),
        "latent norms and cache": pytest.approx((6, 0, 2 * 20 * 32, 2 * 20 * 32)),
        "query up": product(20, 4 * 12, 12),
        "key/value up": product(16, 56, 16),
        "attention prefill": core(2 * 4 * (12 + 6) * 6 * 7, 2 * 4 * (18 * 16 + 12 * 6), 2 * 6 * 24),
        "absorb keys": product(14, 16, 32),
        "attention decode": core(2 * 4 * (20 + 16) * 14 * 11, 20 * 7 * 11 + 2 * 14 * 4 * 20, 2 * 14 * 4 * 16),
        "absorb values": product(14, 6, 64),
        "attention output": product(20, 10, 24),
    }
    assert shape(named(work, "attention prefill")) == (6, 2, 5, 4, 4, 12, None)
    assert shape(named(work, "attention decode")) == (14, 7, 11, 4, 1, 20, None)


def test_latent_attention_on_two_ranks_with_full_queries() -> None:
    found = counted(mixer_work(replace(MLA, q_lora_rank=None), rank(2), tokens=BOTH, count=3))
    # Half of the heads; the latent stays whole.
    assert found == {
        "latent down": product(20, 20 + 2 * 12, 10),
        "latent norms and cache": pytest.approx((6, 0, 2 * 20 * 20, 2 * 20 * 20)),
        "key/value up": product(16, 28, 16),
        "attention prefill": core(2 * 2 * 18 * 6 * 7, 2 * 2 * (18 * 16 + 12 * 6), 2 * 6 * 12),
        "absorb keys": product(14, 16, 16),
        "attention decode": core(2 * 2 * 36 * 14 * 11, 2 * 20 * 7 * 11 + 2 * 14 * 2 * 20, 2 * 14 * 2 * 16),
        "absorb values": product(14, 6, 32),
        "attention output": product(20, 10, 12),
    }


def test_an_indexer_over_latents() -> None:
    work = mixer_work(replace(MLA, index_heads=2, index_head_dim=4, index_topk=3), rank(), tokens=BOTH, count=3)
    found = counted(work)
    # Queries come from the rank-12 ones; a key of 4 and a weight for each of 2 heads. A key is 4 bytes and its scale 4.
    assert found["index query"] == product(20, 8, 12)
    assert found["index key"] == product(20, 6, 10)
    assert found["index scores"] == core(2 * 2 * 4 * 196, 8 * 93, 4 * 196)
    assert named(work, "attention decode").context == 3
    assert named(work, "attention prefill").window == 3
    assert found["attention prefill"][1] == 2 * 4 * 18 * 6 * 3


def test_folded_latents() -> None:
    work = mixer_work(FOLDED, rank(), tokens=BOTH, count=3)
    # Entries of 14 + 2 values. A prompt's query sees 4 tokens of the window and 7 / 2 folded entries; 4 + 3 tokens and
    # 8 / 2 entries are read. A decode sees 4 tokens and 11 / 2 entries. Two groups of 4 x 16 / 2 values go to rank 5.
    assert counted(work) == {
        "latent down": product(20, 16 + 12, 10),
        "latent norms and cache": pytest.approx((6, 0, 2 * 20 * 28, 2 * 20 * 28)),
        "query up": product(20, 64, 12),
        "compress": product(20, 32, 10),
        "fold": core(0, 2 * 20 * 32, 2 * 20 * 32 / 4),
        "attention prefill": core(4 * 4 * 16 * 6 * 7.5, 32 * 2 * 11 + 2 * 6 * 64, 2 * 6 * 64),
        "attention decode": core(4 * 4 * 16 * 14 * 9.5, 32 * 7 * 9.5 + 2 * 14 * 64, 2 * 14 * 64),
        "attention output down": product(20, 10, 32),
        "attention output": product(20, 10, 10),
    }
    assert shape(named(work, "attention prefill")) == (6, 2, 11, 4, 1, 16, None)
    assert shape(named(work, "attention decode")) == (14, 7, 9.5, 4, 1, 16, None)


def test_folded_latents_on_two_ranks_without_folds() -> None:
    found = counted(mixer_work(replace(FOLDED, compress_ratio=0), rank(2, kv="fp8"), tokens=BOTH, count=3))
    assert found["attention prefill"] == core(4 * 2 * 16 * 6 * 4, 16 * 2 * 7 + 2 * 6 * 32, 2 * 6 * 32)
    assert found["attention decode"] == core(4 * 2 * 16 * 14 * 4, 16 * 7 * 4 + 2 * 14 * 32, 2 * 14 * 32)
    assert found["attention output down"] == product(20, 5, 32)
    assert found["attention output"] == product(20, 10, 5)
    whole = counted(mixer_work(replace(FOLDED, compress_ratio=0, window=None), rank(), tokens=BOTH, count=3))
    assert whole["attention prefill"] == core(4 * 4 * 16 * 6 * 7, 32 * 2 * 8 + 2 * 6 * 64, 2 * 6 * 64)
    assert whole["attention decode"] == core(4 * 4 * 16 * 14 * 11, 32 * 7 * 11 + 2 * 14 * 64, 2 * 14 * 64)


def test_chosen_folded_entries() -> None:
    work = mixer_work(CHOSEN, rank(), tokens=BOTH, count=3)
    found = counted(work)
    # Three entries stand for 6 tokens: a prompt's query sees 4 + 6 / 2, a decode 4 + 3. Compressors project 4 x 16
    # values and 4 x 4 index values; 4-bit keys of 93 / 2 entries are scored by 196 / 2 pairs.
    assert found["compress"] == product(20, 64 + 16, 10)
    assert found["fold"] == core(0, 2 * 20 * 80, 2 * 20 * 80 / 4)
    assert found["index query"] == product(20, 8, 12)
    assert found["index key"] == product(20, 2, 10)
    assert found["index scores"] == core(2 * 2 * 4 * 98, 2 * 46.5, 4 * 98)
    assert named(work, "index scores").context == 5.5
    assert found["attention prefill"] == core(4 * 4 * 16 * 6 * 7, 32 * 2 * 11 + 2 * 6 * 64, 2 * 6 * 64)
    assert found["attention decode"] == core(4 * 4 * 16 * 14 * 7, 32 * 7 * 7 + 2 * 14 * 64, 2 * 14 * 64)
    prompts = mixer_work(CHOSEN, rank(), tokens=Tokens(prompts=2, chunk=3, cached=5), count=3)
    assert named(prompts, "index scores").context == 4
    assert named(prompts, "index scores").flop == 2 * 2 * 4 * 6 * 7 / 2
    assert not [op for op in prompts if op.name == "attention decode"]


@pytest.mark.parametrize("tp", [1, 2])
def test_a_recurrent_layer(tp: int) -> None:
    work = mixer_work(MAMBA, rank(tp), tokens=BOTH, count=3)
    # Inner width 32, two groups of 16 keys: in 2 x 32 + 2 x 2 x 16 + 4, convolved 32 + 64. 9 sequences have a state of
    # 32 x 16 values of 4 bytes, read and written; inputs: twice the inner width and twice the keys.
    assert counted(work) == {
        "in_proj": product(20, 132 / tp, 10),
        "short convolution": core(0, 2 * 2 * 20 * 96 / tp, 2 * 20 * 96 / tp),
        "state update": core(
            6 * 20 * 512 / tp, (4 * 9 * 512 + 2 * 20 * (64 + 64)) / tp, (4 * 9 * 512 + 2 * 20 * 32) / tp
        ),
        "out_proj": product(20, 10, 32 / tp),
    }
    update = named(work, "state update")
    assert (update.m, update.batch, update.heads, update.head_dim, update.k) == (20, 9, 4 / tp, 8, 16)


def test_keys_of_one_group_stay_whole_and_a_convolution_has_no_state() -> None:
    found = counted(mixer_work(replace(MAMBA, num_groups=1), rank(2), tokens=BOTH, count=3))
    assert found["state update"][2] == 4 * 9 * 256 + 2 * 20 * (32 + 2 * 16)
    short = mixer_work(
        StateSpace(kind="short_conv", num_heads=4, head_dim=8, state_size=1), rank(), tokens=BOTH, count=3
    )
    assert [op.name for op in short] == ["in_proj", "short convolution", "out_proj"]


def test_cross_attention_reads_every_source_token() -> None:
    plain = Attention(num_attention_heads=4, num_key_value_heads=2, head_dim=8)
    work = cross_attention_work(plain, rank(kv="fp8"), tokens=BOTH, source=13, count=3)
    # Keys and values of 2 x 13 source tokens are made for the two prompts; nine sequences read theirs.
    assert counted(work) == {
        "cross query": product(20, 32, 10),
        "cross key/value": product(26, 32, 10),
        "cross attention": core(4 * 32 * 20 * 13, 2 * 16 * 9 * 13, 2 * 20 * 32),
        "cross output": product(20, 10, 32),
    }
    assert shape(named(work, "cross attention")) == (20, 9, 13, 4, 2, 8, None)
    half = counted(cross_attention_work(plain, rank(2), tokens=replace(BOTH, prompts=0), source=13, count=3))
    assert half == {
        "cross query": product(14, 16, 10),
        "cross attention": core(4 * 16 * 14 * 13, 2 * 2 * 8 * 7 * 13, 2 * 14 * 16),
        "cross output": product(14, 10, 16),
    }


def test_the_nearer_of_two_bounds_holds() -> None:
    both = replace(GQA, window=4, index_heads=2, index_head_dim=4, index_topk=3)
    assert named(mixer_work(both, rank(), tokens=BOTH, count=3), "attention decode").context == 3
    late = replace(CHOSEN, index_topk=9)  # fewer entries than may be chosen: all 11 / 2 of them
    assert named(mixer_work(late, rank(), tokens=BOTH, count=3), "attention decode").context == 4 + 5.5


@pytest.mark.parametrize(("mixer", "compute"), [(GQA, "bf16"), (MLA, "fp8")])
def test_what_an_indexer_scores_in(mixer: Attention | LatentAttention, compute: str) -> None:
    indexed = replace(mixer, index_heads=2, index_head_dim=4, index_topk=3)
    at = share(hidden=10, layout=Layout(), precision=Precision(weights="fp8", activations="fp8"))
    assert named(mixer_work(indexed, at, tokens=BOTH, count=3), "index scores").compute == compute
