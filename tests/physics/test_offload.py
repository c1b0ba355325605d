"""Two memories share a model: nothing moved, everything moved, and all between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import BadRequest
from tonnage.physics.offload import CROSSING_S, LINK_SHARE, offloaded_prefill_s, offloaded_token_s

times = st.floats(1e-4, 10.0)
shares = st.floats(0.0, 1.0)


@given(device=times, host=times)
def test_the_ends_are_the_plain_predictions(device: float, host: float) -> None:
    for share, plain in ((0.0, device), (1.0, host)):
        found = offloaded_token_s(device_s=device, host_s=host, host_share=share, crossings=40, crossing_s=CROSSING_S)
        assert found == pytest.approx(plain)


@given(device=times, slower=st.floats(1.0, 100.0), a=shares, b=shares)
def test_moving_more_to_a_slower_memory_never_gains(device: float, slower: float, a: float, b: float) -> None:
    less, more = sorted((a, b))
    low, high = (
        offloaded_token_s(device_s=device, host_s=device * slower, host_share=share, crossings=0, crossing_s=CROSSING_S)
        for share in (less, more)
    )
    assert high >= low * (1 - 1e-12)


@given(device=times, host=times, share=st.floats(0.01, 0.99))
def test_a_faster_host_never_loses_and_its_share_bounds_the_time(device: float, host: float, share: float) -> None:
    slow = offloaded_token_s(device_s=device, host_s=host, host_share=share, crossings=10, crossing_s=CROSSING_S)
    fast = offloaded_token_s(device_s=device, host_s=host / 2, host_share=share, crossings=10, crossing_s=CROSSING_S)
    assert fast < slow
    assert slow >= share * host


@given(device=times, moved=st.floats(0.0, 1e12), pieces=st.integers(1, 1000))
def test_a_prompt_takes_its_own_time_and_the_link(device: float, moved: float, pieces: int) -> None:
    found = offloaded_prefill_s(
        device_s=device, moved_bytes=moved, pieces=pieces, link_bytes_per_s=31.5e9, link_share=LINK_SHARE
    )
    assert found == pytest.approx(device + pieces * moved / (LINK_SHARE * 31.5e9))


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(BadRequest):
        offloaded_token_s(device_s=1, host_s=1, host_share=share, crossings=0, crossing_s=0)
    with pytest.raises(BadRequest):
        offloaded_prefill_s(device_s=1, moved_bytes=1, pieces=1, link_bytes_per_s=1, link_share=share)
