"""What each part of a machine and of an engine adds to a pass."""

import msgspec
import pytest

from tonnage import catalog
from tonnage.catalog.fitted import offline, runtime_of, silicon_of
from tonnage.catalog.likeness import die_of
from tonnage.errors import Unmeasured
from tonnage.physics.network import network_work
from tonnage.physics.work import Operator, Work
from tonnage.simulation.offline import Machine, Taken, machine_of, pass_s, peak_of

FACTS = offline()


def machine(name: str) -> Machine:
    accelerator = catalog.accelerator(name)
    die = die_of(name)
    return machine_of(
        accelerator, silicon_of(FACTS, accelerator), facts=FACTS, units=die.multiprocessors if die else None
    )


def resnet(batch: int, precision: str = "fp16") -> Work:
    return network_work(
        flop=8.2e9, activation_values=11.1e6, parameters=25.6e6, kernels=53, batch=batch, precision=precision
    )


def taken(name: str, work: Work, engine: str = "tensorrt", mode: str = "") -> Taken:
    return pass_s(work, machine=machine(name), runtime=runtime_of(FACTS, engine, mode=mode)[0], facts=FACTS)


def test_parts_sum_to_the_time_on_the_accelerator() -> None:
    found = taken("a100-sxm4-40gb", resnet(64))
    assert found.device_s == pytest.approx(found.arithmetic_s + found.traffic_s + found.start_s)
    assert found.total_s == pytest.approx(found.device_s + found.call_s)


def test_a_small_card_is_held_back_by_its_power() -> None:
    heavy = (Operator(kind="gemm", name="product", flop=1e13, m=8192, n=8192, k=8192, compute="fp16"),)
    assert taken("t4", heavy).power_bound
    share = {n: 1e13 / taken(n, heavy).device_s / machine(n).peaks["fp16"] for n in ("t4", "v100-sxm2-16gb")}
    assert 0.25 < share["t4"] < 0.45 and share["v100-sxm2-16gb"] > 0.75


def test_one_image_in_eager_mode_waits_for_the_host() -> None:
    found = taken("a100-sxm4-40gb", resnet(1), "pytorch", "eager")
    assert found.total_s == pytest.approx(found.host_s + found.call_s) and found.host_s > 2 * found.device_s


def test_a_processor_dispatches_between_operators_and_not_beside_them() -> None:
    host_s = runtime_of(FACTS, "pytorch", mode="eager")[0].host_s
    found = taken("cpu-i9-10940x", resnet(1, "fp32"), "pytorch", "eager")
    assert found.host_s == 0.0 and found.start_s > 53 * host_s
    work = resnet(1, "fp32")
    own = msgspec.structs.replace(machine("cpu-i9-10940x"), start_s=1e-6)
    alone = pass_s(work, machine=own, runtime=runtime_of(FACTS, "pytorch", mode="eager")[0], facts=FACTS)
    assert alone.start_s < 1e-3


def test_a_compiled_graph_moves_fewer_bytes() -> None:
    assert (
        taken("rtx-4090", resnet(512), "pytorch", "compile").traffic_s
        < taken("rtx-4090", resnet(512), "pytorch", "eager").traffic_s
    )


def test_element_wise_passes_start_no_kernels_in_a_fused_engine() -> None:
    passes: Work = (Operator(kind="elementwise", name="norm", count=24, read_bytes=1e6, write_bytes=1e6),)
    apart: Work = (Operator(kind="elementwise", name="group norm", count=24, read_bytes=1e6, write_bytes=1e6),)
    assert taken("a100-sxm4-40gb", passes).start_s == 0
    assert taken("a100-sxm4-40gb", apart).start_s > 0


def test_at_memory_parts_read_no_device_memory() -> None:
    assert taken("untether-speedai240", resnet(64, "fp8")).traffic_s == 0


def test_a_cache_keeps_what_fits() -> None:
    cached = machine("l40s")
    bare = msgspec.structs.replace(cached, silicon=msgspec.structs.replace(cached.silicon, cache_s=0.0))
    runtime = runtime_of(FACTS, "tensorrt")[0]
    small, large = (
        pass_s(resnet(batch), machine=cached, runtime=runtime, facts=FACTS).device_s
        / pass_s(resnet(batch), machine=bare, runtime=runtime, facts=FACTS).device_s
        for batch in (64, 1024)
    )
    assert small < large < 1


def test_unfused_attention_writes_its_scores() -> None:
    attention: Work = (
        Operator(
            kind="attention_prefill",
            name="attention",
            flop=1e10,
            read_bytes=1e7,
            write_bytes=1e7,
            m=32 * 512,
            batch=32,
            heads=16,
            head_dim=64,
            compute="fp16",
        ),
    )
    runtime = runtime_of(FACTS, "fastertransformer")[0]
    fused = msgspec.structs.replace(runtime, fused_tokens=512.0)
    unfused, kept = (
        pass_s(attention, machine=machine("a100-sxm4-40gb"), runtime=one, facts=FACTS) for one in (runtime, fused)
    )
    assert unfused.device_s > kept.device_s


def product(rows: float, name: str = "a100-sxm4-40gb") -> float:
    """Share of the part's peak that a product of so many rows reaches in its arithmetic."""
    flop = 2.0 * rows * 1024 * 1024
    work: Work = (Operator(kind="gemm", name="product", flop=flop, m=rows, n=1024, k=1024, compute="fp16"),)
    found = taken(name, work)
    return flop / found.arithmetic_s / machine(name).peaks["fp16"]


def test_few_tiles_leave_multiprocessors_idle() -> None:
    """128 x 1,024 outputs are 32 tiles of 64 x 64 for 108 multiprocessors of an A100, and for 40 of a T4."""
    assert product(128) < 0.6 * product(8192)
    assert product(128, "t4") / product(8192, "t4") > product(128) / product(8192)
    whole = machine("a100-sxm4-40gb")
    assert whole.tiles == pytest.approx(108 * FACTS.tile)


def test_rows_fewer_than_a_tile_are_not_held_to_tiles() -> None:
    assert product(8) > product(128) / 2


def test_sums_of_16_bits_double_products_of_geforce_cards_alone() -> None:
    work: Work = (Operator(kind="gemm", name="product", flop=1e12, m=8192, n=8192, k=8192, compute="fp16"),)
    default = msgspec.structs.replace(runtime_of(FACTS, "stable-fast")[0], half_sums=True)
    wide = msgspec.structs.replace(default, half_sums=False)
    gains = {}
    for name in ("rtx-4090", "a100-sxm4-40gb"):
        # Without its limit of power: what the arithmetic alone would take.
        free = msgspec.structs.replace(machine(name), power_w=None)
        fast, slow = (pass_s(work, machine=free, runtime=one, facts=FACTS).device_s for one in (default, wide))
        gains[name] = slow / fast
    assert gains["rtx-4090"] == pytest.approx(2.0, rel=0.05) and gains["a100-sxm4-40gb"] == 1.0


def test_a_part_that_holds_the_network_is_told_once_to_run_it() -> None:
    assert taken("untether-speedai240", resnet(1, "fp8"), "generic").host_s == 0.0
    assert taken("a100-sxm4-40gb", resnet(1), "generic").host_s > 1e-3


def test_ranks_pay_for_their_exchange() -> None:
    reduce: Work = (Operator(kind="all_reduce", name="all-reduce", message_bytes=1e7, ranks=2),)
    assert taken("h100-sxm5-80gb", reduce).traffic_s > 1e-5


def test_a_missing_format_takes_the_next_best_unit() -> None:
    assert peak_of({"fp16": 125.0, "fp32": 15.7}, "int8") == (125.0, "fp16")
    assert peak_of({"fp16": 125.0, "fp32": 15.7}, "bf16") == (125.0, "fp16")
    assert peak_of({"fp32": 3.0}, "fp16") == (3.0, "fp32")


def test_no_peak_at_all_is_said() -> None:
    with pytest.raises(Unmeasured, match="no peak is known for fp16"):
        peak_of({}, "fp16")


def test_pytorch_convolutions_in_fp32_run_as_tf32() -> None:
    """torch.backends.cudnn.allow_tf32 is on by default; T4 has no such unit."""
    work = resnet(256, "fp32")
    default = runtime_of(FACTS, "pytorch", mode="eager")[0]
    strict = msgspec.structs.replace(default, tf32=False)
    gains = {}
    for name in ("a100-sxm4-40gb", "t4"):
        fast, slow = (
            pass_s(work, machine=machine(name), runtime=runtime, facts=FACTS).device_s for runtime in (default, strict)
        )
        gains[name] = slow / fast
    assert gains["a100-sxm4-40gb"] > 2 and gains["t4"] == 1
