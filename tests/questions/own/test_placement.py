"""Below a plan of owned accelerators: names that people type, what is moved to the host, layers over unlike cards."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.core.machine import is_unified, machine_named, processor_named, read_owned
from tonnage.domain.precision import Precision
from tonnage.errors import BadRequest, TonnageError, UnknownName
from tonnage.physics.power_cap import capped_clock
from tonnage.questions.own.speed import Shares, place_layers, shares_of, smallest_placement
from tonnage.questions.own.unlike import Device, experts_moved, fill_fastest, share_evenly
from tonnage.units import GiB


def counted(name: str, weights: str = "gguf-q4_k_m") -> Shares:
    model = catalog.model(name)
    precision = Precision(weights=weights, kv="fp16", activations="fp16")
    return shares_of(model, precision, cache_bytes=1e9, depth=1024, piece_tokens=512)


MIXTURE, DENSE = counted("Qwen/Qwen3-30B-A3B"), counted("Qwen/Qwen3-32B")


def test_nothing_moves_where_there_is_room() -> None:
    for shares in (MIXTURE, DENSE):
        found = smallest_placement(shares, short_by=-1.0)
        assert (found.moved_bytes, found.read_share) == (0.0, 0.0)


def test_experts_go_first_and_cost_less_than_their_share() -> None:
    found = smallest_placement(MIXTURE, short_by=8e9)
    assert found.layers == 0
    assert found.moved_bytes >= 8e9
    assert found.read_share < found.moved_bytes / (MIXTURE.expert_bytes + MIXTURE.layer_bytes)


def test_a_token_of_a_mixture_reads_the_active_share() -> None:
    assert MIXTURE.read_expert_bytes == pytest.approx(MIXTURE.expert_bytes * 8 / 128)
    assert DENSE.read_expert_bytes == DENSE.expert_bytes == 0.0


@given(short=st.floats(1.0, 40e9), more=st.floats(0.0, 10e9))
@pytest.mark.parametrize("shares", [MIXTURE, DENSE], ids=["mixture", "dense"])
def test_what_is_moved_is_enough_least_and_monotone(shares: Shares, short: float, more: float) -> None:
    found, further = smallest_placement(shares, short_by=short), smallest_placement(shares, short_by=short + more)
    if found is None:
        assert further is None
        return
    assert found.moved_bytes >= short * (1 - 1e-9)
    less = (
        place_layers(shares, layers=found.layers, expert_layers=found.expert_layers - 1)
        if not found.layers
        else place_layers(shares, layers=found.layers - 1, expert_layers=found.expert_layers)
    )
    assert less.moved_bytes < short
    if further is not None:
        assert further.read_share >= found.read_share
        assert further.moved_bytes >= found.moved_bytes


def test_all_layers_are_everything() -> None:
    found = place_layers(MIXTURE, layers=MIXTURE.layers, expert_layers=0)
    assert found.read_share == 1.0
    assert found.expert_layers == 0


def test_too_large_for_any_placement() -> None:
    assert smallest_placement(DENSE, short_by=1e12) is None


@settings(max_examples=80, deadline=None)
@given(
    cards=st.lists(st.tuples(st.floats(1e-4, 1e-2), st.integers(0, 60)), min_size=1, max_size=5),
    layers=st.integers(1, 100),
)
def test_no_other_split_is_faster(cards: list[tuple[float, int]], layers: int) -> None:
    devices = [Device(name="x", layer_s=s, most_layers=n) for s, n in cards]
    for split in (fill_fastest(devices, layers), share_evenly(devices, layers)):
        assert sum(split.layers) + split.host_layers == layers
        assert all(n <= d.most_layers for n, d in zip(split.layers, devices, strict=True))
        assert split.host_layers == max(0, layers - sum(d.most_layers for d in devices))
    single, even = fill_fastest(devices, layers), share_evenly(devices, layers)
    alone = [sum(n * d.layer_s for n, d in zip(one.layers, devices, strict=True)) for one in (single, even)]
    worst = [max(n * d.layer_s for n, d in zip(one.layers, devices, strict=True)) for one in (single, even)]
    assert alone[0] <= alone[1] * (1 + 1e-9) and worst[1] <= worst[0] * (1 + 1e-9)
    for i, j in ((i, j) for i in range(len(devices)) for j in range(len(devices)) if i != j):
        if even.layers[i] and even.layers[j] < devices[j].most_layers:  # no layer is better off elsewhere
            assert (even.layers[j] + 1) * devices[j].layer_s >= worst[1] * (1 - 1e-9) or (
                even.layers[i] * devices[i].layer_s < worst[1] * (1 - 1e-9)
            )


@given(st.floats(0.2, 1.2), st.floats(0.0, 1.0))
def test_over_unlike_cards_experts_go_and_every_layer_stays(held: float, first: float) -> None:
    """The fewest experts that leave every layer its place; a dense model has none to give."""
    movable = MIXTURE.expert_bytes + MIXTURE.layer_bytes + MIXTURE.cache_bytes
    rooms = [held * first * movable, held * (1.0 - first) * movable]
    found = experts_moved(MIXTURE, movable, rooms=rooms)
    if found is not None:
        offload, split = found
        assert (offload.layers, sum(split.layers)) == (0, MIXTURE.layers)
        most = (movable - sum(rooms)) / MIXTURE.expert_bytes * MIXTURE.expert_layers
        assert offload.expert_layers >= max(1.0, most)
    assert experts_moved(DENSE, movable, rooms=rooms) is None


def test_all_the_power_is_all_the_clock() -> None:
    assert capped_clock(power_share=1.0) == 1.0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("RTX 4090", [(1, "rtx-4090")]),
        ("NVIDIA GeForce RTX 3060", [(1, "rtx-3060-12gb")]),
        ("RTX 4060 8GB", [(1, "rtx-4060")]),
        ("3090 Ti", [(1, "rtx-3090-ti")]),
        ("2x 3090", [(2, "rtx-3090")]),
        ("2 RTX 3090", [(2, "rtx-3090")]),
        ("two RTX 3090s and a 4090", [(2, "rtx-3090"), (1, "rtx-4090")]),
        ("dual 3090", [(2, "rtx-3090")]),
        ("RTX 3090 x2", [(2, "rtx-3090")]),
        ("four L40S", [(4, "l40s")]),
        ("2 RTX 3090 + 1 4090", [(2, "rtx-3090"), (1, "rtx-4090")]),
        ("2x3090+1x4090", [(2, "rtx-3090"), (1, "rtx-4090")]),
        ("RTX 3090 and 2 4090", [(1, "rtx-3090"), (2, "rtx-4090")]),
        ("8 x A100 80GB, 4 x L40S", [(8, "a100-sxm4-80gb"), (4, "l40s")]),
        ("A6000 + RTX 3090", [(1, "rtx-a6000"), (1, "rtx-3090")]),
        ("Ryzen AI Max 395", [(1, "radeon-8060s")]),
        ("AMD Ryzen AI Max+ 395 w/ Radeon 8060S", [(1, "radeon-8060s")]),
        ("DGX Spark", [(1, "gb10")]),
        ("AMD Ryzen 9 5950X 16-Core Processor", [(1, "cpu-ryzen-5950x")]),
        ("13th Gen Intel(R) Core(TM) i9-13900K", [(1, "cpu-core-13900k")]),
    ],
)
def test_a_name_is_read(text: str, found: list[tuple[int, str]]) -> None:
    assert [(group.count, group.part and group.part.id) for group in read_owned(text)] == found


@pytest.mark.parametrize(
    ("text", "part", "gib"),
    [
        ("M4 Max 64GB", "m4-max", 64),
        ("MacBook Pro M4 Pro 48GB", "m4-pro", 48),
        ("Mac Studio M3 Ultra 512GB", "m3-ultra", 512),
    ],
)
def test_a_memory_size_is_that_of_a_part_sold_with_several(text: str, part: str, gib: float) -> None:
    found = read_owned(text)[0].part
    assert (found.id, found.memory_bytes) == (part, gib * GiB)
    assert is_unified(found)


def test_a_stated_memory_is_the_size_that_is_sold_and_no_assumption() -> None:
    machine = machine_named("M3 Ultra", memory_bytes=96e9)
    assert machine.device is not None and machine.device.memory_bytes == 96 * GiB
    assert machine.title == "M3 Ultra (80-core GPU), 96 GB"


def test_the_processor_alone() -> None:
    assert read_owned("CPU")[0].part is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RTX 4090 48GB", "has 24 GiB"),
        ("3050 laptop", "no accelerator"),
        ("Apple M4 Mega", "no accelerator"),
        ("0 x H100", "between 1 and"),
        ("8x", "a count without a name"),
        ("99999 x H100", "between 1 and"),
        ("M4 Max 9999GB", "no size"),
        ("M3 Ultra 300GB", "sold with 96, 256 or 512 GB"),
        ("M4 Max 36GB", "'m4-max-32core' with 36 GB"),
        ("", "kinds of accelerator"),
        ("a," * 100, "kinds of accelerator"),
        ("x" * 1000, "characters"),
        ("WSE-3", "not published"),
    ],
)
def test_a_name_that_means_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(TonnageError, match=words):
        read_owned(text)


@pytest.mark.parametrize("text", ["Intel(R) Xeon(R) CPU @ 2.60GHz", "AMD EPYC", "RTX 4090", "x" * 300])
def test_an_unknown_processor_is_absent(text: str) -> None:
    assert processor_named(text) is None


def test_errors_are_of_the_kind_that_their_callers_know() -> None:
    assert issubclass(UnknownName, BadRequest)
