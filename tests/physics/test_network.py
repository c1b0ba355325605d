"""A network known by its totals keeps them, whatever the layers, batch and resolution."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import BadRequest
from tonnage.physics.network import element_bytes, network_work, patch_tokens, retinanet_flop, scaled_to


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
