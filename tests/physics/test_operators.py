"""Seconds of one operator: which grid speaks for it, and what the generic curve says without one."""

from array import array
from math import sqrt

import pytest
from msgspec.structs import replace

from tonnage.catalog import accelerator
from tonnage.catalog.efficiency import FOLDER, ladder
from tonnage.domain.accelerator import Accelerator, Fact, Link
from tonnage.domain.efficiency import Curve, Grid, Ladder, Machine
from tonnage.domain.precision import number_format
from tonnage.errors import Unmeasured
from tonnage.physics.efficiency import cycle_s, grid_s, peak_flop_per_s
from tonnage.physics.grid_reading import _reached_experts
from tonnage.physics.operators import (
    SLOWER,
    has_skewed_table,
    operator_evidence,
    operator_s,
    timed_with_experts,
)
from tonnage.physics.work import Operator

H100 = accelerator("h100-sxm5-80gb")
GENERIC = Ladder(multiprocessors=132)


def gemm(m: float, n: float, k: float, weights: str = "bf16", compute: str = "bf16") -> Operator:
    stored = number_format(weights).bytes
    return Operator(
        kind="gemm",
        name="gemm",
        weights=weights,
        compute=compute,
        flop=2 * m * n * k,
        m=m,
        n=n,
        k=k,
        read_bytes=stored * n * k + 2 * m * k,
        write_bytes=2 * m * n,
    )


def decode(batch: float, context: float, **changes: object) -> Operator:
    fields = {"heads": 32, "kv_heads": 8, "head_dim": 128, "weights": "bf16", "window": None} | changes
    width = number_format(str(fields["weights"])).bytes
    read = min(context, float(str(fields["window"] or context)))
    return Operator(
        kind="attention_decode",
        name="decode",
        m=batch,
        batch=batch,
        context=context,
        flop=4.0 * 32 * 128 * batch * context,
        read_bytes=2 * width * 8 * 128 * batch * read,
        **fields,
    )  # type: ignore[arg-type]


def prefill(batch: float, query: float, cached: float = 0.0) -> Operator:
    rows = batch * query
    return Operator(
        kind="attention_prefill",
        name="prefill",
        m=rows,
        batch=batch,
        context=cached,
        heads=32,
        kv_heads=8,
        head_dim=128,
        flop=4.0 * 32 * 128 * rows * (cached + query / 2),
        read_bytes=rows * 2e4,
        write_bytes=rows * 8e3,
    )


OPERATORS = [
    gemm(64, 4096, 4096),
    replace(gemm(512, 1024, 2048), kind="grouped_gemm", groups=8),
    prefill(2, 1000),
    decode(16, 2000),
    replace(prefill(1, 2000), kind="mla_prefill", head_dim=192, kv_heads=32),
    replace(decode(16, 2000), kind="mla_decode", head_dim=576, kv_heads=1),
    replace(gemm(16, 1, 1), kind="state_space", batch=16, heads=32, head_dim=128, k=128),
    replace(gemm(64, 64, 64), kind="convolution"),
    Operator(kind="elementwise", name="norm", read_bytes=1e6, write_bytes=1e6),
    Operator(kind="embedding", name="embedding", read_bytes=1e6, write_bytes=1e6),
    Operator(kind="all_reduce", name="sum", message_bytes=1e6, ranks=4),
    Operator(kind="all_gather", name="gather", message_bytes=1e6, ranks=8),
    Operator(kind="reduce_scatter", name="scatter", message_bytes=1e6, ranks=8),
    Operator(kind="all_to_all", name="dispatch", message_bytes=1e6, ranks=8),
    Operator(kind="point_to_point", name="stage", message_bytes=1e6, ranks=2),
]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.kind)
@pytest.mark.parametrize("part", ["h100-sxm5-80gb", "rtx-4090", "v100-sxm2-32gb", "mi300x", "tpu-v5e"])
def test_every_kind_takes_time_on_every_part(op: Operator, part: str) -> None:
    there = accelerator(part)
    for family in ("vllm", "library", "llama.cpp"):
        seconds, rung, _ = operator_s(op, accelerator=there, ladder=ladder(there, family=family))
        assert 1e-7 < seconds < 0.1
        assert rung != "own" or part == "h100-sxm5-80gb"


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.kind)
@pytest.mark.parametrize("part", ["h100-sxm5-80gb", "rtx-4090", "mi300x"])
def test_evidence_gives_the_same_seconds_and_names_what_they_rest_on(op: Operator, part: str) -> None:
    there = accelerator(part)
    known = ladder(there)
    taken, evidence = operator_evidence(op, accelerator=there, ladder=known)
    seconds, rung, _ = operator_s(op, accelerator=there, ladder=known)
    assert taken == seconds
    if rung == "generic":
        assert evidence.tier in {"curve", "formula"}
        assert not evidence.grid
    else:
        assert evidence.tier == rung
        assert evidence.grid in known.grids
        assert (FOLDER / evidence.file.removeprefix("efficiency/")).exists()
        assert (evidence.accelerator == part) == (rung == "own")
        assert evidence.date
        assert evidence.source
    assert evidence.roofline_share == evidence.roofline_s / seconds


def test_the_roofline_of_a_product_is_the_longer_of_arithmetic_and_traffic() -> None:
    for op, bound in ((gemm(8192, 8192, 8192), "arithmetic"), (gemm(1, 8192, 8192), "memory")):
        _, evidence = operator_evidence(op, accelerator=H100, ladder=ladder(H100))
        flop_s = op.flop / peak_flop_per_s(H100, "bf16")
        assert evidence.roofline_s == max(flop_s, (op.read_bytes + op.write_bytes) / H100.memory_bytes_per_s)
        assert evidence.bound == bound


def test_a_part_without_grids_uses_the_generic_curve_and_says_so() -> None:
    assert operator_s(OPERATORS[0], accelerator=H100, ladder=GENERIC)[1] == "generic"


def test_the_generic_curve_agrees_with_the_grid_of_a_large_product() -> None:
    op = gemm(4096, 8192, 8192)
    measured, *_ = operator_s(op, accelerator=H100, ladder=ladder(H100))
    assert operator_s(op, accelerator=H100, ladder=GENERIC)[0] == pytest.approx(measured, rel=0.15)


def test_four_bit_weights_read_less_at_one_row_and_gain_nothing_at_many() -> None:
    there = ladder(H100)
    few = [operator_s(gemm(1, 8192, 8192, w), accelerator=H100, ladder=there)[0] for w in ("bf16", "awq")]
    many = [operator_s(gemm(8192, 8192, 8192, w), accelerator=H100, ladder=there)[0] for w in ("bf16", "awq")]
    assert few[1] < 0.75 * few[0]
    assert many[1] > 0.8 * many[0]


def test_a_cached_prefix_costs_as_its_flop_do() -> None:
    there = ladder(H100)
    chunk, *_ = operator_s(prefill(1, 2048, cached=14336), accelerator=H100, ladder=there)
    whole, *_ = operator_s(prefill(1, 16384), accelerator=H100, ladder=there)
    assert chunk / whole == pytest.approx(prefill(1, 2048, 14336).flop / prefill(1, 16384).flop, rel=0.35)


def test_an_eight_bit_cache_is_read_in_about_half_the_time() -> None:
    there = ladder(H100)
    wide, narrow = (
        operator_s(decode(64, 16384, weights=w), accelerator=H100, ladder=there)[0] for w in ("bf16", "fp8")
    )
    assert 0.45 * wide < narrow < 0.8 * wide


def test_uneven_routing_of_many_rows_costs_more_than_even() -> None:
    even = Operator(
        kind="grouped_gemm", name="experts", flop=2.0 * 65536 * 1536 * 2048, m=65536, n=1536, k=2048, groups=128
    )
    times = [operator_s(op, accelerator=H100, ladder=ladder(H100))[0] for op in (even, replace(even, skewed=True))]
    assert times[0] != times[1]
    assert times[1] == pytest.approx(times[0], rel=0.5)


def test_a_dtype_without_a_unit_runs_at_the_one_it_is_widened_to() -> None:
    a100 = accelerator("a100-sxm4-80gb")
    assert peak_flop_per_s(a100, "fp8") == a100.peaks["bf16"]
    with pytest.raises(Unmeasured, match=r"no published peak for bf16.*--set"):
        peak_flop_per_s(replace(a100, peaks={}), "bf16")


def test_a_power_capped_part_computes_slower_and_reads_as_fast() -> None:
    there = ladder(H100)
    capped = replace(there, sustained=0.5)
    compute, memory = gemm(8192, 8192, 8192), gemm(1, 8192, 8192)
    assert (
        operator_s(compute, accelerator=H100, ladder=capped)[0]
        > 1.8 * operator_s(compute, accelerator=H100, ladder=there)[0]
    )
    assert operator_s(memory, accelerator=H100, ladder=capped)[0] == pytest.approx(
        operator_s(memory, accelerator=H100, ladder=there)[0], rel=0.05
    )


def test_prompts_expand_their_latents_unless_their_queries_choose_keys() -> None:
    h200 = accelerator("h200-sxm-141gb")
    flop = 2.0 * 128 * 320 * 8192 * 8192 / 2
    prompt = Operator(
        kind="mla_prefill",
        name="prefill",
        weights="bf16",
        compute="bf16",
        flop=flop,
        m=8192,
        batch=1,
        heads=128,
        kv_heads=128,
        head_dim=192,
        read_bytes=1e9,
        write_bytes=3e8,
    )
    for family in ("vllm", "sglang", "trtllm"):
        there = ladder(h200, family=family)
        whole, rung, _ = operator_s(prompt, accelerator=h200, ladder=there)
        chosen, *_ = operator_s(replace(prompt, window=2048), accelerator=h200, ladder=there)
        assert rung == "own"
        assert 400e12 < flop / whole < 800e12
        assert 2.5 < chosen / whole < 4.5  # 3.4 times the arithmetic at about the same rate


def test_few_heads_of_many_prompts_fill_latent_blocks_worse_than_many_heads_of_one() -> None:
    h200 = accelerator("h200-sxm-141gb")
    there = ladder(h200, family="trtllm")
    one = Operator(
        kind="mla_prefill",
        name="prefill",
        weights="bf16",
        compute="bf16",
        flop=16 * 2048.0**2 * 320,
        m=2048,
        batch=1,
        heads=16,
        kv_heads=16,
        head_dim=192,
    )
    many = replace(one, m=16 * 2048, batch=16, heads=1, kv_heads=1)
    whole, *_ = operator_s(one, accelerator=h200, ladder=there)
    apart, *_ = operator_s(many, accelerator=h200, ladder=there)
    assert 1.1 < apart / whole < 1.5


@pytest.mark.parametrize("family", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(("n", "k"), [(5120, 8192), (8192, 4096), (8192, 3584)])
def test_few_rows_cost_what_their_weights_cost(family: str, n: int, k: int) -> None:
    """Slow rows strewn over FP8 tables of B200 (1 row in 30 us, 4 in 15) do not count: 1 to 64 rows take one time."""
    b200 = accelerator("b200-sxm-180gb")
    there = ladder(b200, family=family)
    times = [
        operator_s(replace(gemm(m, n, k), weights="fp8", compute="fp8"), accelerator=b200, ladder=there)[0]
        for m in (1, 4, 16, 64)
    ]
    assert times[-1] < 1.2 * times[0]
    assert times[-1] < 17e-6


@pytest.mark.parametrize("part", ["b200-sxm-180gb", "b300-sxm-288gb", "gb200-nvl72", "gb300-nvl72"])
@pytest.mark.parametrize(("batch", "kv_heads", "context"), [(16, 4, 4096), (64, 1, 8192), (128, 2, 2048)])
def test_engines_with_one_kernel_decode_alike(part: str, batch: int, kv_heads: int, context: int) -> None:
    """SGLang and vLLM both run TensorRT-LLM's decode kernel there; a table with rivals differed by 10 %."""
    there = accelerator(part)
    seen = batch * kv_heads * 128.0 * context
    op = Operator(
        kind="attention_decode",
        name="d",
        weights="bf16",
        compute="bf16",
        flop=32.0 * seen,
        read_bytes=4.0 * seen,
        m=batch,
        batch=batch,
        context=context,
        heads=8 * kv_heads,
        kv_heads=kv_heads,
        head_dim=128,
    )
    sglang, vllm = (
        operator_s(op, accelerator=there, ladder=ladder(there, family=family))[0] for family in ("sglang", "vllm")
    )
    assert 0.9 < sglang / vllm < 1.02


THINKS = Accelerator(
    id="thinks",
    vendor="NVIDIA",
    name="Thinks",
    architecture="Hopper",
    segment="datacenter",
    memory_bytes=1,
    memory_bytes_per_s=1e30,
    peaks={"bf16": 1000.0, "fp8": 2000.0},
    link=Link(kind="nvlink4", bytes_per_s=1.0, domain=8),
    host_link=Link(kind="pcie5", bytes_per_s=1.0),
    fact=Fact(source="a test"),
)
"""1000 FLOP/s, and memory that takes no time."""
READS = replace(THINKS, memory_bytes_per_s=100.0, peaks={"bf16": 1e30, "fp8": 1e30})
"""100 bytes/s, and arithmetic that takes no time."""
CURVE = Curve(
    launch_s=1.0,
    narrow_launch_s=5.0,
    grouped_launch_s=6.0,
    gemm={"bf16": (0.5, 0.25, 4.0), "fp8": (0.8, 0.4, 0.0)},
    dequantize=0.5,
    prefill_launch_s=7.0,
    prefill_limit=0.5,
    prefill_half=10.0,
    decode_memory=0.5,
    decode_occupancy=2.0,
    decode_launch_s=11.0,
    elementwise_memory=0.25,
    gather_memory=0.125,
    state_space_compute=0.25,
    state_space_memory=0.5,
    convolution_compute=0.2,
    convolution_memory=0.4,
)
PLAIN = Ladder(curve=CURVE, multiprocessors=10)


def spent(op: Operator, part: Accelerator, there: Ladder = PLAIN) -> float:
    return operator_s(op, accelerator=part, ladder=there)[0]


def test_generic_products_by_hand() -> None:
    op = Operator(kind="gemm", name="a", flop=8000, read_bytes=30, write_bytes=20, m=4, n=9, k=5)
    # A sixth of sqrt(4 x 9) at m0 = 4: 1 + 4 / 6. Memory: 50 bytes at a quarter of 100 a second.
    assert spent(op, THINKS) == pytest.approx(1 + 8 / 0.5 * (1 + 4 / 6))
    assert spent(op, READS) == pytest.approx(1 + 50 / 25)
    grouped = replace(op, kind="grouped_gemm", groups=2.0)  # two rows an expert: sqrt(2 x 9 x 2)
    assert spent(replace(grouped, m=8), THINKS) == pytest.approx(6 + 16 * (1 + 4 / sqrt(4 * 9 * 2)))
    assert spent(replace(op, n=0), THINKS) == pytest.approx(1 + 16)
    assert spent(replace(op, compute="fp8", weights="fp8"), THINKS) == pytest.approx(5 + 8000 / 2000 / 0.8)
    widened = replace(op, weights="awq", m=64.0, n=16 / 64.0)
    assert spent(widened, THINKS) == pytest.approx(1 + 2 * 16 * 2)  # 1 + 4 / sqrt(16)
    assert spent(op, THINKS, Ladder(curve=CURVE, sustained=0.5)) == pytest.approx(1 + 2 * 16 * (1 + 4 / 6))


def test_generic_attention_by_hand() -> None:
    # Two sequences of 2 heads x 5: 400 FLOP a squared query token, so 16000 FLOP are 20 tokens: 20 / 30 of the limit.
    prompt = Operator(
        kind="attention_prefill", name="a", flop=16000, read_bytes=60, write_bytes=15, batch=2, heads=2, head_dim=5
    )
    q = sqrt(16000 / (2 * 20))
    assert q == 20
    assert spent(prompt, THINKS) == pytest.approx(7 + 16 / (0.5 * 20 / 30))
    assert spent(prompt, READS) == pytest.approx(7 + 75 / 25)
    # 2 sequences x 2 pairs x 1280 keys in pieces of 256 over 10 processors: 2 units, 1 + 2 / 2 times the bytes.
    step = Operator(
        kind="attention_decode", name="a", flop=1000, read_bytes=60, write_bytes=15, batch=2, kv_heads=2, context=1280
    )
    assert spent(step, READS) == pytest.approx(11 + 2 * 75 / 50)
    assert spent(step, THINKS) == pytest.approx(11 + 2 * 1 / 0.5)
    assert spent(replace(step, window=640), READS) == pytest.approx(11 + 3 * 75 / 50)
    assert spent(replace(step, context=1), READS) == pytest.approx(11 + (1 + 2 / 0.05) * 75 / 50)
    assert spent(replace(step, context=12800), READS, Ladder(curve=CURVE)) == pytest.approx(11 + 2 * 75 / 50)


@pytest.mark.parametrize(
    ("kind", "reading", "thinking"),
    [
        ("elementwise", 1 + 75 / 25, 1),
        ("embedding", 1 + 75 / 12.5, 1),
        ("state_space", 3 + 75 / 50, 3 + 1 / 0.25),
        ("convolution", 1 + 75 / 40, 1 + 1 / 0.2),
    ],
)
def test_other_generic_kinds_by_hand(kind: str, reading: float, thinking: float) -> None:
    op = Operator(kind=kind, name="a", flop=1000, read_bytes=60, write_bytes=15)  # type: ignore[arg-type]
    assert spent(op, READS) == pytest.approx(reading)
    assert spent(op, THINKS) == pytest.approx(thinking)


def node(kind: str, axes: int, **changes: object) -> Grid:
    """A grid of one node without excess: times are the demand's own, over 0.8 of the machine."""
    return Grid(kind=kind, axes=((0.0,),) * axes, excess=array("h", [0]), floor_s=0.0, **changes)  # type: ignore[arg-type]


def measured(op: Operator, part: Accelerator, **grids: Grid) -> float:
    seconds, rung, _ = operator_s(op, accelerator=part, ladder=Ladder(grids=grids))
    assert rung == "own"
    return seconds * 0.8


def test_measured_products_find_their_coordinates() -> None:
    op = Operator(kind="gemm", name="a", m=4, n=9, k=5)
    assert measured(op, THINKS, **{"gemm/bf16": node("gemm", 3)}) == pytest.approx(2 * 4 * 9 * 5 / 1000)
    assert measured(op, READS, **{"gemm/bf16": node("gemm", 3)}) == pytest.approx((2 * 45 + 2 * 4 * 14) / 100)
    grouped = replace(op, kind="grouped_gemm", groups=2.0)
    experts = {"grouped_gemm/bf16": node("grouped_gemm", 3)}
    assert measured(grouped, THINKS, **experts) == pytest.approx(2 * 4 * 45 / 1000)
    assert measured(grouped, READS, **experts) == pytest.approx((2 * 2 * 45 + 2 * 4 * 14) / 100)
    touched = Operator(kind="elementwise", name="a", read_bytes=60, write_bytes=15)
    assert measured(touched, READS, elementwise=node("elementwise", 1)) == pytest.approx(0.75)


def test_measured_attention_finds_its_coordinates() -> None:
    step = Operator(kind="attention_decode", name="a", batch=3, context=20, heads=8, kv_heads=2, head_dim=16, m=3)
    grid = {"attention_decode/bf16/16": node("attention_decode", 3, width=16.0)}
    assert measured(step, THINKS, **grid) == pytest.approx(4 * 3 * 8 * 16 * 20 / 1000)
    assert measured(step, READS, **grid) == pytest.approx(6 * 16 * (2 * 2 * 20 + 4 * 4) / 100)
    assert measured(replace(step, m=6), THINKS, **grid) == pytest.approx(2 * 4 * 3 * 8 * 16 * 20 / 1000)
    assert measured(replace(step, window=5), THINKS, **grid) == pytest.approx(4 * 3 * 8 * 16 * 5 / 1000)
    latent = Operator(kind="mla_decode", name="a", batch=3, context=20, heads=8, head_dim=576)
    found = {"mla_decode/bf16": node("mla_decode", 3)}
    assert measured(latent, THINKS, **found) == pytest.approx(2 * 3 * 8 * 20 * 1088 / 1000)
    prompt = Operator(kind="attention_prefill", name="a", flop=16000, batch=2, heads=4, kv_heads=2, head_dim=5, m=20)
    there = {"attention_prefill/bf16/bf16/5": node("attention_prefill", 3, width=5.0)}
    assert measured(prompt, THINKS, **there) == pytest.approx(16)
    assert measured(prompt, READS, **there) == pytest.approx(8 * 5 * sqrt(200) * (4 + 2) / 100)


def test_measured_scans_find_their_coordinates() -> None:
    # 8 heads of 128 x 128 are 8 states of the measured size; up to four tokens a sequence are a decode.
    scan = Operator(kind="state_space", name="a", batch=2, heads=8, head_dim=128, k=128, m=8)
    both = {
        "state_space/decode": node("state_space", 2, width=1.0, weights_bytes=3.0),
        "state_space/prefill": node("state_space", 2, width=1.0, weights_bytes=7.0),
    }
    assert measured(scan, READS, **both) == pytest.approx(8 * 8 * 3 / 100)
    assert measured(replace(scan, m=10), READS, **both) == pytest.approx(16 * 5 * 7 / 100)


@pytest.mark.parametrize(
    ("weights", "compute", "grid"),
    [("awq", "bf16", 1), ("gguf-q5_k_m", "fp16", 1), ("gguf-q6_k", "fp16", 2), ("int8_weight", "bf16", 2),
     ("fp8", "bf16", 2), ("exl2-4.65bpw", "fp16", 1), ("bf16", "bf16", 3), ("awq", "fp8", None),
     ("gguf-bf16", "bf16", None)],
)  # fmt: skip
def test_weights_that_are_widened_find_the_kernel_of_their_bits(weights: str, compute: str, grid: int | None) -> None:
    op = Operator(kind="gemm", name="a", weights=weights, compute=compute, m=4, n=9, k=5)
    grids = {
        f"gemm/{name}": replace(node("gemm", 3), floor_s=float(floor))
        for name, floor in (("int4", 1), ("int8_weight", 2), ("bf16", 3))
    }
    there = Ladder(grids=grids, curve=CURVE)
    fast = replace(READS, memory_bytes_per_s=1e30)
    seconds, rung, _ = operator_s(op, accelerator=fast, ladder=there)
    assert (rung == "generic") == (grid is None)
    if grid is not None:
        assert seconds == pytest.approx(grid)


def chosen(op: Operator, *names: str) -> str:
    """The grid that speaks for an operator: each costs one more second than the one before."""
    kinds = {
        "windowed_prefill": "attention_prefill",
        "windowed_decode": "attention_decode",
        "mla_absorbed": "mla_prefill",
    }
    axes = {"state_space": 2}
    grids = {}
    for floor, name in enumerate(names, 1):
        first, *_, last = name.split("/")
        kind = kinds.get(first, first)
        width = float(last) if first.startswith("attention") else 128.0
        grids[name] = replace(node(kind, axes.get(kind, 3), width=width), floor_s=float(floor))
    fast = replace(READS, memory_bytes_per_s=1e30)
    seconds, rung, _ = operator_s(op, accelerator=fast, ladder=Ladder(grids=grids, curve=CURVE))
    return names[round(seconds) - 1] if rung == "own" else rung


def test_which_grid_speaks() -> None:
    experts = Operator(kind="grouped_gemm", name="a", m=4, n=9, k=5, groups=2)
    skew = ("grouped_gemm/bf16", "grouped_gemm/bf16/skewed")
    assert chosen(experts, *skew) == skew[0]
    assert chosen(replace(experts, skewed=True), *skew) == skew[1]
    assert chosen(replace(experts, skewed=True), skew[0]) == skew[0]
    step = Operator(kind="attention_decode", name="a", batch=1, context=64, heads=4, kv_heads=2, head_dim=96, m=1)
    widths = ("attention_decode/bf16/64", "attention_decode/bf16/112", "attention_decode/fp8/256")
    assert chosen(step, *widths) == widths[1]
    assert chosen(replace(step, head_dim=64), *widths) == widths[0]
    assert chosen(replace(step, weights="fp8"), *widths) == widths[2]
    assert chosen(replace(step, weights="fp8"), *widths[:2]) == widths[1]
    assert chosen(replace(step, compute="fp32"), *widths) == "generic"
    near = ("attention_decode/bf16/96", "windowed_decode/bf16/96/6")
    assert [chosen(replace(step, window=w), *near) for w in (16, 32, 64, 65)] == [near[0], near[1], near[1], near[0]]
    prompt = Operator(kind="attention_prefill", name="a", flop=1.0, batch=1, heads=4, kv_heads=2, head_dim=96, m=64)
    prompts = (
        "attention_prefill/bf16/bf16/96",
        "windowed_prefill/bf16/bf16/96/5",
        "attention_prefill/bf16/fp8/96",
        "attention_prefill/fp8/fp8/96",
    )
    assert chosen(prompt, *prompts) == prompts[0]
    assert [chosen(replace(prompt, window=w), *prompts) for w in (32, 63, 64)] == [prompts[1], prompts[1], prompts[0]]
    assert chosen(replace(prompt, weights="fp8"), *prompts) == prompts[2]
    assert chosen(replace(prompt, weights="fp8", compute="fp8"), *prompts) == prompts[3]
    assert chosen(replace(prompt, compute="tf32"), *prompts) == "generic"
    latent = Operator(kind="mla_prefill", name="a", flop=1.0, batch=1, heads=4, head_dim=192, m=64)
    forms = ("mla_prefill/bf16", "mla_absorbed/bf16", "mla_prefill/fp8")
    assert chosen(latent, *forms) == forms[0]
    assert chosen(replace(latent, window=8), *forms) == forms[1]
    assert chosen(replace(latent, head_dim=512), *forms) == forms[1]
    assert chosen(replace(latent, weights="fp8"), *forms) == forms[2]
    scores = Operator(kind="mla_decode", name="a", batch=1, context=64, heads=4, head_dim=128)
    cached = ("mla_decode/bf16", "mla_decode/fp8")
    assert chosen(scores, *cached) == "generic"
    assert chosen(replace(scores, head_dim=576), *cached) == cached[0]
    assert chosen(replace(scores, head_dim=576, weights="fp8"), *cached) == cached[1]
    assert chosen(replace(scores, head_dim=576, weights="fp8"), cached[0]) == cached[0]


@pytest.mark.parametrize("family", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("name", ["h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "a100-sxm4-80gb"])
@pytest.mark.parametrize(("groups", "width"), [(1.0, 8192.0), (8.0, 14336.0), (128.0, 1536.0)])
def test_fewer_bits_are_never_much_slower_than_sixteen(family: str, name: str, groups: float, width: float) -> None:
    """One untuned table is no reason: Mixtral's first product in per-tensor FP8 took 863 us where BF16 took 257."""
    part = accelerator(name)
    kernels = ladder(part, family=family)

    def seconds(weights: str, compute: str, rows: float) -> float:
        op = Operator(
            kind="grouped_gemm" if groups > 1 else "gemm",
            name="up",
            m=rows,
            n=2 * width,
            k=4096.0,
            groups=groups,
            flop=2 * rows * 2 * width * 4096.0,
            read_bytes=groups * 2 * width * 4096.0 * number_format(weights).bytes,
            weights=weights,
            compute=compute,
        )
        return operator_s(op, accelerator=part, ladder=kernels)[0]

    native = [("fp8", "fp8"), ("fp8_block", "fp8")] if "fp8" in part.peaks else []
    native += [("nvfp4", "fp4")] if "fp4" in part.peaks else []
    for rows in (groups, 16.0 * groups, 256.0 * groups):
        sixteen = seconds("bf16", "bf16", rows)
        for weights, compute in (*native, ("int4", "bf16"), ("fp8", "bf16")):
            assert seconds(weights, compute, rows) <= 1.3 * sixteen + 1e-9, (weights, rows)


@pytest.mark.parametrize("kernel", [("fp8", "fp8"), ("fp8_block", "fp8"), ("int8", "int8"), ("mxfp4", "bf16")])
@pytest.mark.parametrize(("part", "family"), [("b200-sxm-180gb", "vllm"), ("h100-sxm5-80gb", "sglang")])
@pytest.mark.parametrize("shape", [(4096.0, 7168.0, 32.0), (7168.0, 2048.0, 256.0), (28672.0, 4096.0, 8.0)])
def test_more_rows_are_never_faster(
    kernel: tuple[str, str], part: str, family: str, shape: tuple[float, float, float]
) -> None:
    """Past 4,096 rows an expert another table answered for FP8 by blocks on B200, 2.6 times sooner for more rows."""
    (weights, compute), (n, k, groups), chosen = kernel, shape, accelerator(part)
    kernels, before = ladder(chosen, family=family), 0.0
    for doubling in range(34):
        rows = groups * 2.0 ** (doubling / 2.0)
        op = Operator(
            kind="grouped_gemm", name="up", m=rows, n=n, k=k, groups=groups, flop=2 * rows * n * k,
            read_bytes=groups * n * k * number_format(weights).bytes, weights=weights, compute=compute,
        )  # fmt: skip
        seconds = operator_s(op, accelerator=chosen, ladder=kernels)[0]
        assert seconds >= 0.999 * before, rows / groups
        before = seconds


def test_a_processor_widens_experts_as_fast_as_other_weights() -> None:
    """Its cores have no tiles with weights of their own to widen: experts of 4 bits took 2.5 times those of 16."""
    part = accelerator("cpu-core-13900k")

    def seconds(weights: str) -> float:
        n, k, groups, rows = 2816.0, 2048.0, 64.0, 6144.0
        op = Operator(
            kind="grouped_gemm", name="up", m=rows, n=n, k=k, groups=groups, flop=2 * rows * n * k,
            read_bytes=groups * n * k * number_format(weights).bytes, weights=weights, compute="bf16",
        )  # fmt: skip
        return operator_s(op, accelerator=part, ladder=ladder(part))[0]

    assert seconds("int4") < 1.1 * seconds("bf16")


@pytest.mark.parametrize("name", ["a100-sxm4-80gb", "a30", "h100-sxm5-80gb", "b300-sxm-288gb"])
@pytest.mark.parametrize("family", ["vllm", "sglang"])
def test_experts_in_int8_are_not_timed_by_one_untuned_table_of_fp8(name: str, family: str) -> None:
    """vLLM's FP8 experts on H100 take 438 us for 16 of 3,584 x 4,096 at 128 rows, FP8 by blocks 102."""
    part = accelerator(name)
    kernels = ladder(part, family=family)

    def seconds(weights: str) -> float:
        n, k, groups, rows = 3584.0, 4096.0, 16.0, 128.0
        op = Operator(
            kind="grouped_gemm", name="up", m=rows, n=n, k=k, groups=groups, flop=2 * rows * n * k, skewed=True,
            read_bytes=groups * n * k * number_format(weights).bytes, weights=weights, compute=weights,
        )  # fmt: skip
        return operator_s(op, accelerator=part, ladder=kernels)[0]

    # Blackwell Ultra multiplies INT8 at a fifteenth of its BF16: no slower than the 16-bit kernel allows.
    assert seconds("int8") <= (1.3 if name == "b300-sxm-288gb" else 1.0) * seconds("bf16") + 1e-9


@pytest.mark.parametrize("weights", ["fp8", "int4", "int8_weight"])
def test_fewer_bits_are_held_against_fp16_where_units_know_no_bf16(weights: str) -> None:
    """T4: experts that the 16-bit kernel does in 4 ms took 20, for its BF16 was that of ordinary lanes."""
    part = accelerator("t4")
    kernels = ladder(part)

    def seconds(stored: str) -> float:
        n, k, groups, rows = 3584.0, 4096.0, 8.0, 3411.0
        op = Operator(
            kind="grouped_gemm", name="up", m=rows, n=n, k=k, groups=groups, flop=2 * rows * n * k, skewed=True,
            read_bytes=groups * n * k * number_format(stored).bytes, weights=stored, compute="fp16",
        )  # fmt: skip
        return operator_s(op, accelerator=part, ladder=kernels)[0]

    assert seconds(weights) <= SLOWER * seconds("fp16") + 1e-9


def test_a_table_of_even_routing_is_no_table_of_skewed_routing() -> None:
    op = Operator(kind="grouped_gemm", name="up", m=8, n=64, k=64, groups=8)
    grid = Grid(kind="grouped_gemm", axes=((0.0,), (0.0,), (0.0,)), excess=array("h", [0]), floor_s=0.0)
    assert not has_skewed_table(op, GENERIC)
    assert not has_skewed_table(op, Ladder(grids={"grouped_gemm/bf16": grid}))
    assert has_skewed_table(op, Ladder(grids={"grouped_gemm/bf16": grid, "grouped_gemm/bf16/skewed": grid}))
    assert not has_skewed_table(op, Ladder(grids={"grouped_gemm/fp8/skewed": grid}))


def test_a_borrowed_table_of_skewed_experts_reads_no_less_than_a_power_law_reaches() -> None:
    """Tables borrowed by a part with fewer multiprocessors: one token reads all of its experts, many most of them."""
    part = accelerator("gb10")
    borrowed = ladder(part, family="trtllm")
    for rows, least in ((2.0, 1.0), (64.0, 0.8)):
        groups = min(rows, 8.0)
        read = 2.0 * groups * 4096 * 14336
        op = Operator(
            kind="grouped_gemm", name="experts", flop=rows * read / groups, m=rows, n=14336, k=4096, groups=groups,
            skewed=True, read_bytes=read,
        )  # fmt: skip
        assert operator_s(op, accelerator=part, ladder=borrowed)[0] >= least * read / part.memory_bytes_per_s


@pytest.mark.parametrize(("experts", "chosen"), [(16, 2), (128, 8), (512, 10)])
def test_the_power_law_is_that_of_all_experts_not_of_those_that_even_routing_hits(experts: int, chosen: int) -> None:
    weights = [rank**-1.2 for rank in range(1, experts + 1)]
    for tokens in (2, 4, 16, 64):
        even = experts * (1.0 - (1.0 - chosen / experts) ** tokens)
        hit = sum(1.0 - (1.0 - weight / sum(weights)) ** (chosen * tokens) for weight in weights)
        assert even * _reached_experts(even, chosen * tokens) == pytest.approx(max(hit, chosen), rel=0.06)
    assert _reached_experts(float(chosen), float(chosen)) == 1.0


def test_experts_nobody_tabulated_take_the_launches_of_those_somebody_did() -> None:
    """Permuting, activation and sum come with a product of experts, in 16 bits as in 8; own kernels have one launch."""
    none = Operator(kind="grouped_gemm", name="experts", groups=8.0, m=8.0)
    amd, own = ladder(accelerator("mi300x")), ladder(accelerator("mi300x"), family="llama.cpp")
    sixteen, eight = (
        operator_s(replace(none, compute=kind, weights=kind), accelerator=accelerator("mi300x"), ladder=amd)[0]
        for kind in ("bf16", "fp8")
    )
    assert sixteen == eight == amd.curve.grouped_launch_s > 3 * own.curve.grouped_launch_s


def test_no_table_of_weights_beats_the_memory_that_they_come_from() -> None:
    """RTX PRO 6000 repeats 10 MB of weights from its L2 of 128 MB, above its memory; models read a layer's anew."""

    def over_memory(op: Operator, name: str) -> float:
        part = accelerator(name)
        seconds, *_ = operator_s(op, accelerator=part, ladder=ladder(part, family="trtllm"))
        return op.read_bytes / part.memory_bytes_per_s / seconds

    small, measured = gemm(1, 1280, 4096), accelerator("rtx-pro-6000-bw-server")
    machine = Machine(peak_flop_per_s=measured.peaks["bf16"], memory_bytes_per_s=measured.memory_bytes_per_s)
    grid = ladder(measured, family="trtllm").grids["gemm/bf16"]
    repeated_s = grid_s(grid, (1280.0, 4096.0, 1.0), machine=machine, weights_bytes=2.0, width=1.0)
    assert small.read_bytes / measured.memory_bytes_per_s / repeated_s > 1.05
    for name in (measured.id, "jetson-thor-t5000"):
        for m, n, k in ((1, 1280, 4096), (16, 8192, 256), (16, 4096, 4096), (16, 288, 8192)):
            assert over_memory(gemm(m, n, k), name) <= 1.0 + 1e-9


def test_experts_that_two_other_engines_contradict_take_little_more_than_theirs() -> None:
    """TensorRT-LLM's table of 16 experts on H100 is 2.9 times their bytes, SGLang's and vLLM's of the same part 1.5."""
    size, groups, rows = 14336.0 * 4096.0, 16.0, 4.0
    experts = Operator(
        kind="grouped_gemm", name="experts", weights="bf16", compute="bf16", n=14336.0, k=4096.0, m=groups * rows,
        groups=groups, chosen=1.0, experts=16.0, skewed=True, flop=2.0 * groups * rows * size,
        read_bytes=2.0 * groups * size,
    )  # fmt: skip
    taken = {
        name: operator_s(experts, accelerator=H100, ladder=ladder(H100, family=name))[0]
        for name in ("trtllm", "sglang", "vllm")
    }
    grid = ladder(H100, family="trtllm").grids["grouped_gemm/bf16/skewed"]
    machine = Machine(peak_flop_per_s=H100.peaks["bf16"], memory_bytes_per_s=H100.memory_bytes_per_s)
    alone = grid_s(grid, (size, groups, rows), machine=machine, weights_bytes=2.0, width=14336.0 + 4096.0)
    assert alone > 1.5 * max(taken["sglang"], taken["vllm"])
    assert taken["trtllm"] == pytest.approx(SLOWER * max(taken["sglang"], taken["vllm"]))


def test_cards_without_tables_read_gddr_as_cards_with_tables_do() -> None:
    large = gemm(1, 28672, 8192)
    read_s = large.read_bytes / 1e9

    def share(name: str, family: str = "vllm") -> float:
        part = accelerator(name)
        seconds, rung, _ = operator_s(large, accelerator=part, ladder=ladder(part, family=family))
        assert rung == "generic"
        return read_s / (part.memory_bytes_per_s / 1e9) / seconds

    for card in ("radeon-pro-w7900", "rx-7900-xtx", "arc-a770-16gb"):
        assert share(card) == pytest.approx(0.94, abs=0.01)
    assert share("mi300a") == pytest.approx(0.8, abs=0.02)
    # What llama.cpp's own kernels reach on AMD's cards was fitted over the plain curve; on NVIDIA's nothing was.
    assert share("rx-7900-xtx", "llama.cpp") == pytest.approx(0.81, abs=0.01)
    assert share("rtx-4090", "llama.cpp") == pytest.approx(0.94, abs=0.01)


@pytest.mark.parametrize(
    ("family", "weights", "compute", "inside"),
    [
        ("vllm", "mxfp4", "bf16", True),
        ("vllm", "bf16", "bf16", False),
        ("vllm", "fp8_block", "fp8", False),
        ("trtllm", "bf16", "bf16", True),
        ("sglang", "mxfp4", "bf16", True),  # its own timed them widened to 16 bits: vLLM's
        ("lmdeploy", "mxfp4", "bf16", True),  # borrows vLLM's
        ("llama.cpp", "mxfp4", "bf16", False),
    ],
)
def test_which_tables_of_experts_begin_at_the_routers_logits(
    family: str, weights: str, compute: str, inside: bool
) -> None:
    chosen = Operator(kind="routing", name="top-k", weights=weights, compute=compute, read_bytes=1e4)
    assert timed_with_experts(chosen, ladder(H100, family=family)) == inside
    apart = replace(chosen, kind="elementwise")
    assert operator_s(chosen, accelerator=H100, ladder=GENERIC) == operator_s(apart, accelerator=H100, ladder=GENERIC)


def experts(tokens: float, weights: str, compute: str) -> Operator:
    """The first product of gpt-oss-120b's experts: four of 128 for each token."""
    rows, stored = 4 * tokens, number_format(weights).bytes
    return Operator(
        kind="grouped_gemm",
        name="experts up",
        weights=weights,
        compute=compute,
        flop=2 * rows * 5760 * 2880,
        m=rows,
        n=5760,
        k=2880,
        groups=min(128.0, rows),
        read_bytes=min(128.0, rows) * stored * 5760 * 2880 + 2 * rows * 2880,
        write_bytes=2 * rows * 5760,
    )


@pytest.mark.parametrize("part", ["mi300x", "mi355x", "max-1550"])
def test_experts_of_4_bits_that_are_widened_cost_lanes_and_half_of_the_arithmetic(part: str) -> None:
    card = accelerator(part)
    served, own = ladder(card), ladder(card, family="llama.cpp")
    for tokens in (16.0, 256.0, 4096.0, 32768.0):
        widened, plain = (
            operator_s(experts(tokens, name, "bf16"), accelerator=card, ladder=served)[0] for name in ("mxfp4", "bf16")
        )
        # Fewer bytes while bytes bind; each tile of rows widens its weights again where arithmetic does.
        assert 0.25 < widened / plain < 2.6
    assert widened / plain == pytest.approx(1 / 0.4, rel=0.05)
    few = experts(16.0, "mxfp4", "bf16")
    assert operator_s(few, accelerator=card, ladder=served)[0] > few.read_bytes / (
        4.3 * card.memory_bytes_per_s
    ) + 0.08 * few.read_bytes * cycle_s(card)
    # Products in 8 bits, dense ones and engines with kernels of their own are as they were.
    bare = replace(served, curve=replace(served.curve, widened_experts=0.95, widened_cycles=0.0))
    for op in (experts(256.0, "mxfp4", "fp8"), gemm(256, 5760, 2880, "awq")):
        assert operator_s(op, accelerator=card, ladder=served) == operator_s(op, accelerator=card, ladder=bare)
    assert own.curve.widened_cycles == 0.0


@pytest.mark.parametrize("part", ["h100-sxm5-80gb", "h200-sxm-141gb"])
def test_sglang_serves_experts_in_mxfp4_as_vllm_does_on_hopper(part: str) -> None:
    card = accelerator(part)
    for tokens in (1.0, 64.0, 1024.0):
        op = experts(tokens, "mxfp4", "bf16")
        by = [operator_evidence(op, accelerator=card, ladder=ladder(card, family=name)) for name in ("sglang", "vllm")]
        assert by[0][0] == by[1][0] and "vllm" in by[0][1].source
