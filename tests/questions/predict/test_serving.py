"""A serving case end to end: every field filled, a reason when it does not fit, settings that matter matter."""

import json
import time
from typing import Any

import pytest
from tests.patience import assert_quick

import tonnage
from tonnage.errors import BadRequest, UnknownName

FP8 = {"weights": "fp8", "kv": "fp8", "activations": "fp8"}
WIDE = {"weights": "bf16", "kv": "bf16", "activations": "bf16"}


def predicted(**changes: Any) -> Any:
    given = {"model": "meta-llama/Meta-Llama-3.1-8B", "accelerator": "h100-sxm5-80gb", "isl": 1024, "osl": 256,
             "traffic": {"concurrency": 16}, "precision": WIDE}  # fmt: skip
    return tonnage.predict({"kind": "serve", **given, **changes})


def test_every_field_is_filled_with_an_interval_around_it() -> None:
    found = predicted(id="row-1")
    assert found.fits
    assert found.id == "row-1"
    assert found.basis in {"calibrated", "derived", "assumed"}
    assert found.kv_cache_tokens > 100_000
    assert found.memory["total_bytes"] == pytest.approx(sum(p["value"] for p in found.memory["parts"]))
    for latency in (found.ttft_s, found.tpot_s, found.e2e_s):
        assert 0 < latency.low < latency.mean < latency.high
    assert found.ttft_s.mean <= found.ttft_s.p95 <= found.ttft_s.p99
    assert found.output_tokens_per_s.low < found.output_tokens_per_s.value < found.output_tokens_per_s.high
    assert found.total_tokens_per_s.value == pytest.approx(5 * found.output_tokens_per_s.value)
    assert found.requests_per_s.value * 256 == pytest.approx(found.output_tokens_per_s.value)
    assert found.saturated is False


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp"])
@pytest.mark.parametrize("model", ["resnet50", "BAAI/bge-m3", "FLUX.1-dev", "openai/clip-vit-base-patch32"])
def test_what_decodes_no_text_is_not_served_as_if_it_did(model: str, engine: str) -> None:
    with pytest.raises(BadRequest, match="decodes no text; predict a case of kind 'infer'"):
        predicted(model=model, engine=engine)
    with pytest.raises(BadRequest, match="decodes no text; ask `tonnage plan infer"):
        tonnage.plan_serve(model, rate="1/s", prompt_tokens=10, output_tokens=10)


def test_a_model_too_large_says_why_and_gives_no_times() -> None:
    found = predicted(model="meta-llama/Meta-Llama-3.1-70B")
    assert not found.fits
    assert found.why
    assert found.tpot_s is None


@pytest.mark.parametrize(
    "traffic",
    [{"concurrency": 8}, {"rate_per_s": 2.0}, {"batch": 8, "static": True}, {"batch": 64},
     {"saturated": True}],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "lmdeploy", "hf", "deepspeed-mii"])
def test_every_traffic_under_every_engine(traffic, engine) -> None:
    found = predicted(traffic=traffic, engine=engine)
    assert found.fits
    assert 0.001 < found.tpot_s.mean < 1
    assert found.output_tokens_per_s.value > 0


def test_an_engine_nobody_measured_is_a_generic_one_and_says_so() -> None:
    found = predicted(engine="somebodys-server")
    assert any("generic" in note for note in found.notes)


def test_fp8_decodes_faster_where_there_is_a_unit_for_it() -> None:
    single = {"batch": 1, "static": True}
    wide, narrow = (predicted(traffic=single, precision=p).tpot_s.mean for p in (WIDE, FP8))
    assert 1.2 < wide / narrow < 2


def test_tensor_parallelism_shortens_decode_by_less_than_the_ranks() -> None:
    one, four = (predicted(layout={"tp": tp}).tpot_s.mean for tp in (1, 4))
    assert 1.3 < one / four < 4


def test_pcie_slows_prefill_of_a_split_model() -> None:
    layout = {"tp": 4}
    fast, slow = (predicted(layout=layout, links={"intra": link}) for link in ("nvlink", "pcie"))
    assert slow.ttft_s.mean > 1.2 * fast.ttft_s.mean


def test_accelerators_that_pass_data_through_their_host_are_slower_still() -> None:
    at = {"accelerator": "rtx-pro-6000-bw-server", "layout": {"tp": 2}}
    peers, hosted = (predicted(**at, links={"intra": link}) for link in ("pcie", "pcie-host"))
    assert hosted.ttft_s.mean > 1.1 * peers.ttft_s.mean and hosted.tpot_s.mean > peers.tpot_s.mean
    alone = {**at, "layout": {}}
    one, other = (predicted(**alone, links={"intra": link}) for link in ("pcie", "pcie-host"))
    assert one.ttft_s == other.ttft_s
    with pytest.raises(UnknownName, match="'pci'; did you mean 'pcie'"):
        predicted(links={"intra": "pci"})


def test_layers_split_over_cards_add_memory_and_no_speed() -> None:
    precision = {"weights": "gguf-q4_k_m", "kv": "fp16", "activations": "fp16"}
    common = {
        "accelerator": "rtx-4090",
        "engine": "llamacpp",
        "precision": precision,
        "phase": "decode",
        "isl": 1,
        "traffic": {"batch": 1, "static": True},
    }
    one = predicted(**common)
    two = predicted(**common, layout={"pp": 2}, split_mode="layer")
    assert two.tpot_s.mean == pytest.approx(one.tpot_s.mean, rel=0.05)
    large = {"model": "meta-llama/Meta-Llama-3-70B"}
    assert not predicted(**common | large).fits
    assert predicted(**common | large, layout={"pp": 2}, split_mode="layer").fits


def test_pieces_of_a_prompt_follow_each_other_through_split_layers() -> None:
    precision = {"weights": "gguf-q4_k_m", "kv": "fp16", "activations": "fp16"}
    common = {
        "accelerator": "rtx-4090",
        "engine": "llamacpp",
        "precision": precision,
        "phase": "prefill",
        "osl": 1,
        "traffic": {"batch": 1, "static": True},
        "split_mode": "layer",
        "isl": 4096,
    }

    def prompt(pp: int, **changed: Any) -> float:
        return predicted(**common | changed, layout={"pp": pp}).ttft_s.mean

    one = prompt(1)
    # 8 pieces of 512 tokens; 33 layers with the output lie 9, 8, 8, 8 on four cards.
    assert prompt(4) / one == pytest.approx((1 + 7 * 9 / 32) / 8, rel=0.05)
    # No more than four pieces are under way, however many cards.
    assert prompt(8) / one == pytest.approx((1 + 7 / 4) / 8, rel=0.05)
    assert prompt(4, isl=512) == pytest.approx(prompt(1, isl=512))
    assert prompt(4, engine_version="b2000") == pytest.approx(prompt(1, engine_version="b2000"))


def test_replicas_multiply_throughput_and_leave_latency() -> None:
    one = predicted(traffic={"saturated": True})
    three = predicted(traffic={"saturated": True}, replicas=3)
    assert three.output_tokens_per_s.value == pytest.approx(3 * one.output_tokens_per_s.value)
    assert three.tpot_s.mean == pytest.approx(one.tpot_s.mean)


def test_a_spread_of_lengths_shortens_the_mean() -> None:
    fixed = predicted()
    drawn = predicted(length_spread=(0.8, 1.0))
    assert drawn.e2e_s.mean == pytest.approx(0.9 * fixed.e2e_s.mean, rel=0.08)


def test_separate_pools_keep_prompts_out_of_decode_steps() -> None:
    split = {"prefill_workers": 1, "prefill": {"tp": 1}, "decode_workers": 1, "decode": {"tp": 1}}
    together = predicted(isl=4096, traffic={"concurrency": 32})
    apart = predicted(isl=4096, traffic={"concurrency": 32}, disaggregation=split)
    assert apart.tpot_s.mean < together.tpot_s.mean


def test_clients_beyond_the_seats_of_a_decode_pool_wait_for_one() -> None:
    split = {"prefill_workers": 2, "prefill": {"tp": 1}, "decode_workers": 1, "decode": {"tp": 1}}
    load = {"traffic": {"concurrency": 32}, "disaggregation": split}
    free = predicted(**load)
    tight = predicted(**load, engine_options={"max_num_seqs": 16})
    # Half of the clients have a seat; the others wait about as long as an answer takes.
    assert tight.ttft_s.mean > free.ttft_s.mean + 0.5 * (tight.e2e_s.mean - tight.ttft_s.mean)


def test_speculation_pays_alone_and_loses_its_edge_in_a_batch() -> None:
    options = {"speculative_tokens": 3, "speculative_acceptance": 0.7}
    gains = []
    for clients in (1, 256):
        traffic = {"concurrency": clients}
        plain = predicted(traffic=traffic).tpot_s.mean
        gains.append(plain / predicted(traffic=traffic, engine_options=options).tpot_s.mean)
    assert 1.5 < gains[0] < 2.6  # (1 - 0.7^4) / 0.3 = 2.53 tokens a step
    assert gains[1] < 0.8 * gains[0]


def test_speculation_without_acceptance_is_refused() -> None:
    with pytest.raises(BadRequest, match="acceptance"):
        predicted(engine_options={"speculative_tokens": 3})


@pytest.mark.parametrize(
    "traffic", [{"concurrency": 8}, {"rate_per_s": 1.0}, {"batch": 8, "static": True}, {"saturated": True}]
)
def test_a_beam_search_decodes_several_sequences_for_one_prompt(traffic: dict[str, Any]) -> None:
    alone, four = (predicted(traffic=traffic, engine="trtllm", beams=beams) for beams in (1, 4))
    assert four.tpot_s.mean > alone.tpot_s.mean
    assert 0.2 < four.requests_per_s.value / alone.requests_per_s.value <= 1.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"beams": 0}, "beams: 0 is out of range"),
        (
            {"beams": 4, "engine_options": {"speculative_tokens": 3, "speculative_acceptance": 0.7}},
            "with drafted tokens",
        ),
        ({"beams": 4, "traffic": {"trace": "a.jsonl"}}, "with a trace"),
    ],
)
def test_beams_that_nothing_models_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        predicted(**changes)


def test_too_many_clients_for_the_cache_are_saturated() -> None:
    found = predicted(isl=8000, osl=1000, traffic={"concurrency": 500})
    assert found.saturated
    assert found.ttft_s.mean > 10 * predicted(isl=8000, osl=1000).ttft_s.mean


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"isl": 0, "osl": 0}, BadRequest),
        ({"isl": -5}, BadRequest),
        ({"accelerator_fraction": 0.0}, BadRequest),
        ({"length_spread": (0.0, 1.0)}, BadRequest),
        ({"traffic": {}}, BadRequest),
        ({"precision": {"weights": "fp7"}}, UnknownName),
        ({"accelerator": "h1000"}, UnknownName),
    ],
)
def test_impossible_cases_are_refused_in_one_sentence(changes, error) -> None:
    with pytest.raises(error) as caught:
        predicted(**changes)
    assert "\n" not in str(caught.value)


def test_a_result_is_json_and_a_warm_prediction_is_cheap() -> None:
    asked = {"traffic": {"concurrency": 128}}
    assert "NaN" not in json.dumps(tonnage.to_dict(predicted(**asked)))
    spent = []
    for _ in range(5):
        start = time.process_time()
        predicted(**asked)
        spent.append(time.process_time() - start)
    assert_quick(min(spent), 0.02)


def test_the_rate_of_a_short_benchmark_is_that_of_its_simulation() -> None:
    """Answers from a token to the nominal length, five a client: what stays empty at the end costs a seventh."""
    served = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "H100", "engine": "sglang"}
    drawn = {"length_spread": [0.001, 1.0]}
    traffic = {"concurrency": 64, "start": "together"}
    said = tonnage.predict(
        {"kind": "serve", **served, **drawn, "isl": 1000, "osl": 1000, "traffic": {**traffic, "requests_per_client": 5}}
    )
    lengths = {"prompt_tokens": 1000, "output_tokens": 1000, "requests": 320}
    played = tonnage.simulate(**served, traffic={**traffic, **drawn, **lengths})
    shares = [said.requests_per_s.value * said.e2e_s.mean / 64, played.requests_per_s * played.e2e_s.mean / 64]
    assert shares[0] == pytest.approx(shares[1], rel=0.05) and shares[0] < 0.9


@pytest.mark.parametrize("each", [1, 3, 10])
def test_the_rate_of_clients_that_queue_is_that_of_the_simulation(each: int) -> None:
    """The first round waits for half a queue: clients over latency would be up to twice as many a second."""
    served = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "H100", "engine": "vllm"}
    few = {"engine_options": {"max_num_seqs": 16}}
    traffic = {"concurrency": 96, "start": "together"}
    lengths = {"isl": 500, "osl": 200, "length_spread": [1.0, 1.0]}
    said = tonnage.predict(
        {"kind": "serve", **served, **few, **lengths, "traffic": {**traffic, "requests_per_client": each}}
    )
    drawn = {"prompt_tokens": 500, "output_tokens": 200, "requests": 96 * each, "length_spread": [1.0, 1.0]}
    played = tonnage.simulate(**served, **few, traffic={**traffic, **drawn})
    assert said.requests_per_s.value == pytest.approx(played.requests_per_s, rel=0.06)


@pytest.mark.parametrize("rate_per_s", [5e-324, 1e-300, 1e-12])
def test_next_to_no_load_is_a_lone_request(rate_per_s: float) -> None:
    case = {"kind": "serve", "model": "8B", "accelerator": "H100", "isl": 100, "osl": 100}
    rare, seldom = (tonnage.predict({**case, "traffic": {"rate_per_s": rate}}) for rate in (rate_per_s, 1e-6))
    assert rare.ttft_s.mean == pytest.approx(seldom.ttft_s.mean, rel=1e-3)
    assert rare.tpot_s.mean == pytest.approx(seldom.tpot_s.mean, rel=1e-3)


@pytest.mark.parametrize("degree", ["dp", "tp", "pp", "ep"])
def test_a_count_beyond_all_counts_is_refused(degree: str) -> None:
    traffic = {"rate": "1/s", "prompt_tokens": 100, "output_tokens": 10}
    with pytest.raises(BadRequest, match=f"layout.{degree}: .* is out of range; expected at most 1e"):
        tonnage.simulate(model="8B", accelerator="H100", layout={degree: 1e308}, traffic=traffic)
