"""A training step: bytes kept for the backward pass, and times of its operators."""

import pytest
from msgspec.structs import replace
from tests.training_setups import train_setup

import tonnage
from tonnage import catalog
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.accelerator import Accelerator, Fact, Link
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Moe
from tonnage.domain.training import TrainSetup
from tonnage.physics.activations import layer_bytes_per_token, logit_bytes, recomputed_layer_bytes
from tonnage.physics.training_time import (
    Network,
    by_architecture,
    eager_bytes_per_s,
    half_rate_share,
    network,
    product_share,
    sustained_bytes_per_s,
    training_operator_s,
    training_peak,
    transfer_s,
)
from tonnage.physics.work import Operator

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
    assert logit_bytes(128256, setup=setup(loss="chunked")) < logit_bytes(128256, setup=setup()) / 2


def test_thirty_two_bit_training_keeps_twice_as_much() -> None:
    wide = layer_bytes_per_token(GPT, HIDDEN, setup=setup(precision="fp32", flash_attention=True))
    assert wide == pytest.approx(2 * layer_bytes_per_token(GPT, HIDDEN, setup=setup(flash_attention=True)))


CARD = Accelerator(
    id="card",
    vendor="NVIDIA",
    name="Card",
    architecture="Hopper",
    segment="datacenter",
    memory_bytes=80 * 2**30,
    memory_bytes_per_s=3.35e12,
    memory_type="HBM3",
    peaks={"fp32": 67e12, "bf16": 989e12, "fp8": 1979e12},
    link=Link(kind="nvlink4", bytes_per_s=450e9, domain=8),
    host_link=Link(kind="pcie5", bytes_per_s=63e9),
    fact=Fact(source="a test"),
)
LINKS = Network(domain=8, linked=8, inside=300e9, host=20e9, outside=40e9, hop_s=0.0)
COEFFICIENTS = training_coefficients()


def seconds(op: Operator, card: Accelerator = CARD) -> float:
    return training_operator_s(op, train_setup(accelerator=card))


def gemm(**changes: object) -> Operator:
    base = Operator(
        kind="gemm",
        name="x",
        flop=2.0 * 8192**3,
        m=8192,
        n=8192,
        k=8192,
        read_bytes=4.0 * 8192**2,
        write_bytes=2.0 * 8192**2,
    )
    return replace(base, **changes)


def test_a_long_product_is_slower_than_the_peak_and_faster_than_half_of_it() -> None:
    ideal = 2 * 8192**3 / 989e12
    assert ideal < seconds(gemm()) < 2 * ideal


def test_narrow_products_are_faster_but_not_twice() -> None:
    ratio = seconds(gemm()) / seconds(gemm(compute="fp8", weights="fp8"))
    assert 1.3 < ratio < 2.0


def test_ragged_sides_are_slower() -> None:
    even, ragged, odd = seconds(gemm()), seconds(gemm(n=8200)), seconds(gemm(n=8197))
    assert even < ragged < odd


def test_attention_gains_from_length_and_width() -> None:
    def rate(context: float, width: float) -> float:
        op = Operator(kind="attention_prefill", name="attention", flop=1e13, context=context, head_dim=width, m=8192)
        return 1e13 / seconds(op)

    assert rate(4096, 128) > rate(512, 128)
    assert rate(4096, 128) > rate(4096, 64)


def test_sixteen_bits_that_are_slow_in_hardware_multiply_at_thirty_two() -> None:
    pascal = replace(CARD, peaks={"fp32": 11.3e12, "fp16": 0.18e12})
    assert training_peak(pascal, "fp16") == 11.3e12
    assert training_peak(CARD, "bf16") == 989e12


def sustained(card: Accelerator) -> float:
    return sustained_bytes_per_s(train_setup(accelerator=card))


def test_stacked_memory_is_harder_to_fill() -> None:
    gddr = replace(CARD, memory_type="GDDR6X")
    assert sustained(CARD) < sustained(gddr)
    unknown = replace(CARD, memory_type="")
    assert sustained(unknown) == 3.35e12 * COEFFICIENTS.memory["*"]


def test_codes_beside_the_data_take_bandwidth_of_gddr_alone() -> None:
    coded, bare = (replace(CARD, memory_type="GDDR6", ecc=ecc) for ecc in (True, False))
    assert sustained(bare) == pytest.approx(1.13 * sustained(coded))
    assert sustained(replace(CARD, ecc=False)) == sustained_bytes_per_s(train_setup(accelerator=CARD))


def test_half_of_the_rate_is_reached_by_what_reaches_half_of_the_whole() -> None:
    geforce = replace(CARD, peaks={"fp32": 83e12, "fp16": 165e12, "bf16": 165e12, "fp16_accum16": 330e12})
    assert half_rate_share(geforce, "bf16", share=0.4) == pytest.approx(0.8)
    assert half_rate_share(geforce, "fp16", share=0.7) == 0.98
    assert half_rate_share(geforce, "fp32", share=0.7) == half_rate_share(CARD, "bf16", share=0.7) == 0.7


def test_eager_kernels_ask_for_no_more_than_their_multiprocessors_hold() -> None:
    setup = train_setup(software="eager", multiprocessors=132.0)
    fast, asked = replace(CARD, memory_bytes_per_s=100e12), 132.0 * COEFFICIENTS.eager_stream
    assert eager_bytes_per_s(replace(setup, accelerator=fast)) == pytest.approx(asked, rel=0.01)
    slow = replace(CARD, memory_bytes_per_s=0.5e12)
    assert eager_bytes_per_s(replace(setup, accelerator=slow)) == pytest.approx(
        0.5e12 * COEFFICIENTS.memory["HBM"], rel=0.01
    )
    free = sustained(fast)
    for other in (train_setup(multiprocessors=132.0), train_setup(software="eager")):
        assert eager_bytes_per_s(replace(other, accelerator=fast)) == free


def test_an_all_reduce_inside_the_domain_is_the_ring() -> None:
    assert transfer_s("all_reduce", 8e9, ranks=8, stride=1, links=LINKS) == pytest.approx(2 * 7 / 8 * 8e9 / 300e9)
    assert transfer_s("all_gather", 8e9, ranks=8, stride=1, links=LINKS) == pytest.approx(7 / 8 * 8e9 / 300e9)
    assert transfer_s("all_reduce", 8e9, ranks=1, stride=1, links=LINKS) == 0.0


def test_between_domains_all_adapters_of_a_node_share_the_message() -> None:
    many = transfer_s("all_gather", 8e9, ranks=64, stride=1, links=LINKS)
    assert many == pytest.approx(max(7 / 8 * 8e9 / 300e9, 7 / 8 * 8e9 / 8 / 40e9))
    sparse = transfer_s("all_gather", 8e9, ranks=8, stride=8, links=LINKS)
    assert sparse == pytest.approx(7 / 8 * 8e9 / 40e9)


def test_groups_beyond_the_direct_link_go_through_the_host() -> None:
    paired = replace(LINKS, linked=2)
    assert transfer_s("all_reduce", 1e9, ranks=4, stride=1, links=paired) > transfer_s(
        "all_reduce", 1e9, ranks=4, stride=1, links=LINKS
    )


def test_the_network_is_stated_or_of_its_era() -> None:
    setup = train_setup(layout=TrainLayout(dp=64))
    share = COEFFICIENTS.network
    assert network(replace(setup, accelerator=CARD)).outside == pytest.approx(50e9 * share)
    ampere = replace(CARD, architecture="Ampere")
    assert network(replace(setup, accelerator=ampere)).outside == pytest.approx(25e9 * share)
    stated = replace(setup, inter_bytes_per_s=12.5e9)
    assert network(replace(stated, accelerator=CARD)).outside == pytest.approx(12.5e9 * share)


def test_pcie_when_said_and_a_rack_as_one_domain() -> None:
    setup = train_setup(layout=TrainLayout(dp=8), intra="pcie")
    assert network(replace(setup, accelerator=CARD)).inside < 63e9
    rack = replace(CARD, link=Link(kind="nvlink5", bytes_per_s=900e9, domain=72))
    wide = network(replace(setup, intra=None, accelerators_per_node=4, accelerator=rack))
    assert wide.domain == wide.linked == 72


def test_a_share_of_the_peak_by_hand() -> None:
    assert product_share(share=0.8, half=100, m=100, n=100, k=100) == pytest.approx(0.8 / 8, rel=1e-12)
    assert product_share(share=0.8, half=100, m=0.5, n=1, k=1e30) == pytest.approx(0.8 / 101**2, rel=1e-12)
    assert product_share(share=0.8, half=0, m=1, n=1, k=1) == 0.8


def test_scans_reach_a_tenth_of_what_products_do() -> None:
    scan = Operator(kind="state_space", name="x", flop=1e15, read_bytes=0.0, write_bytes=0.0)
    wide = COEFFICIENTS.gemm.get("Hopper", COEFFICIENTS.gemm["*"])
    assert seconds(scan) == pytest.approx(1e15 / (989e12 * wide * 0.09), rel=1e-9)


def test_nothing_is_sent_by_one_rank_or_of_nothing() -> None:
    far = replace(LINKS, hop_s=1e-3)
    assert transfer_s("all_reduce", 0.0, ranks=8, stride=1, links=far) == 0.0
    assert transfer_s("all_reduce", 1e9, ranks=1, stride=1, links=far) == 0.0
    assert transfer_s("all_reduce", 1e-9, ranks=8, stride=1, links=far) == pytest.approx(2 * 3 * 1e-3, rel=1e-6)
    assert transfer_s("all_gather", 1e-9, ranks=8, stride=1, links=far) == pytest.approx(3 * 1e-3, rel=1e-6)


def test_links_by_hand() -> None:
    plain = replace(COEFFICIENTS, network=1.0, link=0.5, host_link=0.25)
    setup = train_setup(layout=TrainLayout(dp=4), accelerators_per_node=8)
    found = network(replace(setup, accelerator=CARD, coefficients=plain))
    assert found == Network(domain=8, linked=8, inside=225e9, host=15.75e9, outside=50e9)
    pair = replace(CARD, link=Link(kind="nvlink", bytes_per_s=100e9, domain=2))
    assert network(replace(setup, accelerator=pair, coefficients=plain)).linked == 2
    assert network(replace(setup, accelerator=pair, coefficients=plain)).inside == 50e9
    assert network(replace(setup, intra="nvlink", accelerator=pair, coefficients=plain)).linked == 8
    alone = replace(CARD, link=Link(kind="none"), host_link=Link(kind="unknown"))
    assert network(replace(setup, accelerator=alone, coefficients=plain)) == Network(
        domain=8, linked=1, inside=4e9, host=4e9, outside=50e9
    )


@pytest.mark.parametrize(
    ("ranks", "node", "share"), [(1, 8, 1.0), (2, 8, 1.0), (4, 8, 0.5), (16, 8, 0.25), (4, 1, 1.0)]
)
def test_consumer_cards_share_the_memory_of_their_host(ranks: int, node: int, share: float) -> None:
    card = replace(CARD, segment="consumer", link=Link(kind="none"))
    setup = train_setup(layout=TrainLayout(dp=ranks), accelerators_per_node=node)
    plain = replace(COEFFICIENTS, host_link=1.0)
    assert network(replace(setup, accelerator=card, coefficients=plain)).inside == pytest.approx(
        63e9 * share, rel=1e-12
    )


def test_a_part_takes_the_numbers_of_the_architecture_it_grew_from() -> None:
    table = {"*": 0.1, "Blackwell": 0.2, "CDNA": 0.3, "CDNA3": 0.4}
    names = ("Blackwell Ultra", "Blackwell", "CDNA4", "CDNA3", "Hopper")
    assert [by_architecture(table, name) for name in names] == [0.2, 0.2, 0.3, 0.4, 0.1]


def test_eight_bit_products_are_as_fast_as_the_board_has_watts() -> None:
    # Dense Llama 3 in FP8: GB300 (1,400 W) runs 1.24 times as fast as GB200 (1,200 W) of the same peak.
    op = gemm(compute="fp8")
    ultra = seconds(op, catalog.accelerator("gb300-nvl72"))
    assert seconds(op, catalog.accelerator("gb200-nvl72")) / ultra == pytest.approx(1400 / 1200, rel=0.02)
    assert seconds(op, catalog.accelerator("mi300x")) / seconds(op, catalog.accelerator("mi325x")) > 1.1


def test_sixteen_bit_training_on_mi300x_stays_below_what_its_products_reach() -> None:
    op = gemm(compute="bf16")
    # About 620 measured: catalog/data/efficiency/sustained.csv.
    assert op.flop / seconds(op, catalog.accelerator("mi300x")) < 640e12


def test_machines_of_four_are_not_joined_by_the_link_inside_one_of_eight() -> None:
    """Eight ranks of tensor parallelism cross the network where machines hold four."""
    case = {"kind": "train", "model": "meta-llama/Llama-3.1-8B", "accelerator": "H100", "count": 8, "seq_len": 8192,
            "global_batch": 16, "micro_batch": 1, "layout": {"tp": 8}}  # fmt: skip
    four, eight = (tonnage.predict({**case, "accelerators_per_node": node}).step_s.value for node in (4, 8))
    assert four > 1.1 * eight


def test_per_operation_recompute_keeps_outputs_of_matrices_at_sixteen_bits() -> None:
    """Hand-counted: the input and its last product, half of a gated layer's outputs, of K experts' and their widths."""
    setup = train_setup(software="eager", recompute="selective")

    def kept(feed_forward: Mlp | Moe | None) -> float:
        group = LayerGroup(count=1, mixer=None, feed_forward=feed_forward)
        return layer_bytes_per_token(group, 100, setup=setup)

    assert kept(None) == 2 * 2 * 100
    assert kept(Mlp(intermediate_size=400, gated=False)) == 2 * (2 * 100 + 200)
    assert kept(Mlp(intermediate_size=400)) == 2 * (2 * 100 + 400)
    experts = kept(Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=50))
    assert experts == pytest.approx(2 * (2 * 100 + setup.routed_load * (2 * 50 + 100)))


def test_a_share_of_recomputed_layers_keeps_the_rest_whole() -> None:
    setup = train_setup(recompute="full")
    group = setup.model.layers[0]
    whole, none, part = (
        layer_bytes_per_token(group, 4096, setup=replace(setup, recompute=recompute, recompute_share=share))
        for recompute, share in (("full", 1.0), ("none", 1.0), ("full", 0.25))
    )
    assert part == pytest.approx(0.25 * whole + 0.75 * none)
