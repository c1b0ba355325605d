"""Language-model rows as serving cases: every load, every way to state a layout, every trap of the formats."""

import re
from pathlib import Path

import pytest
from tests.validation.samples import point, sample

from tonnage.domain.case import Links, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision
from tonnage.errors import BadFact
from tonnage_accuracy.rows import Row, read_rows
from tonnage_accuracy.serve_cases import serve_case_of_point as of_point
from tonnage_accuracy.serve_cases import serve_case_of_sample as of_sample

SERVING = Path(__file__).parents[2] / "measurements" / "serving_silicon.csv.gz"


def test_a_plain_row_says_everything() -> None:
    case = of_point(point())
    assert (case.model, case.accelerator) == ("meta-llama/Meta-Llama-3-8B", "a100-sxm4-80gb")
    assert (case.isl, case.osl, case.length_spread) == (1024, 128, (1.0, 1.0))
    assert (case.layout, case.replicas, case.split_mode) == (Layout(), 1, "tensor")
    assert case.precision == Precision(weights="fp16", kv="fp16", activations="fp16")
    assert (case.engine, case.year, case.links) == ("vllm", 2024, Links())


def test_beams_are_those_of_the_task() -> None:
    assert (of_point(point()).beams, of_point(point(beams=4)).beams) == (1, 4)


@pytest.mark.parametrize(
    ("load", "cells", "traffic"),
    [
        ("single_stream", {}, Traffic(batch=1, static=True)),
        ("static_batch", {}, Traffic(batch=16, static=True)),
        ("closed_loop", {}, Traffic(concurrency=16, start="together")),
        (
            "closed_loop",
            {"notes": "80 requests; launch: …"},
            Traffic(concurrency=16, requests_per_client=5, start="together"),
        ),
        (
            "closed_loop",
            {"notes": "8 prompts; no warm-up"},
            Traffic(concurrency=16, requests_per_client=1, start="together"),
        ),
        ("closed_loop", {"notes": "16 prompts x1024 together"}, Traffic(concurrency=16, start="together")),
        ("burst", {}, Traffic(batch=16)),
        ("open_loop", {"request_rate_qps": 2.5}, Traffic(rate_per_s=2.5)),
        ("saturated", {"concurrency_or_batch": None}, Traffic(saturated=True)),
        ("saturated", {}, Traffic(concurrency=16, start="together")),
        ("saturated", {"requests_per_client": 47}, Traffic(concurrency=16, requests_per_client=47, start="together")),
        ("memory_only", {"isl_tokens": None, "osl_tokens": None}, Traffic(concurrency=1)),
    ],
)
def test_every_load_has_its_traffic(load: str, cells: dict[str, object], traffic: Traffic) -> None:
    assert of_point(point(load=load, **cells)).traffic == traffic


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"load": "open_loop"}, "not stated: request_rate_qps"),
        ({"load": "closed_loop", "concurrency_or_batch": None}, "not stated: concurrency_or_batch"),
        ({"load": "idle"}, "unknown load"),
        ({"isl_tokens": None}, "not stated: prompt or answer length"),
        ({"model_id": None}, "model not in the catalogue"),
        ({"tp": "two"}, "bad cell tp"),
    ],
)
def test_what_a_row_does_not_say_is_a_countable_reason(cells: dict[str, object], said: str) -> None:
    with pytest.raises(BadFact, match=said):
        of_point(point(**cells))


@pytest.mark.parametrize(
    ("cells", "layout", "replicas"),
    [
        # Stated degrees.
        ({"tp": 4, "num_accel": 4, "num_accel_total": 4}, Layout(tp=4), 1),
        ({"tp": 2, "pp": 2, "num_accel": 4, "num_accel_total": 4}, Layout(tp=2, pp=2), 1),
        ({"tp": 2, "num_accel": 2, "num_accel_total": 8}, Layout(tp=2), 4),
        # Attention data parallelism: with experts, or by its flag; tp then counts the same accelerators.
        ({"dp": 4, "ep": 4, "pp": 1, "num_accel": 4, "num_accel_total": 4}, Layout(tp=1, dp=4, ep=4), 1),
        ({"dp": 2, "ep": 2, "pp": 2, "num_accel": 4, "num_accel_total": 4}, Layout(tp=1, pp=2, dp=2, ep=2), 1),
        ({"tp": 8, "ep": 8, "attention_dp": 1, "num_accel": 8, "num_accel_total": 8}, Layout(dp=8, ep=8), 1),
        # Without experts a data-parallel degree counts replicas.
        ({"dp": 4, "num_accel": 8, "num_accel_total": 8}, Layout(tp=2), 4),
        # A batch run without degrees is one replica of everything.
        ({"num_accel": 4, "num_accel_total": 4}, Layout(tp=4), 1),
        # A whole system under load: the fewest accelerators that hold the weights, with a fifth to spare.
        ({"load": "saturated", "concurrency_or_batch": None, "num_accel_total": 8}, Layout(), 8),
        ({"load": "saturated", "params_b": 70.6, "num_accel_total": 8}, Layout(tp=4), 2),
        ({"load": "saturated", "params_b": 70.6, "weight_precision": "fp8", "num_accel_total": 8}, Layout(tp=2), 4),
        ({"load": "saturated", "params_b": 405, "num_accel_total": 8}, Layout(tp=8), 1),
        ({"load": "saturated", "params_b": None, "num_accel_total": 8}, Layout(tp=8), 1),
        # Layers spread over devices.
        ({"split_mode": "layer", "num_accel_total": 6}, Layout(pp=6), 1),
    ],
)
def test_layouts_are_as_stated_or_chosen_by_rule(cells: dict[str, object], layout: Layout, replicas: int) -> None:
    case = of_point(point(**cells))
    assert (case.layout, case.replicas) == (layout, replicas)


@pytest.mark.parametrize(
    ("cells", "precision"),
    [
        ({"weight_precision": "int8"}, Precision(weights="int8_weight", kv="fp16", activations="fp16")),
        (
            {"weight_precision": "int8", "act_precision": "int8"},
            Precision(weights="int8", kv="fp16", activations="int8"),
        ),
        ({"weight_precision": "int4", "quant_method": "awq"}, Precision(weights="awq", kv="fp16", activations="fp16")),
        ({"weight_precision": "int4", "quant_method": "mlc"}, Precision(weights="int4", kv="fp16", activations="fp16")),
        ({"kv_precision": None}, Precision(weights="fp16", kv="fp16", activations="fp16")),
        (
            {"kv_precision": None, "engine": "trtllm", "weight_precision": "fp8", "act_precision": "fp8"},
            Precision(weights="fp8", kv="fp8", activations="fp8"),
        ),
        (
            {"kv_precision": None, "weight_precision": "fp8", "act_precision": "fp8"},
            Precision(weights="fp8", kv="bf16", activations="fp8"),
        ),
        (
            {"model_id": "openai/gpt-oss-120b", "weight_precision": "mxfp4", "act_precision": None},
            Precision(weights="bf16", experts="mxfp4", kv="fp16", activations="bf16"),
        ),
    ],
)
def test_formats_are_told_apart(cells: dict[str, object], precision: Precision) -> None:
    assert of_point(point(**cells)).precision == precision


def test_links_are_only_those_the_row_knows() -> None:
    assert of_point(point(node_links="unknown")).links == Links()
    assert of_point(point(node_links="pcie", internode_gbytes_per_s=25)).links == Links(
        intra="pcie", inter_bytes_per_s=25e9
    )


def test_settings_come_from_columns_and_from_printed_start_up_logs() -> None:
    assert of_point(point(max_batch=64)).engine_options == {"max_num_seqs": 64}
    notes = "KV only: gpu_memory_utilization 0.95; max_model_len 20000; max_num_seqs = num_prompts = 2000"
    assert of_point(point(notes=notes)).engine_options == {
        "memory_fraction": 0.95,
        "max_model_len": 20000,
        "max_num_seqs": 2000,
    }
    sglang = of_point(point(engine="sglang", notes="mem-fraction-static 0.93"))
    assert sglang.engine_options == {"memory_fraction": 0.93}
    assert of_point(point(engine="vllm", notes="SGLang with mem-fraction-static 0.93 got more")).engine_options == {}


def test_half_a_card_and_tensorrt_are_named_as_the_planner_knows_them() -> None:
    case = of_point(point(accel_fraction=0.5, engine="tensorrt", phase="decode"))
    assert (case.accelerator_fraction, case.engine, case.phase) == (0.5, "trtllm", "decode")


def test_a_sample_is_a_closed_loop_with_drawn_lengths() -> None:
    case = of_sample(sample())
    assert case.traffic == Traffic(concurrency=64, requests_per_client=10, start="together")
    assert (case.isl, case.osl, case.length_spread) == (1024, 1024, (0.8, 1.0))
    assert (case.layout, case.year, case.engine_version) == (Layout(tp=8), 2026, "0.5.9")
    assert case.engine_options == {"max_num_batched_tokens": 8192}
    assert case.precision == Precision(weights="fp8_block", kv="bf16", activations="fp8_block")


def test_the_public_benchmark_sends_ten_requests_a_client_and_others_are_not_guessed() -> None:
    assert of_sample(sample(requests_per_client=None)).traffic.requests_per_client == 10
    other = sample(requests_per_client=None, length_spread=None, isl_tokens=1024)
    assert of_sample(other).traffic.requests_per_client is None


@pytest.mark.parametrize(
    ("cells", "layout"),
    [
        ({"ep_norm": 8}, Layout(tp=8, ep=8)),
        ({"ep_norm": 8, "attention_dp_norm": 8}, Layout(tp=1, dp=8, ep=8)),
        ({"tp_norm": 4, "ep_norm": 2, "num_accelerators": 4}, Layout(tp=4, ep=2)),
        ({"tp_norm": 1, "attention_dp_norm": 4, "num_accelerators": 4}, Layout(tp=1, dp=4)),
    ],
)
def test_launch_degrees_become_a_layout_of_all_ranks(cells: dict[str, object], layout: Layout) -> None:
    case = of_sample(sample(**cells))
    assert case.layout == layout


def test_separate_workers_keep_their_own_layouts_and_no_orchestrator_version() -> None:
    row = sample(
        disaggregated=1,
        engine="trtllm",
        backend_version="0.8.1.post2",
        tp_norm=None,
        num_accelerators=36,
        prefill_num_workers=1,
        prefill_tp_size=1,
        prefill_attention_dp_size=4,
        prefill_moe_ep_size=4,
        decode_num_workers=4,
        decode_tp_size=8,
        decode_attention_dp_size=1,
        decode_moe_ep_size=8,
    )
    case = of_sample(row)
    split = case.disaggregation
    assert (split.prefill_workers, split.prefill) == (1, Layout(dp=4, ep=4))
    assert (split.decode_workers, split.decode) == (4, Layout(tp=8, ep=8))
    assert split.prefill_workers * split.prefill.ranks + split.decode_workers * split.decode.ranks == 36
    assert case.engine_version == "2026-02"  # the month that it ran dates the engine


def pools(**changes: object) -> Row:
    """An inference row of separate pools: one prefill worker of four, four decode workers of eight."""
    cells: dict[str, object] = {
        "engine": "sglang", "engine_version": "v0.5.5.post2", "model_id": "deepseek-ai/DeepSeek-R1",
        "accelerator_id": "gb200-nvl72", "num_accel": 36, "num_accel_total": 36, "load": "closed_loop",
        "length_spread": "0.8-1.0", "disaggregated": 1, "layout_ok": 1, "prefill_workers": 1, "prefill_tp": 4,
        "prefill_ep": 4, "prefill_dpa": 0, "prefill_accel": 4, "decode_workers": 4, "decode_tp": 8, "decode_ep": 8,
        "decode_dpa": 0, "decode_accel": 32, "tp": 8, "ep": 8,
    }  # fmt: skip
    return point(**{**cells, **changes})


def test_separate_pools_of_an_inference_row_are_pools() -> None:
    case = of_point(pools())
    assert case.layout == case.disaggregation.decode == Layout(tp=8, ep=8)
    assert (case.disaggregation.prefill_workers, case.disaggregation.prefill) == (1, Layout(tp=4, ep=4))
    assert (case.replicas, case.engine_version) == (1, "v0.5.5.post2")
    assert case.traffic == Traffic(concurrency=16, requests_per_client=5, start="together"), (
        "the public benchmark of separate pools"
    )
    assert of_point(pools(engine="trtllm")).engine_version is None, "it prints the orchestrator's"


def test_degrees_that_are_not_those_of_the_launch_follow_the_accelerators_of_a_worker() -> None:
    printed = {"layout_ok": 0, "prefill_tp": 1, "prefill_ep": 1, "decode_tp": 1, "decode_ep": 1}
    split = of_point(pools(**printed, decode_dpa=1)).disaggregation
    assert (split.prefill, split.decode) == (Layout(tp=4), Layout(dp=8, ep=8))


def test_a_nightly_build_is_dated_by_the_day_it_ran() -> None:
    assert of_sample(sample(backend_version="nightly-5b8c30d62b754b57")).engine_version == "2026-02"


def test_a_sample_without_clients_is_not_guessed() -> None:
    with pytest.raises(BadFact, match="not stated: concurrency"):
        of_sample(sample(concurrency=None))


@pytest.mark.parametrize(("ranks", "printed", "groups"), [(32, 1, 32), (32, 32, 32), (16, 1, 1), (4, 1, 1)])
def test_experts_are_not_cut_narrower_than_kernels_take(ranks: int, printed: int, groups: int) -> None:
    row = sample(
        model_id="deepseek-ai/DeepSeek-V3",
        disaggregated=1,
        engine="sglang",
        tp_norm=None,
        num_accelerators=ranks + 4,
        prefill_num_workers=1,
        prefill_tp_size=4,
        prefill_attention_dp_size=1,
        prefill_moe_ep_size=1,
        decode_num_workers=1,
        decode_tp_size=1,
        decode_attention_dp_size=ranks,
        decode_moe_ep_size=printed,
    )
    split = of_sample(row).disaggregation
    assert split.decode == Layout(dp=ranks, ep=groups), "an expert of DeepSeek-V3 is 2048 wide: 64 on each of 32"
    assert split.prefill.ep == 1


def test_a_setting_of_the_launch_script_is_an_option() -> None:
    assert of_sample(sample(engine="vllm", async_scheduling=1)).engine_options["async_scheduling"] is True
    assert "async_scheduling" not in of_sample(sample(engine="vllm")).engine_options
    assert of_sample(sample(engine="sglang", mixed_chunk=1)).engine_options["mixed_chunk"] is True


def test_seats_of_decode_workers_are_what_the_name_of_the_recipe_says() -> None:
    stated = 0
    for row in read_rows(SERVING):
        seats, recipe = row.cells.get("max_batch"), row.cells.get("recipe", "")
        assert (seats is None) == (not recipe), row.id
        if seats is None:
            continue
        said = re.search(r"ctx(\d+)_gen(\d+)_(dep|tep|tp)(\d+)_batch(\d+)_", recipe)
        assert said is not None, recipe
        case = of_sample(row)
        split = case.disaggregation
        assert case.engine_options["max_num_seqs"] == int(seats) == int(said[5])
        assert (split.prefill_workers, split.decode_workers) == (int(said[1]), int(said[2]))
        assert split.decode.ranks == int(said[4]) and (split.decode.dp > 1) == (said[3] == "dep")
        stated += 1
    assert stated > 90
