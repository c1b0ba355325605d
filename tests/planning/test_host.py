"""Hosts: an engine's processes, memory, disk and network against what offers list, and what would starve."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.layout import Layout
from tonnage.domain.money import Offer, Price
from tonnage.planning.batch.plan import plan_batch
from tonnage.planning.host import offer_of, serving_needs, serving_processes
from tonnage.planning.requests.batch import batch_request
from tonnage.planning.requests.serve import serve_request
from tonnage.planning.serve.plan import plan_serve
from tonnage.report.wording import need_text, starving

OFFER = Offer(
    provider="p", instance_type="i", accelerator="h100-sxm5-80gb", count=8.0,
    prices=(Price(term="spot", usd_per_hour=1),),
    vcpus=32.0, ram_bytes=256e9, local_nvme_bytes=1e12, network_bytes_per_s=5e9,
)  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "processes"), [(Layout(), 3), (Layout(tp=4), 6), (Layout(tp=2, pp=2), 6), (Layout(dp=4, ep=4), 13)]
)
def test_an_engine_is_so_many_processes(layout: Layout, processes: int) -> None:
    assert serving_processes(layout) == processes


def test_replicas_side_by_side_need_more_cores_than_one_large_one() -> None:
    small, large = (serving_needs(Layout(tp=tp), weight_bytes=16e9, offer=OFFER)[0].need for tp in (1, 8))
    assert (small, large) == (24, 10)


def test_a_replica_of_two_instances_has_half_of_its_processes_on_each() -> None:
    cores = serving_needs(Layout(tp=8, pp=2), weight_bytes=200e9, offer=OFFER)[0]
    assert cores.need == 9


def test_what_is_too_little_is_named_and_what_is_not_listed_is_no_verdict() -> None:
    poor = replace(OFFER, vcpus=8.0, ram_bytes=None)
    needs = serving_needs(Layout(), weight_bytes=16e9, offer=poor)
    assert [need.enough for need in needs] == [False, None, True, True]
    assert "virtual cores" in starving(needs) and "RAM" not in starving(needs)
    assert "too little" in need_text(needs[0]) and "too little" not in need_text(needs[1])
    assert all(need.has is None and need.enough is None for need in serving_needs(
        Layout(), weight_bytes=16e9, offer=None))  # fmt: skip


def test_every_option_of_a_plan_says_what_its_host_must_bring() -> None:
    model = "meta-llama/Llama-3.1-8B-Instruct"
    served = plan_serve(serve_request({"model": model, "rate": "4/s", "accelerator": "L4,H100", "quick": True}))
    batch = plan_batch(batch_request({"model": model, "items": "1M", "accelerator": "L4"}))
    for option in (*served.options, *batch.options):
        assert [need.name.split(" ")[0] for need in option.needs] == ["virtual", "RAM", "disk", "network"]
    first = served.options[0]
    offer = offer_of(first.bill)
    assert offer is not None and offer in catalog.offers()
    assert first.needs[0].has == offer.vcpus


def test_pictures_are_decoded_by_cores_and_cross_the_bus() -> None:
    """400 pictures of 640 x 640 a second on two accelerators: 2 + 4 cores, 0.49 GB/s; decoded there: neither."""
    from tonnage.domain.infer_plan import Infer, Video
    from tonnage.planning.host import sampling_needs

    def needs(request: Infer) -> dict[str, tuple[float, bool | None]]:
        found = sampling_needs(request, per=2.0, rate_per_s=400.0, weight_bytes=1e9, link_bytes_per_s=1e8, offer=None)
        return {one.name: (one.need, one.enough) for one in found}

    pictures = needs(Infer(model="m", rate_per_s=400.0, resolution=640))
    assert pictures["virtual cores per instance"] == (6.0, None)
    assert pictures["to the accelerators per instance"] == (400.0 * 640 * 640 * 3, False)
    assert pictures["RAM per instance"][0] == 2 * 2 * 2**30 + 1e9
    video = Infer(model="m", rate_per_s=400.0, resolution=640, video=Video(streams=16, frames_per_s=25.0))
    assert set(needs(video)) == {"virtual cores per instance", "RAM per instance"}
    assert needs(video)["virtual cores per instance"][0] == 2.0
