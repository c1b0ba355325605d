"""Which measured grid answers for a kernel of attention over a cache in FP8."""

from msgspec.structs import replace

from tonnage.catalog import accelerator
from tonnage.catalog.efficiency import ladder
from tonnage.physics.grid_reading import prompt, stored_over
from tonnage.physics.operators import operator_evidence, operator_s, roofline_of
from tonnage.physics.work import Operator

QUERY = 16384.0
PROMPT = Operator(
    kind="attention_prefill",
    name="prefill",
    weights="fp8",
    compute="fp8",
    flop=2.0 * 32 * 128 * QUERY * QUERY,
    read_bytes=2.0 * 8 * 128 * QUERY,
    m=QUERY,
    batch=1,
    heads=32,
    kv_heads=8,
    head_dim=128,
)


def key(op: Operator, part: str, family: str) -> tuple[str, str]:
    there = accelerator(part)
    _, evidence = operator_evidence(op, accelerator=there, ladder=ladder(there, family=family))
    return evidence.grid, evidence.file.split(".")[-2]


def test_an_engine_reads_its_own_table_of_such_a_cache_before_anothers_of_the_same_arithmetic() -> None:
    h100 = "h100-sxm5-80gb"
    assert key(PROMPT, h100, "trtllm") == ("attention_prefill/fp8/fp8/128", "trtllm")
    assert key(PROMPT, h100, "sglang") == ("attention_prefill/fp8/fp8/128", "sglang")
    assert key(PROMPT, h100, "vllm") == ("attention_prefill/bf16/fp8/128", "vllm")
    assert key(replace(PROMPT, compute="bf16"), h100, "trtllm") == ("attention_prefill/bf16/fp8/128", "trtllm")
    assert key(replace(PROMPT, weights="bf16", compute="bf16"), h100, "sglang")[0] == "attention_prefill/bf16/bf16/128"


def test_no_part_borrows_a_16_bit_cache_where_one_of_8_bits_was_timed() -> None:
    a100 = accelerator("a100-sxm4-80gb")
    found = prompt(replace(PROMPT, compute="bf16"), ladder(a100, family="vllm"))
    assert found is not None and found[0].weights_bytes == 1.0


def test_a_grid_is_read_over_the_arithmetic_it_was_stored_over() -> None:
    h100 = accelerator("h100-sxm5-80gb")
    known = ladder(h100, family="trtllm")
    step = Operator(
        kind="attention_decode", name="a", weights="fp8", compute="fp8", flop=4.0 * 32 * 128 * 64 * 4096,
        read_bytes=2.0 * 8 * 128 * 64 * 4096, m=64, batch=64, context=4096, heads=32, kv_heads=8, head_dim=128,
    )  # fmt: skip
    assert stored_over(PROMPT, known.grids["attention_prefill/fp8/fp8/128"]) == "fp8"
    assert stored_over(PROMPT, known.grids["attention_prefill/bf16/fp8/128"]) == "bf16"
    assert stored_over(step, known.grids["attention_decode/fp8/128"]) == "bf16"
    # What was timed is what comes out, whatever an operator says of its arithmetic; its roofline follows it.
    wide = replace(step, compute="bf16")
    assert operator_s(step, accelerator=h100, ladder=known) == operator_s(wide, accelerator=h100, ladder=known)
    narrow_s, _ = roofline_of(PROMPT, accelerator=h100, ladder=known)
    wide_s, _ = roofline_of(replace(PROMPT, compute="bf16"), accelerator=h100, ladder=known)
    assert wide_s > 1.9 * narrow_s


def test_prompts_in_fp8_take_less_time_without_tables_and_less_than_half_is_not_gained() -> None:
    part = accelerator("mi300x")
    known = ladder(part)
    narrow, _ = operator_s(PROMPT, accelerator=part, ladder=known)
    wide, _ = operator_s(replace(PROMPT, compute="bf16"), accelerator=part, ladder=known)
    assert 0.5 < narrow / wide < 0.95
