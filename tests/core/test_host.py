"""Hosts: an engine's processes, memory, disk and network against what offers list, and what would starve."""

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.core.board_power import WORKING_DRAW, executed_flop, serving_load, work_load
from tonnage.core.deployment import resolve
from tonnage.core.host import (
    USUAL_LOAD,
    LoadShare,
    energy_use,
    host_factor,
    machine_draw,
    machine_power,
    offer_of,
    serving_needs,
    serving_processes,
)
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.money import Offer, Price
from tonnage.domain.plan import Bill
from tonnage.errors import Unmeasured
from tonnage.physics.transformer import Tokens, step_work
from tonnage.physics.work import Operator
from tonnage.questions.batch.plan import plan_batch
from tonnage.questions.batch.question import batch_request
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import serve_request
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
    assert offer in catalog.offers()
    assert first.needs[0].has == offer.vcpus


def test_pictures_are_decoded_by_cores_and_cross_the_bus() -> None:
    """400 pictures of 640 x 640 a second on two accelerators: 2 + 4 cores, 0.49 GB/s; decoded there: neither."""
    from tonnage.core.host import sampling_needs
    from tonnage.domain.infer_plan import Infer, Video

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


def test_an_hgx_h100_with_its_boards_at_their_limit_draws_what_was_measured_of_one() -> None:
    """arXiv 2412.08602: at most 8.4 kW of a rating of 10.2 kW, in training and under a burn-in of all boards."""
    machine = machine_power(H100, count=8)
    full = LoadShare(value=1.0, low=1.0, high=1.0, source="")
    assert machine_draw(machine, load=full).watts == machine.work_watts == pytest.approx(8400, rel=0.01)
    assert machine.board_watts < machine.work_low < machine.work_watts < machine.work_high == machine.watts


def test_without_a_workload_the_ownership_table_and_the_boards_say_the_same() -> None:
    row = catalog.parameter("server_power", "typical_load_factor")
    machine = machine_power(H100, count=8)
    for stated, load in ((row.value, USUAL_LOAD.value), (row.low, USUAL_LOAD.low), (row.high, USUAL_LOAD.high)):
        assert stated == pytest.approx(machine.work_watts * load / machine.watts, rel=0.02)


def test_other_machines_take_the_median_host() -> None:
    part = catalog.accelerator("a10")
    middle, least, most = host_factor()
    machine = machine_power(part, count=4)
    assert 1.2 < least < middle < most < 2.5
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
    """(700 W and 0.61 of 575 W around it) x 0.73 x PUE 1.1 = 844 W; 616 kWh a month; times the grid of the region."""
    use = energy_use(H100, count=1, busy=1.0, bill=BILL, output_tokens_per_s=1000)
    grid = catalog.carbon_of(country="FI", provider="gcp", region="europe-north1")
    assert use.power_w == pytest.approx((700 + 0.61 * 575) * 0.73 * 1.1)
    assert use.kwh_per_month == pytest.approx(616, rel=0.01)
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
    assert 0 < idle.power_w < busy.power_w and more.power_w == pytest.approx(2 * busy.power_w)


def test_where_the_grid_is_unknown_carbon_is_absent() -> None:
    use = energy_use(H100, count=1, busy=1.0, bill=replace(BILL, provider="vast", region="", country=""))
    assert use.kg_co2_per_month is None and use.grams_per_kwh is None


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
        work = step_work(p.model, tokens, precision=p.precision, layout=p.layout, domain=p.domain, attends=p.attends)
        experts = [op for op in work if op.kind == "grouped_gemm"]
        return sum(executed_flop(op) for op in experts) / sum(op.flop for op in experts)

    assert padding(1.0) == pytest.approx(16.0, rel=0.05)
    assert 1.0 <= padding(4096.0) < 1.1


def test_a_machine_draws_between_idle_and_its_most_whatever_it_does() -> None:
    """idle <= power <= limit, and never less for more work in the same time."""
    idle = catalog.parameter("server_power", "idle_share_of_max").value
    at = resolve(
        ServeCase(model="Qwen/Qwen3-14B", accelerator=H100.id, traffic=Traffic(concurrency=8.0), isl=250.0, osl=620.0)
    )
    most = machine_power(H100, count=1).watts
    before = 0.0
    for running, tpot_s in ((1.0, 1.0), (1.0, 0.01), (32.0, 0.012), (256.0, 0.02), (4096.0, 0.02)):
        load = serving_load(at, running=running, tpot_s=tpot_s, requests_per_s=running / tpot_s / 620.0)
        for busy in (0.0, 0.3, 1.0):
            use = energy_use(H100, count=1, busy=busy, bill=BILL, load=load)
            assert idle * most <= use.power_w / use.pue * (1 + 1e-9) <= most * (1 + 2e-9)
        assert load.value >= before
        before = load.value


def test_workers_that_only_decode_or_only_read_prompts_draw_their_own_shares() -> None:
    at = resolve(
        ServeCase(model="Qwen/Qwen3-14B", accelerator=H100.id, traffic=Traffic(concurrency=8.0), isl=2000.0, osl=200.0)
    )
    asked = {"running": 64.0, "tpot_s": 0.06, "requests_per_s": 4.0}
    one, split = serving_load(at, **asked), serving_load(at, **asked, workers=(1, 1))
    # The same work on twice the boards: each draws half of what it adds.
    assert split.value - WORKING_DRAW == pytest.approx((one.value - WORKING_DRAW) / 2.0)


def test_workers_that_do_both_beside_encoders_draw_like_replicas() -> None:
    at = resolve(
        ServeCase(model="Qwen/Qwen3-14B", accelerator=H100.id, traffic=Traffic(concurrency=8.0), isl=2000.0, osl=200.0)
    )
    one = serving_load(at, running=64.0, tpot_s=0.06, requests_per_s=4.0)
    three = serving_load(at, running=192.0, tpot_s=0.06, requests_per_s=12.0, workers=(0, 3))
    assert three.value == pytest.approx(one.value)


def test_a_network_draws_by_its_bytes_and_products() -> None:
    still = Operator(kind="elementwise", name="copy", read_bytes=H100.memory_bytes_per_s, write_bytes=0.0)
    busy = Operator(kind="gemm", name="product", compute="bf16", flop=0.3 * H100.peaks["bf16"], m=1, n=1, k=1)
    assert work_load((still,), seconds=4.0, accelerator=H100).value == pytest.approx(0.46 + 0.87 / 4.0)
    assert work_load((busy,), seconds=1.0, accelerator=H100).value == pytest.approx(0.46 + 1.06 * 0.3)
    assert work_load((still, busy), seconds=1.0, accelerator=H100).value == 1.0
