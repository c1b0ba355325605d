"""Training memory: recipes, sharding, the moment of the peak, what each accounting includes."""

from collections import defaultdict

import pytest
from msgspec.structs import replace
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.accelerator import Accelerator, Fact, Link
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe, Network, Tower
from tonnage.domain.training import TrainSetup
from tonnage.engines.registry import software_spec
from tonnage.physics.activations import layer_bytes_per_token, recomputed_layer_bytes
from tonnage.physics.parameters import parameters
from tonnage.physics.training_memory import adapter_parameters, held_parameters, recipe, shard_ranks, training_memory

CARD = Accelerator(
    id="card",
    vendor="NVIDIA",
    name="Card",
    architecture="Hopper",
    segment="datacenter",
    memory_bytes=80 * 2**30,
    memory_bytes_per_s=3.35e12,
    peaks={"bf16": 989e12},
    link=Link(kind="nvlink4", bytes_per_s=450e9, domain=8),
    host_link=Link(kind="pcie5", bytes_per_s=63e9),
    fact=Fact(source="a test"),
)
LAYER = LayerGroup(
    count=32,
    mixer=Attention(num_attention_heads=32, num_key_value_heads=32, head_dim=128),
    feed_forward=Mlp(intermediate_size=11008),
)
LLAMA_7B = Model(id="7b", family="Llama", kind="llm", hidden_size=4096, vocab_size=32000, layers=(LAYER,))
MOE = replace(
    LLAMA_7B,
    layers=(replace(LAYER, feed_forward=Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=11008)),),
)


def memory(setup: TrainSetup, model: Model = LLAMA_7B, kind: str = "reserved"):  # type: ignore[no-untyped-def]
    return training_memory(replace(setup, model=model, accelerator=CARD), memory_kind=kind)


def test_parts_sum_to_the_whole() -> None:
    found = memory(train_setup(seq_len=2048))
    assert sum(part.value for part in found.parts) == pytest.approx(found.value)


def test_zero_widens_only_the_gradients_of_its_own_partition() -> None:
    base = train_setup(seq_len=512, software="deepspeed", num_micro_batches=8)
    alone = memory(replace(base, layout=TrainLayout(sharding="zero1")))
    shared = memory(replace(base, layout=TrainLayout(dp=8, sharding="zero1")))
    assert (
        shared.part("gradients") == alone.part("gradients") == pytest.approx(2 * parameters(LLAMA_7B).value, rel=1e-4)
    )
    assert shared.part("master weights") == pytest.approx(8 * parameters(LLAMA_7B).value / 8, rel=1e-4)
    assert shared.part("communication") == pytest.approx(4.5 * 2 * 5e8)


def test_offloaded_shards_still_gather_their_gradients_on_the_device() -> None:
    base = train_setup(
        seq_len=512,
        software="fsdp",
        num_micro_batches=4,
        offload="all",
        master_weights=False,
        recompute="full",
        layout=TrainLayout(dp=2, sharding="fsdp"),
    )
    found = memory(base)
    assert found.part("gradients") == pytest.approx(2 * parameters(LLAMA_7B).value / 2, rel=1e-4)
    assert memory(replace(base, software=software_spec("deepspeed"))).part("gradients") == 0


def test_contiguous_gradients_leave_no_gaps() -> None:
    base = train_setup(seq_len=512, num_micro_batches=2, recompute="full")
    gaps = [memory(replace(base, software=software_spec(name))).part("fragmentation") for name in ("megatron", "fsdp")]
    assert gaps[0] < gaps[1] / 3


def test_adapters_of_32_bits_keep_an_input_each() -> None:
    base = train_setup(
        method="lora", software="eager", seq_len=4096, recompute="full", lora_targets=("q_proj", "v_proj")
    )
    own = replace(base, adapter_input=5.0)
    plain, wide = (recomputed_layer_bytes(LAYER, 4096, setup=setup) for setup in (base, own))
    # Two copies with their masks for one that both read, and the gradient of the widest.
    assert wide - plain == 5 * 2 * 4096 - 2 * 4096 + 4 * 11008
    assert memory(replace(own, lora_targets=())).value > memory(own).value


TINY_LAYER = LayerGroup(
    count=4,
    mixer=Attention(num_attention_heads=4, num_key_value_heads=2, head_dim=8),
    feed_forward=Mlp(intermediate_size=12),
)
"""Width 10: 320 + 160 + 160 + 320 values of attention, 240 + 120 of the feed-forward, 20 of norms: 1340."""
TINY = Model(id="t", family="t", kind="llm", hidden_size=10, vocab_size=100, layers=(TINY_LAYER,))
"""5360 in layers, 1000 in the embedding and 1000 in the head."""
TINY_MOE = replace(
    TINY,
    layers=(replace(TINY_LAYER, feed_forward=Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=12)),),
)
"""A layer: 960 of attention, 80 of the router, 20 of norms; 8 experts of 360."""
TWELVE = train_setup(micro_batch=2, seq_len=6)
"""Twelve tokens a micro-batch."""


def parts(setup: TrainSetup, model: Model = TINY, kind: str = "allocated") -> dict[str, float]:
    return defaultdict(float, {part.name: part.value for part in memory(setup, model, kind).parts})


@pytest.mark.parametrize(
    ("layout", "dense", "experts", "ends", "unit"),
    [
        (TrainLayout(), 4240, 11520, 2000, 3940),
        (TrainLayout(tp=2), 4 * (480 + 100), 5760, 1000, 480 + 100 + 2880),  # router and norms stay whole
        (TrainLayout(dp=2, ep=2), 4240, 5760, 2000, 960 + 100 + 1440),
        (TrainLayout(tp=2, dp=2, ep=4), 4 * 580, 2880, 1000, 480 + 100 + 720),
        (TrainLayout(pp=2), 2120, 5760, 1000, 3940),  # the fuller end: embedding or head
        (TrainLayout(tp=8), 4 * (320 / 4 + 160 / 2 + 160 / 2 + 320 / 4 + 100), 1440, 250, 420 + 2880),  # whole heads
    ],
)
def test_parameters_of_one_rank(layout: TrainLayout, dense: float, experts: float, ends: float, unit: float) -> None:
    held = held_parameters(train_setup(layout=layout, model=TINY_MOE))
    assert (held.dense, held.experts, held.ends, held.unit) == pytest.approx((dense, experts, ends, unit))
    assert held.total == pytest.approx(dense + experts + ends)


def test_parameters_beside_the_layers() -> None:
    more = replace(
        TINY,
        towers=(Tower(name="eye", parameters=50),),
        extra_parameters=14,
        learned_positions=3,
        tie_word_embeddings=True,
    )
    held = held_parameters(train_setup(layout=TrainLayout(tp=2), model=more))
    assert (held.dense, held.ends) == (4 * (660 + 20) + 32, (1000 + 30) / 2)
    net = Model(id="net", family="n", kind="cnn", published_parameters=800, network=Network(flop=1))
    held = held_parameters(train_setup(model=net))
    assert (held.dense, held.experts, held.ends, held.unit) == (800, 0, 0, 100)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"precision": "fp32"}, (4, 4, 0, 8, 0)),
        ({"weights": "fp32"}, (4, 4, 0, 8, 0)),
        ({"master_weights": False}, (2, 2, 0, 4, 0)),
        ({}, (2, 4, 4, 8, 0)),
        ({"precision": "fp8"}, (2, 2, 4, 8, 0)),
        ({"precision": "fp16"}, (2, 6, 4, 8, 0)),
        ({"software": "deepspeed"}, (2, 2, 4, 8, 4)),
        ({"software": "fsdp"}, (4, 4, 0, 8, 0)),
        ({"optimizer": "sgd"}, (2, 4, 4, 4, 0)),
    ],
)
def test_bytes_of_each_recipe(changes: dict[str, object], expected: tuple[float, ...]) -> None:
    kept = recipe(train_setup(**changes))
    assert (kept.weights, kept.gradients, kept.master, kept.state, kept.wide_gradients) == expected
    assert kept.total == sum(expected)


@pytest.mark.parametrize(
    ("sharding", "weights", "gradients", "shared"),
    [
        ("none", 2 * 12000, 4 * 12000, 12000),
        ("zero1", 2 * 12000, 4 * 12000, 4440),
        ("zero2", 2 * 12000, 4 * 4440, 4440),
        ("zero3", 2 * 4440, 4 * 4440, 4440),
        ("fsdp", 2 * 4440, 4 * 4440, 4440),
    ],
)
def test_bytes_of_each_sharding(sharding: str, weights: float, gradients: float, shared: float) -> None:
    """6240 dense values over four ranks, 5760 of experts over two: 1560 + 2880 = 4440."""
    found = parts(replace(TWELVE, layout=TrainLayout(dp=4, ep=2, sharding=sharding)), TINY_MOE)  # type: ignore[arg-type]
    assert found["weights"] == weights
    assert found["gradients"] == gradients
    assert found["master weights"] == 4 * shared
    assert found["optimizer"] == 8 * shared
    # Two gathered layers of 960 + 100 + 1440 values and the gradients of as many, at 16 bits.
    assert found["communication"] == (2 * 2 * 2 * 2500 if sharding in {"zero3", "fsdp"} else 0)


def test_ranks_that_share_a_copy() -> None:
    assert shard_ranks(train_setup(layout=TrainLayout(dp=3, cp=2))) == (6, 6)
    assert shard_ranks(train_setup(layout=TrainLayout(dp=8, tp=2, ep=4))) == (8, 4)
    assert shard_ranks(train_setup(layout=TrainLayout(dp=2, ep=8))) == (2, 1)
    assert shard_ranks(train_setup(layout=TrainLayout(dp=16, tp=2, sharding="hsdp"))) == (4, 4)
    assert shard_ranks(train_setup(layout=TrainLayout(dp=2, tp=2, sharding="hsdp"))) == (2, 2)
    assert shard_ranks(train_setup(layout=TrainLayout(dp=2, tp=16, sharding="hsdp"))) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "layout", "size"),
    [
        ({"software": "jax"}, TrainLayout(dp=4, sharding="fsdp"), 2 * 1 * 2 * 1340),
        ({"software": "fsdp", "precision": "fp32"}, TrainLayout(dp=4, sharding="fsdp"), 2 * 2 * 4 * 1340),
        ({"software": "deepspeed"}, TrainLayout(dp=4, sharding="zero2"), 4.5 * 2 * 7360),
        ({"software": "deepspeed"}, TrainLayout(dp=4, sharding="zero3"), 4.5 * 2 * 7360 + 2 * 2 * 1340),
        ({"software": "eager"}, TrainLayout(dp=4), 4 * 7360),  # buckets: the gradients once more
        ({"software": "fsdp"}, TrainLayout(dp=2), 4 * 7360),
        ({"software": "eager"}, TrainLayout(), 0),
        ({"software": "megatron"}, TrainLayout(dp=4), 0),
    ],
)
def test_bytes_of_buffers(changes: dict[str, object], layout: TrainLayout, size: float) -> None:
    software = software_spec(str(changes.pop("software")))
    assert parts(replace(TWELVE, layout=layout, software=software, **changes))["communication"] == size


def test_two_ends_of_a_pipeline_on_one_rank_hold_weights_twice() -> None:
    found = parts(replace(TWELVE, layout=TrainLayout(pp=2, schedule="dualpipe"), num_micro_batches=4))
    assert found["weights"] == 2 * 2 * (2680 + 1000)
    assert found["master weights"] == 4 * 3680


def test_what_leaves_the_device() -> None:
    assert parts(replace(TWELVE, paged_states=True))["optimizer"] == 0
    half = parts(replace(TWELVE, offload="optimizer"))
    assert (half["weights"], half["master weights"], half["optimizer"]) == (2 * 7360, 0, 0)
    none = parts(replace(TWELVE, offload="all"))
    assert (none["weights"], none["gradients"]) == (0, 4 * 7360)
    one = parts(replace(TWELVE, micro_batch=1, seq_len=1, software=software_spec("fsdp"), grads_kept=False))
    assert one["gradients"] == 4 * 1340  # the largest layer's, or half of both ends'
    wide = parts(
        replace(TWELVE, micro_batch=1, seq_len=1, software=software_spec("fsdp"), grads_kept=False),
        replace(TINY, vocab_size=900),
    )
    assert wide["gradients"] == 4 * 9000


@pytest.mark.parametrize(
    ("changes", "adapters"),
    [
        ({"lora_targets": ("q_proj",)}, 4 * 16 * (32 + 10)),
        ({"lora_targets": ("q_proj",), "method": "dora"}, 4 * (16 * 42 + 32)),
        ({"lora_targets": ("up_proj",)}, 4 * 16 * (24 + 2 * 10)),
        ({"lora_targets": ("down_proj",)}, 4 * 16 * (10 + 12)),
        ({}, 4 * 16 * (42 + 26 + 26 + 42 + 44 + 22)),
        ({"trainable_parameters": 77.0}, 77),
    ],
)
def test_parameters_of_adapters(changes: dict[str, object], adapters: float) -> None:
    assert adapter_parameters(replace(train_setup(), **{"method": "lora"} | changes, model=TINY)) == adapters


def test_bytes_of_a_frozen_base_and_its_adapters() -> None:
    lora = replace(TWELVE, method="lora", software=software_spec("eager"), trainable_parameters=240.0)
    found = parts(lora)
    assert (found["weights"], found["optimizer"]) == (2 * 7360 + 4 * 240, 8 * 240)
    assert (found["gradients"], found["communication"]) == (4 * 240, 0)
    narrow = parts(replace(lora, master_weights=False))
    assert (narrow["weights"], narrow["optimizer"], narrow["gradients"]) == (2 * 7360 + 480, 4 * 240, 480)
    assert parts(replace(lora, precision="fp32"))["weights"] == 4 * 7360 + 4 * 240
    four = parts(replace(lora, method="qlora"))
    assert four["weights"] == pytest.approx(4.127 / 8 * 5360 + 2 * 2000 + 960)
    assert four["communication"] == 1340 * 2 / 4
    wide = parts(replace(lora, method="qlora", wide_residual=True))
    assert wide["weights"] == pytest.approx(4.127 / 8 * 5360 + 4 * 2000 + 960)
    assert wide["communication"] == 1340
    split = parts(replace(lora, layout=TrainLayout(tp=2, pp=2), num_micro_batches=2))
    assert split["optimizer"] == 8 * 60
    assert parts(replace(lora, offload="all"))["weights"] == 4 * 240


def test_bytes_of_a_sharded_frozen_base() -> None:
    lora = replace(
        TWELVE,
        method="lora",
        software=software_spec("eager"),
        trainable_parameters=240.0,
        layout=TrainLayout(dp=4, ep=2, sharding="fsdp"),
    )
    found = parts(lora, TINY_MOE)
    assert found["weights"] == 2 * (4240 / 4 + 5760 / 2) + 2 * 2000 / 4 + 960
    assert found["optimizer"] == 8 * 240 / 4
    assert found["communication"] == 2 * 2500 * 2
    whole = parts(replace(lora, loads_whole=True), TINY_MOE)
    assert whole["weights"] == 5 * (found["weights"] - 960) + 960
    first = parts(replace(lora, layout=TrainLayout(dp=4, ep=2, sharding="zero1")), TINY_MOE)
    assert (first["weights"], first["optimizer"]) == (2 * 12000 + 960, 480)
    plain = parts(replace(lora, loads_whole=True, layout=TrainLayout(dp=4, ep=2)), TINY_MOE)
    assert (plain["weights"], plain["optimizer"]) == (2 * 12000 + 960, 8 * 240)


def test_activations_at_the_end_of_the_forward_pass() -> None:
    kept = layer_bytes_per_token(TINY_LAYER, 10, setup=TWELVE)
    found = parts(TWELVE)
    assert found["activations"] == pytest.approx(12 * (4 * kept + 2 * 10))
    assert found["logits"] == 10 * 100 * 12
    eager = replace(TWELVE, software=software_spec("eager"))
    factor = training_coefficients().activation["eager"]
    kept = layer_bytes_per_token(TINY_LAYER, 10, setup=eager)
    assert parts(eager)["activations"] == pytest.approx(12 * (4 * factor * kept + 2 * 10))
    half = replace(TWELVE, layout=TrainLayout(tp=2))
    kept = layer_bytes_per_token(TINY_LAYER, 10, setup=half)
    assert parts(half)["activations"] == pytest.approx(12 * (4 * kept + 10))
    wide = replace(TWELVE, precision="fp32", layout=TrainLayout(cp=2))
    kept = layer_bytes_per_token(TINY_LAYER, 10, setup=wide)
    assert parts(wide)["activations"] == pytest.approx(6 * (4 * kept + 4 * 10))


def test_activations_of_the_first_of_two_stages() -> None:
    staged = replace(TWELVE, num_micro_batches=4, layout=TrainLayout(pp=2))
    kept = layer_bytes_per_token(TINY_LAYER, 10, setup=staged)
    found = parts(staged)
    # Two micro-batches of two layers in flight; the last stage holds one of them beside its logits.
    assert found["activations"] == pytest.approx(12 * (2 * 2 * kept + 2 * 2 * 10))
    assert found["logits"] == pytest.approx(12 * (1000 - 2 * kept))
    handed = parts(replace(staged, software=software_spec("deepspeed")))
    deep = layer_bytes_per_token(TINY_LAYER, 10, setup=replace(staged, software=software_spec("deepspeed")))
    assert handed["activations"] == pytest.approx(12 * (2 * 2 * deep + 4 * 2 * 10))


def test_a_layer_at_work_when_there_are_no_logits() -> None:
    setup = replace(TWELVE, recompute="full")
    silent = replace(TINY, has_head=False)
    kept = layer_bytes_per_token(TINY_LAYER, 10, setup=setup)
    working = recomputed_layer_bytes(TINY_LAYER, 10, setup=setup)
    found = parts(setup, silent)
    assert found["activations"] == pytest.approx(12 * (4 * kept + working))
    assert found["logits"] == 0


def test_activations_of_a_network_in_bytes() -> None:
    net = Model(
        id="n",
        family="n",
        kind="cnn",
        published_parameters=800,
        network=Network(flop=1, input_px=224, activation_values=1000),
    )
    setup = train_setup(software="eager", micro_batch=3)
    values = training_coefficients().network_values * 1000
    assert parts(setup, net)["activations"] == values * 2 * 3
    assert parts(replace(setup, image_px=448), net)["activations"] == 4 * values * 2 * 3
    assert parts(replace(setup, precision="tf32"), net)["activations"] == values * 4 * 3


def test_what_the_driver_sees_beside_the_tensors() -> None:
    fitted = training_coefficients()
    inside = parts(TWELVE)
    loose = inside["activations"] + inside["communication"]
    alone = parts(TWELVE, kind="device")
    assert alone["fragmentation"] == pytest.approx(fitted.fragmentation["*"] * loose)
    assert (alone["context"], alone["communicators"]) == (fitted.context_bytes, 0)
    assert parts(replace(TWELVE, layout=TrainLayout(dp=2)), kind="device")["communicators"] == fitted.collective_bytes
    assert "fragmentation" not in inside
    assert "context" not in parts(TWELVE, kind="reserved")
    loops = parts(replace(TWELVE, software=software_spec("eager")), kind="reserved")
    own = sum(loops[name] for name in ("activations", "communication", "gradients"))
    assert loops["fragmentation"] == pytest.approx(fitted.fragmentation["eager"] * own)


def test_an_allocator_that_runs_out_gives_back_what_it_holds() -> None:
    full = train_setup(software="eager", method="full", seq_len=2048, recompute="full", master_weights=False)

    def share(micro_batch: int, kind: str = "reserved") -> float:
        found = memory(replace(full, micro_batch=micro_batch), kind=kind)
        return found.part("fragmentation") / sum(found.part(name) for name in ("activations", "gradients"))

    fitted = training_coefficients().fragmentation
    assert share(1) == pytest.approx(fitted["eager"])
    assert share(32) == share(1, "need") == pytest.approx(fitted["*"])


def test_gradients_add_up_in_the_width_that_is_stated() -> None:
    def bytes_of(software: str, bits: float | None, precision: str = "bf16") -> float:
        return recipe(train_setup(software=software, gradient_bits=bits, precision=precision)).gradients  # type: ignore[arg-type]

    assert [bytes_of("megatron", bits) for bits in (None, 16, 32)] == [4, 2, 4]
    assert [bytes_of("megatron", bits, "fp8") for bits in (None, 32)] == [2, 4]
    assert [bytes_of("deepspeed", bits) for bits in (None, 32)] == [2, 6]


def test_autocast_casts_its_weights_once_a_pass() -> None:
    full = train_setup(software="eager", method="full", wide_residual=True, seq_len=8192, micro_batch=4)
    matrices = parameters(LLAMA_7B).value - 32000 * 4096
    assert memory(full).part("weights in 16 bits") == pytest.approx(2 * matrices, rel=1e-3)
    assert memory(replace(full, wide_residual=False)).part("weights in 16 bits") == 0


def test_inputs_of_recomputed_layers_follow_the_residual_stream() -> None:
    base = train_setup(software="eager", method="full", recompute="full")
    kept = [
        layer_bytes_per_token(LAYER, 4096, setup=replace(base, **changes))  # type: ignore[arg-type]
        for changes in ({}, {"wide_residual": True}, {"offload_activations": True})
    ]
    assert kept == [2 * 4096, 4 * 4096, 0]


def test_latent_diffusion_trains_its_denoiser_alone() -> None:
    model = catalog.model("stabilityai/stable-diffusion-xl-base-1.0")
    held = held_parameters(train_setup(model=model))
    assert held.total == pytest.approx(2.567e9, rel=1e-3)
    assert held.frozen == pytest.approx(0.901e9, rel=1e-2)


def test_networks_whose_values_nobody_counted_keep_what_their_flop_implies() -> None:
    def peak(samples: int) -> float:
        found = training_memory(
            train_setup(
                "eager",
                micro_batch=samples,
                precision="fp16",
                model=catalog.model("ultralytics/yolov8x"),
                accelerator=catalog.accelerator("a100-sxm4-80gb"),
            )
        )
        return found.part("activations")

    assert 5e9 < peak(16) < 40e9
    assert peak(4096) == pytest.approx(256 * peak(16)) and peak(4096) > 1e12


def test_a_frozen_base_is_kept_in_eight_bits_where_products_run_in_eight() -> None:
    def weights(precision: str, software: str) -> float:
        found = training_memory(
            train_setup(
                software,
                method="lora",
                precision=precision,
                seq_len=1024,
                model=catalog.model("meta-llama/Llama-2-70b-hf"),
                accelerator=catalog.accelerator("b200-sxm-180gb"),
            )
        )
        return found.part("weights")

    assert weights("fp8", "megatron") == pytest.approx(0.5 * weights("bf16", "megatron"), rel=0.02)
    assert weights("fp8", "eager") == weights("bf16", "eager")


def test_tables_of_a_recommender_are_spread_over_all_ranks() -> None:
    model = catalog.model("mlperf/dlrm-dcnv2")
    setup = train_setup("eager", layout=TrainLayout(dp=8))
    found = training_memory(replace(setup, model=model, accelerator=catalog.accelerator("a100-sxm4-80gb")))
    assert found.part("weights") == pytest.approx(4 * 26.1e9 / 8, rel=0.01)


def test_experts_are_cut_by_their_own_tensor_degree() -> None:
    base = train_setup(layout=TrainLayout(tp=4, dp=8, ep=4))
    whole, cut = (held_parameters(replace(base, layout=replace(base.layout, etp=n), model=MOE)) for n in (1, 2))
    assert cut.experts == pytest.approx(whole.experts / 2)
    assert cut.dense == whole.dense
    assert held_parameters(replace(base, model=MOE)) == whole
    assert shard_ranks(replace(base, layout=replace(base.layout, etp=2)))[1] == 4 * 8 // (4 * 2)


def test_parts_that_take_any_layout_keep_no_transposed_weights() -> None:
    eight = train_setup(precision="fp8")
    assert recipe(eight).weights == 2 * recipe(replace(eight, transposed_weights=False)).weights == 2
