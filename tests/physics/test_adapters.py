"""Adapters beside a model, and weights beside the accelerator."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.layout import Layout
from tonnage.errors import BadRequest
from tonnage.physics.adapters import (
    adapter_bytes,
    adapter_names,
    adapter_work,
    distinct_adapters,
    lru_miss_rate,
    popularity,
)
from tonnage.physics.offload import CROSSING_S, LINK_SHARE, STAGED_SHARE, offloaded_prefill_s, offloaded_token_s

LLAMA = resolve("llama-3.1-8b")
counts, skews = st.integers(1, 3000), st.floats(0.0, 2.0)


@pytest.mark.parametrize(
    ("name", "targets", "published"),
    [
        # Trainable parameters as PEFT prints them, rank 16 on all linear layers and rank 8 on queries and values.
        ("llama-3.1-8b", (), 41_943_040),
        ("llama-2-7b", (), 39_976_960),
        ("llama-2-7b", ("q_proj", "v_proj"), 8_388_608),
    ],
)
def test_parameters_are_those_that_peft_prints(name: str, targets: tuple[str, ...], published: int) -> None:
    assert adapter_bytes(resolve(name), rank=16, targets=targets) == 2 * published


def test_ranks_of_a_replica_hold_half_of_each_pair_whole() -> None:
    whole = adapter_bytes(LLAMA, rank=16)
    cut = adapter_bytes(LLAMA, rank=16, layout=Layout(tp=4))
    assert whole == 2 * 41_943_040
    assert whole / 4 < cut < whole
    assert adapter_bytes(LLAMA, rank=16, layout=Layout(tp=4, pp=2)) == cut / 2


def test_a_step_runs_two_kernels_for_each_of_four_products_and_reads_each_adapter_once() -> None:
    work = adapter_work(LLAMA, rank=16, targets=(), layout=Layout(), rows=0.0, distinct=5.0)
    assert sum(op.count for op in work) == 32 * 4 * 2
    assert sum(op.count * op.read_bytes for op in work) == pytest.approx(5.0 * adapter_bytes(LLAMA, rank=16))
    one = adapter_work(LLAMA, rank=16, targets=("v_proj",), layout=Layout(), rows=1.0, distinct=1.0)
    assert sum(op.count for op in one) == 32 * 2
    assert {"q_proj", "gate_proj", "up_proj", "down_proj"} <= set(adapter_names(LLAMA))


@given(count=counts, skew=skews)
def test_shares_sum_to_one_and_fall(count: int, skew: float) -> None:
    classes = popularity(count, skew)
    assert sum(members for members, _ in classes) == count
    assert sum(members * share for members, share in classes) == pytest.approx(1.0)
    assert all(b <= a * (1.0 + 1e-9) for (_, a), (_, b) in pairwise(classes))


def test_classes_of_unpopular_adapters_lose_nothing() -> None:
    weights = [i**-0.9 for i in range(1, 2001)]
    exact = sum(1.0 - (1.0 - w / sum(weights)) ** 256 for w in weights)
    assert distinct_adapters(count=2000, skew=0.9, sequences=256) == pytest.approx(exact, rel=1e-4)


@given(count=counts, more=st.integers(0, 500), skew=skews, sequences=st.floats(1.0, 2000.0))
def test_more_adapters_or_sequences_are_never_fewer_different_ones(
    count: int, more: int, skew: float, sequences: float
) -> None:
    found = distinct_adapters(count=count, skew=skew, sequences=sequences)
    assert 1.0 - 1e-9 <= found <= min(count, sequences) + 1e-9
    assert distinct_adapters(count=count + more, skew=skew, sequences=sequences) >= found * (1.0 - 1e-4)
    assert distinct_adapters(count=count, skew=skew, sequences=sequences + more) >= found


@given(count=counts, slots=st.integers(1, 300), skew=skews)
def test_more_slots_miss_less_and_enough_miss_nothing(count: int, slots: int, skew: float) -> None:
    found = lru_miss_rate(count=count, skew=skew, slots=slots)
    assert 0.0 <= found <= 1.0
    assert lru_miss_rate(count=count, skew=skew, slots=slots + 1) <= found + 1e-9
    assert (found == 0.0) == (slots >= count) or found < 1e-6
    assert lru_miss_rate(count=count + 50, skew=skew, slots=slots) >= found - 1e-4


@pytest.mark.parametrize("skew", [0.0, 0.8, 1.2])
def test_misses_are_those_of_a_played_cache(skew: float) -> None:
    draw = random.Random(7)
    names = range(200)
    asked = draw.choices(names, weights=[(i + 1) ** -skew for i in names], k=40_000)
    kept: dict[int, None] = {}
    missed = 0
    for place, name in enumerate(asked):
        missed += place >= 5_000 and name not in kept
        kept.pop(name, None)
        kept[name] = None
        if len(kept) > 24:
            del kept[next(iter(kept))]
    assert lru_miss_rate(count=200, skew=skew, slots=24) == pytest.approx(missed / 35_000, abs=0.012)


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
def test_a_prompt_takes_its_own_time_the_link_and_the_copy_before_it(device: float, moved: float, pieces: int) -> None:
    link, host = 31.5e9, 102.4e9

    def took(staged: float) -> float:
        return offloaded_prefill_s(
            device_s=device,
            moved_bytes=moved,
            pieces=pieces,
            link_bytes_per_s=link,
            link_share=LINK_SHARE,
            staged_bytes_per_s=staged,
        )

    pinned, mapped = took(math.inf), took(STAGED_SHARE * host)
    assert pinned == pytest.approx(device + pieces * moved / (LINK_SHARE * link))
    assert mapped - pinned == pytest.approx(pieces * moved / (STAGED_SHARE * host), abs=1e-9 * mapped)


def test_mapped_weights_reach_the_device_as_slowly_as_published() -> None:
    """128 tokens a piece: 543.7 tokens/s pinned, 298.3 mapped (llama.cpp 20978); its host is taken as DDR5-5600."""
    moved, link = 10.9e9, 63e9

    def took(staged: float) -> float:
        return offloaded_prefill_s(
            device_s=0.02, moved_bytes=moved, pieces=1, link_bytes_per_s=link, link_share=LINK_SHARE,
            staged_bytes_per_s=staged,
        )  # fmt: skip

    assert took(math.inf) / took(STAGED_SHARE * 89.6e9) == pytest.approx(298.28 / 543.68, rel=0.05)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(BadRequest):
        offloaded_token_s(device_s=1, host_s=1, host_share=share, crossings=0, crossing_s=0)
    with pytest.raises(BadRequest):
        offloaded_prefill_s(
            device_s=1, moved_bytes=1, pieces=1, link_bytes_per_s=1, link_share=share, staged_bytes_per_s=1
        )
