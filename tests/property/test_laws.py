"""
Laws over the whole catalogue and every serving engine, on a small seeded sample (`python -m tools.benchmarks.laws`
sweeps).

What the sweep finds broken today is not asked here: docs/log/ has its table.
"""

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.benchmarks import law_pairs
from tools.benchmarks.law_pairs import (
    CACHED,
    CHECKS,
    LAWS,
    Comparison,
    Outcome,
    Situation,
    bytes_of,
    case_of,
    fewest_experts,
    model_of,
    outcome,
    roomy,
)
from tools.benchmarks.laws import EXCEPTIONS, excused, listed, sweep, table, used, write_exceptions

from tonnage.core.deployment import resolve
from tonnage.domain.precision import number_format
from tonnage.physics.transformer import Tokens, step_work

HELD = {"format": 40, "tensor": 20, "part": 60, "bytes": 50, "engine": 20, "overload": 20}
"""Laws, and comparisons of each that are asked here; of `part` with those of other makers, which are `vendor`."""
LLAMA = Situation("meta-llama/Meta-Llama-3.1-8B", "h100-sxm5-80gb", "vllm", "bf16", 1, 1024, 256, 16)


@pytest.mark.parametrize("law", HELD)
def test_a_sample_of_the_catalogue_holds_the_law(law: str) -> None:
    found = sweep(HELD[law], seed=20261122, laws=(law,))
    known = listed(EXCEPTIONS)
    asked = {law, "vendor"} if law == "part" else {law}
    assert len(found) == HELD[law] and {one.law for one in found} == asked
    broken = [one for one in found if one.broken and not one.preempted and not excused(one, known)]
    assert not broken, "\n".join(f"{one.ratio:.2f}: {one.one}, but {one.other}" for one in broken)


def test_a_sweep_is_drawn_with_its_seed() -> None:
    one, again, other = (sweep(30, seed=seed, laws=("bytes",)) for seed in (3, 3, 4))
    assert one == again and one != other and not any(pair.same for pair in one)
    assert len({(pair.law, pair.one, pair.other) for pair in one}) == 30


def test_a_step_reads_its_weights_and_the_cache_of_its_batch() -> None:
    weights, layers, kv_values = 2.0 * (8.03e9 - 0.525e9), 32, 2 * 8 * 128
    assert bytes_of(LLAMA, 16.0) == pytest.approx(weights + 16 * 1024 * layers * kv_values * 2.0, rel=0.01)
    found = outcome(LLAMA._replace(decode=True))
    assert found.measured
    assert bytes_of(LLAMA, 16.0) - CACHED[""] < 3.35e12 * found.tpot_s


@pytest.mark.parametrize(
    "model",
    [
        "google/gemma-2-9b",  # its embedding is its head
        "mistralai/Mixtral-8x7B-v0.1",
        "deepseek-ai/DeepSeek-V2-Lite",
        "ai21labs/Jamba-v0.1",  # channels of a Mamba layer are divided among ranks
        "ibm-granite/granite-4.0-h-small",
        "openai/gpt-oss-20b",
    ],
)
@pytest.mark.parametrize("tp", [1, 4])
def test_a_step_reads_what_memory_holds(model: str, tp: int) -> None:
    """Two roads to the same bytes: matrices that a rank stores, and products of a step that meets every expert."""
    s = Situation(model, "b300-sxm-288gb", "vllm", "bf16", tp, 1, 256, 512)
    at = resolve(case_of(s)).placement
    work = step_work(
        at.model,
        Tokens(decodes=65536.0, context=1.0, emitted=1.0),
        precision=at.precision,
        layout=at.layout,
        domain=at.domain,
    )
    products = [op for op in work if op.kind in {"gemm", "grouped_gemm"} and not op.name.startswith("absorb")]
    assert any(op.kind == "grouped_gemm" for op in products) or model == "google/gemma-2-9b"
    read = sum(op.count * number_format(op.weights).bytes * op.groups * op.n * op.k for op in products)
    few, many = (bytes_of(s, batch) for batch in (65536.0, 65537.0))
    assert read == pytest.approx(few - 65536.0 * (many - few), rel=0.03)


def test_routing_by_a_power_law_reaches_fewer_experts() -> None:
    assert fewest_experts(model_of("meta-llama/Meta-Llama-3.1-8B"), 8.0) == 1.0
    mixtral = model_of("mistralai/Mixtral-8x7B-v0.1")
    even = 1.0 - 0.75**4
    assert 0.6 * even < fewest_experts(mixtral, 4.0) < 0.9 * even
    assert fewest_experts(mixtral, 512.0) == pytest.approx(1.0, abs=0.01)


def test_only_pairs_whose_cache_holds_every_client_are_compared() -> None:
    small = LLAMA._replace(part="rtx-4090", clients=2)
    assert roomy(small) is not None
    assert roomy(small._replace(prompt=100_000)) is None


def slower(found: Outcome, times: float) -> Outcome:
    return found._replace(tpot_s=times * found.tpot_s, output_tokens_per_s=found.output_tokens_per_s / times)


WRONG: dict[str, tuple[Callable[[Situation], bool], float]] = {
    "format": (lambda s: s.weights not in {"bf16", "fp16", "gguf-f16"}, 3.0),
    "tensor": (lambda s: s.tp in {2, 8}, 3.0),
    "part": (lambda s: len(s.part) % 2 == 0, 3.0),
    "bytes": (lambda s: True, 0.1),
    "engine": (lambda s: s.engine == "trtllm", 4.0),
    "overload": (lambda s: s.clients in {8, 32, 128}, 1.5),
}
"""What a fault would do to some predictions, by law: which are taken, and how many times slower they become."""


@pytest.mark.parametrize("law", WRONG)
def test_a_law_notices_numbers_that_are_wrong(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(WRONG) == set(CHECKS)
    taken, times = WRONG[law]

    def wrong(s: Situation) -> Outcome | None:
        found = outcome(s)
        return slower(found, times) if found and taken(s) else found

    right = [one for one in sweep(HELD[law], seed=4, laws=(law,)) if one.broken]
    monkeypatch.setattr(law_pairs, "outcome", wrong)
    assert len([one for one in sweep(HELD[law], seed=4, laws=(law,)) if one.broken]) >= len(right) + 3


def test_pairs_of_one_number_are_no_comparisons() -> None:
    """Arrivals beyond what can be served leave one throughput, however many more there are."""
    same = Counter[str]()
    found = sweep(20, seed=6, laws=("overload",), same=same)
    assert same["overload"] > 0 and len(found) == 20 and not any(one.same for one in found)
    row = next(row for row in table(found, {}, same) if row["law"] == "overload")
    assert (row["comparisons"], row["same"]) == (20, same["overload"])


def pair(ratio: float, *, measured: bool) -> Comparison:
    return Comparison("format", "vllm h100 fp8 dense", ratio, LLAMA, LLAMA, (ratio, 1.0), measured)


def test_only_measured_violations_are_written_and_hold_only_as_far_as_they_went(tmp_path: Path) -> None:
    file = tmp_path / "exceptions.csv"
    write_exceptions(file, [pair(1.5, measured=True), pair(1.9, measured=False)])
    known = listed(file)
    assert known == {("format", "vllm h100 fp8 dense"): 1.5}
    assert excused(pair(1.5, measured=True), known)
    assert not excused(pair(1.6, measured=True), known)
    row = next(
        row for row in table([pair(1.5, measured=True), pair(1.9, measured=False)], known) if row["law"] == "format"
    )
    assert (row["violations"], row["listed"], row["unlisted"]) == (2, 1, 1)


def test_an_exception_may_be_a_pattern_of_names() -> None:
    """What a person lists with a source holds for every part that the pattern names, under its own law alone."""
    known = {("format", "vllm h100* dense"): 1.5}
    assert excused(pair(1.5, measured=False), known)
    assert not excused(pair(1.5, measured=False), {("format", "vllm h100* mixture"): 1.5})
    assert not excused(pair(1.5, measured=False)._replace(law="part"), known)


def test_a_sweep_tells_what_each_exception_was_needed_for() -> None:
    """The largest ratio that an exception excuses; one that nothing needs, or that is broken beyond it, shows as 0."""
    known = {("format", "vllm h100* dense"): 1.6, ("format", "vllm a100* dense"): 1.6, ("part", "vllm h100*"): 2.0}
    found = [pair(1.4, measured=False), pair(1.5, measured=False), pair(1.9, measured=False), pair(1.2, measured=False)]
    assert list(used(found, known).values()) == [1.5, 0.0, 0.0]


def test_the_shipped_exceptions_are_measured_violations_of_known_laws() -> None:
    with EXCEPTIONS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert row["law"] in LAWS and row["law"] != "bytes"
            assert float(row["ratio"]) > LAWS[row["law"]]
            assert row["reason"].startswith("measured")
