"""Step time: parts sum, and each mechanism moves the step the way it should."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.catalog.fitted import with_training_totals
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Model, Network
from tonnage.domain.training import TrainSetup
from tonnage.engines.registry import software_spec
from tonnage.errors import Unmeasured
from tonnage.physics.network import network_totals
from tonnage.physics.training_memory import held_parameters
from tonnage.physics.training_time import network, transfer_s
from tonnage.simulation.training import model_flop, step_time
from tonnage.simulation.training_exchanges import Times, Turn, data_exchanges

LLAMA = catalog.model("meta-llama/Meta-Llama-3-8B")
H100 = catalog.accelerator("h100-sxm5-80gb")
BASE = train_setup(seq_len=8192, num_micro_batches=4, native_attention=True, layout=TrainLayout(dp=8, sharding="zero1"))


def step(setup: TrainSetup, model: Model = LLAMA) -> float:
    return step_time(replace(setup, model=model, accelerator=H100)).value


def test_parts_sum_to_the_step() -> None:
    found = step_time(replace(BASE, model=LLAMA, accelerator=H100))
    assert sum(part.value for part in found.parts) == pytest.approx(found.value)
    assert {"compute", "element-wise", "optimizer"} <= {part.name for part in found.parts}


def test_model_flop_is_six_per_parameter_and_token_and_attention() -> None:
    tokens = BASE.global_batch * 8192
    weights = 8.03e9 - 128256 * 4096  # the embedding is looked up, not multiplied
    attention = 3 * 2 * 8192 / 2 * 2 * 32 * 4096
    assert model_flop(replace(BASE, model=LLAMA)) == pytest.approx(tokens * (6 * weights + attention), rel=0.01)


def test_full_recompute_costs_about_a_third() -> None:
    assert 1.25 < step(replace(BASE, recompute="full")) / step(BASE) < 1.40


def test_half_the_layers_recomputed_cost_half_of_that() -> None:
    full, half = (step(replace(BASE, recompute="full", recompute_share=share)) for share in (1.0, 0.5))
    assert (half - step(BASE)) / (full - step(BASE)) == pytest.approx(0.5, abs=0.02)


def test_adapters_take_about_two_thirds_of_full_training() -> None:
    assert 0.6 < step(replace(BASE, method="lora")) / step(BASE) < 0.85


def test_four_bit_bases_pay_for_widening() -> None:
    lora, qlora = (step(replace(BASE, method=m, layout=TrainLayout())) for m in ("lora", "qlora"))
    assert 1.0 < qlora / lora < 2.0


def test_eight_bits_are_faster_but_never_twice() -> None:
    assert 1.2 < step(BASE) / step(replace(BASE, precision="fp8")) < 1.7


def test_a_pipeline_adds_its_bubble() -> None:
    staged = replace(BASE, layout=TrainLayout(pp=4, dp=2, sharding="zero1"), num_micro_batches=16)
    found = step_time(replace(staged, model=LLAMA, accelerator=H100))
    turns = found.value - found.part("bubble")
    assert found.part("bubble") / turns == pytest.approx(3 / 16, rel=0.2)
    interleaved = replace(staged, layout=replace(staged.layout, vpp=8))
    assert step(interleaved) < found.value


def test_slow_networks_cost_sharded_training_more() -> None:
    sharded = replace(
        BASE,
        software=software_spec("fsdp"),
        num_micro_batches=1,
        seq_len=2048,
        layout=TrainLayout(dp=64, sharding="fsdp"),
    )
    slow, fast = (step(replace(sharded, inter_bytes_per_s=rate)) for rate in (3e9, 50e9))
    assert slow > 1.2 * fast


def test_tensor_groups_beyond_a_node_are_slow() -> None:
    four, eight, sixteen = (step(replace(BASE, layout=TrainLayout(tp=tp))) for tp in (4, 8, 16))
    assert sixteen / eight > eight / four


def test_expert_exchange_can_be_hidden() -> None:
    moe = catalog.model("Qwen/Qwen3-30B-A3B")
    setup = replace(BASE, seq_len=4096, layout=TrainLayout(dp=16, ep=16, sharding="zero1"))
    assert step(replace(setup, overlapped_experts=True), moe) < step(setup, moe)


def test_muon_pays_for_its_iterations_and_keeps_less_state() -> None:
    adam, muon = (step_time(replace(BASE, optimizer=name, model=LLAMA, accelerator=H100)) for name in ("adamw", "muon"))
    assert muon.part("optimizer") > adam.part("optimizer")
    assert muon.value < 1.1 * adam.value


def test_a_network_is_timed_by_flop_and_traffic() -> None:
    resnet = catalog.model("timm/resnet50.a1_in1k")
    setup = train_setup(software="eager", micro_batch=256, precision="fp16", optimizer="sgd")
    assert step(replace(setup, micro_batch=512), resnet) == pytest.approx(2 * step(setup, resnet), rel=0.15)
    assert step(replace(setup, image_px=448), resnet) > 3 * step(setup, resnet)
    assert step(replace(setup, precision="fp32", weights="fp32"), resnet) > 1.3 * step(setup, resnet)
    assert step(replace(setup, channels_last=True), resnet) < 0.8 * step(setup, resnet)
    wide = replace(setup, precision="fp32", weights="fp32")
    assert step(replace(wide, channels_last=True), resnet) == step(wide, resnet)


def test_totals_follow_area_and_unknown_activations_follow_flop() -> None:
    net = Model(id="n", family="f", kind="cnn", network=Network(flop=13e9, input_px=224))
    flop, values = network_totals(net, image_px=448)
    assert flop == 4 * 13e9
    assert values == pytest.approx(4 * 13e9 / 1300)


def test_a_network_nobody_counted_is_said_to_be_unmeasured() -> None:
    with pytest.raises(Unmeasured, match="no published FLOP"):
        network_totals(Model(id="mystery", family="f", kind="cnn"))


def test_counted_networks_have_both_totals() -> None:
    ssd = with_training_totals(catalog.model("nvidia/ssd300-resnet50"))
    flop, values = network_totals(ssd, image_px=300)
    assert flop == pytest.approx(40.3e9, rel=0.01)
    assert values == pytest.approx(31.3e6, rel=0.01)


def test_hybrid_sharding_gathers_inside_the_node() -> None:
    base = replace(
        BASE, software=software_spec("fsdp"), num_micro_batches=1, inter_bytes_per_s=5e9, master_weights=False
    )
    wide = replace(base, layout=TrainLayout(dp=64, sharding="fsdp"))
    hybrid = replace(base, layout=TrainLayout(dp=64, sharding="hsdp"))
    assert step(hybrid) < step(wide)
    alone = [replace(base, layout=TrainLayout(dp=8, sharding=kind)) for kind in ("fsdp", "hsdp")]
    assert step(alone[0]) == pytest.approx(step(alone[1]))


def test_schedules_that_put_weight_gradients_off_shorten_the_bubble() -> None:
    def bubble(schedule: str) -> float:
        layout = TrainLayout(pp=4, dp=2, sharding="zero1", schedule=schedule)  # type: ignore[arg-type]
        found = step_time(replace(BASE, num_micro_batches=16, layout=layout, model=LLAMA, accelerator=H100))
        return found.part("bubble")

    assert bubble("1f1b") > 1.8 * bubble("zb-h1") > 0
    assert bubble("zb-h2") < bubble("zb-h1")
    assert bubble("dualpipe") < bubble("1f1b")


def test_products_in_pieces_hide_the_tensor_exchange() -> None:
    base = replace(BASE, layout=TrainLayout(tp=8, sharding="none"))
    pieces = replace(BASE, layout=TrainLayout(tp=8, sharding="none", async_tp=True))

    def exchange(setup: TrainSetup) -> float:
        found = step_time(replace(setup, model=LLAMA, accelerator=H100))
        return found.part("TP, CP and EP communication")

    assert 0 < exchange(pieces) < exchange(base) / 2


def test_magnitudes_cost_a_pass_over_the_weights() -> None:
    lora = train_setup(method="lora", software="eager", seq_len=512, layout=TrainLayout())
    assert 1.0 < step(replace(lora, method="dora")) / step(lora) < 2.0


def test_an_optimizer_on_the_host_is_paid_in_its_memory_and_link() -> None:
    base = train_setup(method="full", software="deepspeed", seq_len=2048, layout=TrainLayout(dp=8, sharding="zero2"))
    assert step(replace(base, offload="optimizer")) > step(base) + 8.03e9 / 8 * 8 * 28 / 109e9
    shards = replace(base, software=software_spec("fsdp"), layout=TrainLayout(dp=8, sharding="fsdp"))
    assert step(replace(shards, offload="all")) > step(replace(shards, offload="optimizer"))


def test_networks_of_depthwise_convolutions_move_more_and_frozen_encoders_are_paid() -> None:
    net = catalog.model("timm/resnet50.a1_in1k")
    base = train_setup(software="eager", micro_batch=64, precision="fp16", image_px=224)
    assert step(replace(base, network_style="separable"), net) > 1.2 * step(base, net)
    assert step(replace(base, frozen_flop=8e9), net) > 1.05 * step(base, net)
    single = replace(base, precision="fp32", weights="fp32")
    assert step(replace(single, network_style="volume"), net) > step(single, net)


def mixture_step(part: str, **changes: Any) -> float:
    model, rack = catalog.model("openai/gpt-oss-120b"), catalog.accelerator("gb200-nvl72")
    layout = TrainLayout(dp=64, ep=8, sharding="zero1")
    setup = train_setup(layout=layout, seq_len=4096, num_micro_batches=2, model=model, accelerator=rack, **changes)
    return step_time(setup).part(part)


def test_routed_experts_are_reduced_among_the_ranks_that_hold_the_same() -> None:
    # 117 B parameters of which 114 B are experts: over 8 ranks of 64 each rank still reduces 14 B.
    model, rack = catalog.model("openai/gpt-oss-120b"), catalog.accelerator("gb200-nvl72")
    layout = TrainLayout(dp=64, ep=8, sharding="zero1")
    setup = train_setup(layout=layout, seq_len=4096, model=model, accelerator=rack)
    times = Times(setup=setup, links=network(setup))
    turn = Turn(compute=0.0, elementwise=0.0, exchange=0.0, host=0.0, backward=0.0)
    spent = {each.name: each.spent_s for each in data_exchanges(times, stage=turn)}
    held = held_parameters(setup)
    assert held.experts > 5 * (held.dense + held.ends)
    dense = transfer_s("all_gather", 2.0 * (held.dense + held.ends), ranks=64, stride=1, links=times.links)
    routed = transfer_s("all_gather", 2.0 * held.experts, ranks=8, stride=8, links=times.links)
    assert spent["gathered weights"] == pytest.approx(dense + routed)


def test_fused_experts_spare_the_host_and_fill_the_tensor_cores() -> None:
    plain, fused = (
        mixture_step("compute", precision="mxfp8"),
        mixture_step("compute", precision="mxfp8", fused_experts=True),
    )
    assert fused < 0.95 * plain
    assert mixture_step("host", precision="mxfp8", fused_experts=True) < 0.5 * mixture_step("host", precision="mxfp8")
