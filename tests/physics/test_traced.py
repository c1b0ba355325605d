"""Networks known by their layers or by a trace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.retinanet import retinanet_flop

from tonnage.domain.precision import Precision
from tonnage.domain.profile import Moment, Profile, TracedOperator
from tonnage.errors import BadRequest
from tonnage.physics.network import element_bytes, network_work, patch_tokens, profile_work, scaled_to

PRODUCT = TracedOperator(
    kind="gemm",
    name="linear",
    flop=2e6,
    read_values=1000.0,
    write_values=500.0,
    weight_values=1e6,
    m=1.0,
    n=1000.0,
    k=1000.0,
)
CONVOLUTION = TracedOperator(
    kind="convolution",
    name="grouped",
    count=3.0,
    flop=9e6,
    read_values=4e3,
    write_values=2e3,
    weight_values=900.0,
    m=100.0,
    n=8.0,
    k=36.0,
    groups=4.0,
)
ATTENTION = TracedOperator(
    kind="attention",
    name="attention",
    flop=4e6,
    read_values=3e4,
    write_values=1e4,
    m=64.0,
    n=64.0,
    k=32.0,
    groups=8.0,
    heads=8.0,
    head_dim=32.0,
    keys=64.0,
)
PAIR = TracedOperator(kind="gemm", name="product", flop=1e3, read_values=20.0, write_values=9.0, m=3.0, groups=5.0)
PASSES = (
    TracedOperator(kind="elementwise", name="activation", read_values=7.0, write_values=7.0, pixels=True),
    TracedOperator(kind="elementwise", name="softmax", read_values=7.0, write_values=7.0),
    TracedOperator(kind="elementwise", name="group norm", read_values=7.0, write_values=7.0, weight_values=2.0),
)
PRECISION = Precision(weights="bf16", activations="bf16", kv="bf16")


def profile(*forward: TracedOperator, backward: tuple[TracedOperator, ...] = ()) -> Profile:
    return Profile(
        schema="tonnage.profile/1",
        name="net",
        inputs=(),
        samples=1,
        parameters=1e6,
        trainable_parameters=1e6,
        largest_parameter=1e6,
        forward=forward,
        backward=backward,
        moments=(Moment(activation_values=5.0, activation_bytes=3.0, gradient_values=2.0),) if backward else (),
    )


def test_a_product_reads_its_weights_once_a_batch_and_the_rest_once_a_sample() -> None:
    (one,) = profile_work(profile(PRODUCT), batch=1, precision=PRECISION)
    (four,) = profile_work(profile(PRODUCT), batch=4, precision=PRECISION)
    assert (one.flop, four.flop) == (2e6, 8e6)
    assert (one.read_bytes, four.read_bytes) == (2e6 + 2e3, 2e6 + 8e3)
    assert (one.write_bytes, four.write_bytes) == (1e3, 4e3)
    assert (one.m, four.m, four.n, four.k, four.groups) == (1.0, 4.0, 1000.0, 1000.0, 1.0)
    assert (four.kind, four.name, four.weights, four.compute, four.count) == (
        "gemm",
        "layer: linear",
        "bf16",
        "bf16",
        1,
    )


def test_eight_bit_weights_are_read_as_such_and_pairs_without_weights_keep_their_format() -> None:
    stored = Precision(weights="fp8", activations="bf16", kv="bf16")
    product, pair = profile_work(profile(PRODUCT, PAIR), batch=2, precision=stored)
    assert (product.weights, product.compute, product.read_bytes) == ("fp8", "fp8", 1e6 + 4e3)
    assert (pair.weights, pair.m, pair.groups, pair.read_bytes) == ("bf16", 3.0, 10.0, 80.0)


def test_a_convolution_keeps_its_groups_and_has_the_columns_of_all_of_them() -> None:
    (made,) = profile_work(profile(CONVOLUTION), batch=2, precision=PRECISION)
    assert (made.kind, made.count, made.m, made.n, made.groups) == ("convolution", 3.0, 200.0, 32.0, 4.0)
    assert (made.batch, made.heads) == (0.0, 0.0)


def test_attention_has_a_batch_of_samples_and_heads() -> None:
    (made,) = profile_work(profile(ATTENTION), batch=3, precision=PRECISION)
    assert (made.kind, made.m, made.batch, made.context, made.groups) == ("attention_prefill", 192.0, 24.0, 64.0, 24.0)
    assert (made.heads, made.kv_heads, made.head_dim) == (8.0, 8.0, 32.0)


def test_passes_say_what_they_run_over() -> None:
    pixels, tokens, norm = profile_work(profile(*PASSES), batch=1, precision=PRECISION)
    assert pixels.name.endswith("activation") and tokens.name == "tokens: softmax" and norm.name.endswith(", traced")
    assert pixels.name != "tokens: activation"
    assert (pixels.flop, pixels.groups, pixels.read_bytes) == (0.0, 1.0, 14.0)
    assert norm.read_bytes == 14.0 + 2 * 2.0  # parameters of a pass are read at two bytes at least


@given(kernels=st.integers(1, 300), batch=st.integers(1, 1024))
def test_totals_survive_the_spreading(kernels: int, batch: int) -> None:
    (op,) = network_work(
        flop=8.2e9, activation_values=11.1e6, parameters=25.6e6, kernels=kernels, batch=batch, precision="fp16"
    )
    assert op.flop * op.count == pytest.approx(8.2e9 * batch)
    assert op.write_bytes * op.count == pytest.approx(2 * 11.1e6 * batch)
    assert op.n * op.k * op.count == pytest.approx(25.6e6)
    assert 2 * op.m * op.n * op.k == pytest.approx(op.flop)


def test_a_total_that_is_not_positive_is_refused() -> None:
    with pytest.raises(BadRequest, match="must be positive"):
        network_work(flop=0, activation_values=1, parameters=1, kernels=1, batch=1, precision="fp16")


def test_twice_the_side_is_four_times_the_work() -> None:
    assert scaled_to(total=1.0, input_px=224, resolution=448) == 4.0


def test_tokens_of_a_vision_transformer() -> None:
    assert patch_tokens(resolution=384, patch_px=16) == 577
    assert patch_tokens(resolution=224, patch_px=14, extra=0) == 256


def test_detector_heads_outweigh_the_backbone() -> None:
    backbone = scaled_to(total=8.54e9, input_px=224, resolution=800)
    assert retinanet_flop(resolution=800, classes=264, backbone_flop=8.54e9) > 3 * backbone


@pytest.mark.parametrize(("name", "size"), [("fp32", 4), ("bf16", 2), ("int8", 1), ("awq", 2), ("nvfp4", 1)])
def test_activations_keep_at_least_a_byte(name: str, size: float) -> None:
    assert element_bytes(name) == size
