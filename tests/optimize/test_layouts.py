"""Legal layouts divide every matrix; illegal ones say which degree and the nearest that works."""

import pytest
from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator, Fact, Link
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Model, Moe
from tonnage.optimize.layouts import legal, replica_layouts

CARD = Accelerator(
    id="card",
    vendor="NVIDIA",
    name="card",
    architecture="Hopper",
    segment="datacenter",
    memory_bytes=80e9,
    memory_bytes_per_s=3e12,
    peaks={"bf16": 1e15},
    link=Link(kind="nvlink4", bytes_per_s=450e9, domain=8),
    host_link=Link(kind="pcie5", bytes_per_s=63e9),
    fact=Fact(source="test"),
    max_per_node=8,
)
DENSE = Model(
    id="dense",
    family="test",
    kind="llm",
    hidden_size=3584,
    vocab_size=1000,
    layers=(
        LayerGroup(
            count=28,
            mixer=Attention(num_attention_heads=28, num_key_value_heads=4, head_dim=128),
            feed_forward=Mlp(intermediate_size=18944),
        ),
    ),
)
LATENT = Model(
    id="latent",
    family="test",
    kind="llm-moe",
    hidden_size=7168,
    vocab_size=1000,
    layers=(
        LayerGroup(
            count=61,
            mixer=LatentAttention(
                num_attention_heads=128, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128
            ),
            feed_forward=Moe(num_experts=256, num_experts_per_tok=8, moe_intermediate_size=2048),
        ),
    ),
)


@pytest.mark.parametrize(
    ("model", "layout", "limit", "nearest"),
    [
        (DENSE, Layout(tp=8), "tp", "tp 7"),
        (DENSE, Layout(tp=1, pp=40), "pp", "pp 28"),
        (DENSE, Layout(tp=2, ep=2), "ep", "ep 1"),
        (LATENT, Layout(tp=8, ep=4), "ep", "ep 8"),
    ],
)
def test_illegal_layouts_say_what_would_work(model: Model, layout: Layout, limit: str, nearest: str) -> None:
    verdict = legal(model, layout)
    assert (verdict.ok, verdict.limit, verdict.nearest) == (False, limit, nearest)


def test_candidates_are_legal_and_inside_the_node() -> None:
    found = list(replica_layouts(LATENT, CARD, per_node=8, max_ranks=32))
    assert Layout(tp=8) in found and Layout(dp=8, ep=8) in found and Layout(tp=8, pp=2) in found
    assert all(legal(LATENT, layout).ok and layout.tp <= 8 and layout.ranks <= 32 for layout in found)


def test_only_attention_data_parallelism_leaves_the_fast_links() -> None:
    found = list(replica_layouts(LATENT, CARD, per_node=8, max_ranks=64))
    beyond = [layout for layout in found if layout.ranks > 8 and layout.pp == 1]
    assert beyond == [Layout(dp=n, ep=n) for n in (16, 32, 64)]
    assert not [layout for layout in replica_layouts(DENSE, CARD, per_node=8, max_ranks=64) if layout.tp > 4]


def test_a_rack_of_trays_is_searched_as_one_domain() -> None:
    tray = replace(CARD, max_per_node=4)
    found = list(replica_layouts(LATENT, tray, per_node=4, max_ranks=64, domain=64))
    assert {Layout(dp=64, ep=64), Layout(tp=8, ep=8), Layout(tp=16)} <= set(found)
    assert max(layout.tp for layout in found) == 16 and max(layout.ranks for layout in found) == 64
    assert Layout(tp=8) not in set(replica_layouts(LATENT, tray, per_node=4, max_ranks=64))


def test_heads_that_do_not_divide_end_the_list() -> None:
    assert [layout.tp for layout in replica_layouts(DENSE, CARD, per_node=8, max_ranks=8)] == [1, 2, 4]


def test_an_engine_that_spreads_layers_has_stages_in_one_node_and_nothing_else() -> None:
    found = list(replica_layouts(DENSE, CARD, per_node=4, max_ranks=8, layered=True))
    assert found[0] == Layout() and [layout.pp for layout in found] == [1, 2, 3, 4]
    assert all(layout.ranks == layout.pp for layout in found)
