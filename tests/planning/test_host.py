"""Hosts: an engine's processes, memory, disk and network against what offers list, and what would starve."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.money import Offer, Price
from tonnage.domain.plan import Bill
from tonnage.errors import Unmeasured
from tonnage.physics.transformer import Tokens, step_work
from tonnage.planning.batch.plan import plan_batch
from tonnage.planning.board_power import WORKING_DRAW, executed_flop, serving_load
from tonnage.planning.deployment import resolve
from tonnage.planning.host import (
    energy_use,
    host_factor,
    machine_power,
    offer_of,
    serving_needs,
    serving_processes,
)
from tonnage.planning.requests.serve import batch_request, serve_request
from tonnage.planning.serve.plan import plan_serve
from tonnage.report.wording import need_text, shortages_text

OFFER = Offer(
    provider="p",
    instance_type="i",
    accelerator="h100-sxm5-80gb",
    count=8.0,
    prices=(Price(term="spot", usd_per_hour=1),),
    vcpus=32.0,
    ram_bytes=256e9,
    local_nvme_bytes=1e12,
    network_bytes_per_s=5e9,
)


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
    assert "virtual cores" in shortages_text(needs) and "RAM" not in shortages_text(needs)
    assert "too little" in need_text(needs[0]) and "too little" not in need_text(needs[1])
    assert all(
        need.has is None and need.enough is None for need in serving_needs(Layout(), weight_bytes=16e9, offer=None)
    )


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


H100 = catalog.accelerator("h100-sxm5-80gb")
BILL = Bill(
    provider="gcp",
    instance_type="a3",
    region="europe-north1",
    country="FI",
    term="on-demand",
    instances=1,
    accelerators_per_instance=8,
    usd_per_instance_hour=1.0,
    lines=(),
    as_of="2026-07-30",
)


def test_a_published_machine_is_taken_as_it_is() -> None:
    machine = machine_power(H100, count=8)
    assert machine.watts == 10_200 and machine.board_watts == 5600 and "DGX H100" in machine.source


def test_other_machines_take_the_median_host() -> None:
    part = catalog.accelerator("a10")
    middle, least, most = host_factor()
    machine = machine_power(part, count=4)
    assert part.power_w is not None and 1.2 < least < middle < most < 2.5
    assert machine.watts == pytest.approx(4 * part.power_w * middle)
    assert machine.low < machine.watts < machine.high


def test_a_what_if_on_power_is_not_hidden_by_the_published_machine() -> None:
    capped = replace(H100, power_w=400.0)
    assert machine_power(capped, count=8).watts < machine_power(H100, count=8).watts


def test_power_that_nobody_published_is_unknown() -> None:
    silent = replace(H100, id="x", power_w=None)
    with pytest.raises(Unmeasured, match=r"--set x\.power"):
        machine_power(silent, count=1)
    assert energy_use(silent, count=1, busy=1.0, bill=BILL) is None


def test_an_h100_at_work_in_finland() -> None:
    """1,275 W at the plug x 0.6 x PUE 1.1 = 842 W; 614 kWh a month; times the grid of the region."""
    use = energy_use(H100, count=1, busy=1.0, bill=BILL, output_tokens_per_s=1000)
    grid = catalog.carbon_of(country="FI", provider="gcp", region="europe-north1")
    assert use is not None and grid is not None and use.kg_co2_per_month is not None
    assert use.power_w == pytest.approx(1275 * 0.6 * 1.1)
    assert use.kwh_per_month == pytest.approx(614, rel=0.01)
    assert use.kg_co2_per_month == pytest.approx(use.kwh_per_month * grid.grams_per_kwh / 1000)
    assert use.kwh_per_million_tokens == pytest.approx(use.power_w / 3.6e6 * 1e6 / 1000)
    assert use.tokens_per_joule == pytest.approx(1000 / use.power_w)
    assert (use.board_w + use.host_w) * use.pue == pytest.approx(use.power_w)
    assert use.power_w_low < use.power_w < use.power_w_high
    assert all(use.sources)


def test_idle_draws_less_and_more_accelerators_more() -> None:
    busy = energy_use(H100, count=2, busy=1.0, bill=BILL)
    idle = energy_use(H100, count=2, busy=0.0, bill=BILL)
    more = energy_use(H100, count=4, busy=1.0, bill=BILL)
    assert busy is not None and idle is not None and more is not None
    assert 0 < idle.power_w < busy.power_w and more.power_w == pytest.approx(2 * busy.power_w)


def test_where_the_grid_is_unknown_carbon_is_absent() -> None:
    use = energy_use(H100, count=1, busy=1.0, bill=replace(BILL, provider="vast", region="", country=""))
    assert use is not None and use.kg_co2_per_month is None and use.grams_per_kwh is None


def test_boards_draw_more_the_more_they_read_and_multiply() -> None:
    at = resolve(
        ServeCase(
            model="Qwen/Qwen3-14B",
            accelerator="h100-sxm5-80gb",
            traffic=Traffic(concurrency=8.0),
            isl=250.0,
            osl=620.0,
            engine="vllm",
        )
    )

    def share(running: float, tpot_s: float) -> float:
        load = serving_load(at, running=running, tpot_s=tpot_s, requests_per_s=running / tpot_s / 620.0)
        assert load.low < load.value <= load.high <= 1.0
        return load.value

    assert share(1.0, 10.0) == pytest.approx(WORKING_DRAW, abs=0.01)
    assert WORKING_DRAW < share(1.0, 0.012) < share(64.0, 0.016) < share(192.0, 0.022) <= 1.0
    assert share(4096.0, 0.02) == 1.0


def test_experts_that_few_tokens_reach_draw_the_power_of_whole_tiles() -> None:
    """One token for eight of 128 experts: sixteen rows are multiplied for each; 4,096 tokens fill their tiles."""
    case = ServeCase(
        model="Qwen/Qwen3-30B-A3B", accelerator="h100-sxm5-80gb", traffic=Traffic(concurrency=1.0), isl=0.0, osl=1.0
    )
    p = resolve(case).placement

    def padding(decodes: float) -> float:
        tokens = Tokens(decodes=decodes, context=1.0, emitted=decodes)
        work = step_work(p.model, tokens, precision=p.precision, layout=p.layout, domain=p.domain)
        experts = [op for op in work if op.kind == "grouped_gemm"]
        return sum(executed_flop(op) for op in experts) / sum(op.flop for op in experts)

    assert padding(1.0) == pytest.approx(16.0, rel=0.05)
    assert 1.0 <= padding(4096.0) < 1.1
