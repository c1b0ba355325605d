"""`tonnage predict`: a file, standard input, a list; exit codes; nothing lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.command import told as command

CASE: dict[str, Any] = {
    "kind": "serve",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "accelerator": "h100-sxm5-80gb",
    "traffic": {"concurrency": 8},
    "isl": 512,
    "osl": 128,
}


def run(*args: str, given: str | None = None) -> Result:
    return command("predict", *args, given=given)


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("args", [(), ("-",)])
def test_standard_input_is_answered_line_by_line(args: tuple[str, ...]) -> None:
    given = "".join(json.dumps({**CASE, "id": name}) + "\n" for name in "abc")
    result = run(*args, given=given)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [answer["id"] for answer in answers(result)] == ["a", "b", "c"]


def test_a_file_of_lines_and_a_json_array_give_the_same(tmp_path: Path) -> None:
    one, other = tmp_path / "cases.jsonl", tmp_path / "cases.json"
    one.write_text(json.dumps(CASE) + "\n" + json.dumps(CASE), encoding="utf-8")
    other.write_text(json.dumps([CASE, CASE]), encoding="utf-8")
    assert run(str(one)).stdout == run(str(other)).stdout
    assert len(answers(run(str(one)))) == 2


def test_a_yaml_list_is_read_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(
        "- kind: serve\n  model: meta-llama/Llama-3.1-8B-Instruct\n  accelerator: h100-sxm5-80gb\n"
        "  traffic: {rate_per_s: 2}\n  isl: 512\n  osl: 128\n",
        encoding="utf-8",
    )
    assert answers(run(str(path)))[0]["fits"] is True


@pytest.mark.parametrize("given", ["", "[]"])
def test_no_case_is_one_sentence_and_exit_code_2(given: str) -> None:
    result = run(given=given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tonnage: no case is given; write one object a line")


def test_a_bad_line_is_answered_in_place_and_the_exit_code_says_so() -> None:
    given = "\n".join([json.dumps(CASE), "{", json.dumps({**CASE, "accelerator": "h100-smx5"}), json.dumps(CASE)])
    result = run(given=given)
    found = answers(result)
    assert result.exit_code == 2
    assert ["error" in answer for answer in found] == [False, True, True, False]
    assert found[1]["line"] == 2
    assert "did you mean" in found[2]["error"]


def test_a_missing_file_and_a_malformed_list_end_in_one_sentence(tmp_path: Path) -> None:
    for name, content in {"none.jsonl": None, "list.json": "[1,"}.items():
        path = tmp_path / name
        if content is not None:
            path.write_text(content, encoding="utf-8")
        result = run(str(path))
        assert result.exit_code == 2
        assert result.stderr.startswith("tonnage: ")
        assert result.stderr.count("\n") == 1


def test_published_results_stand_beside_each_prediction() -> None:
    case = (
        '{"kind": "serve", "model": "Qwen/Qwen3-32B", "accelerator": "H100", "traffic": {"concurrency": 32}, '
        '"isl": 1024, "osl": 1024, "layout": {"tp": 2}}'
    )
    result = command("predict", "--near", "2", given=case + "\n")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["kind"] == "serve" and found["tpot_s"]["mean"] > 0
    assert [item["distance"] for item in found["near"]] == sorted(item["distance"] for item in found["near"])
    assert found["near"][0]["result"]["source"] and "tpot_ms" in found["near"][0]["result"]["measured"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"engine_options": {"max_num_seq": 1}}, "did you mean 'max_num_seqs'"),
        ({"engine_options": {"swap_space": 4}}, "no setting 'swap_space' of vLLM enters a prediction"),
        ({"engine": "sglang", "engine_options": {"gpu_memory_utilization": 0.9}}, "of SGLang enters a prediction"),
        ({"engine_options": {"max_num_seqs": 0}}, "max_num_seqs: 0 is out of range"),
        ({"engine_options": {"max_num_seqs": "8"}}, "engine_options.max_num_seqs: expected"),
        ({"engine_options": {"tensor-parallel-size": 2}}, "layout: {tp: 2}"),
        ({"engine": "llamacpp", "engine_options": {"n_ubatchs": 512}}, "did you mean 'n_ubatch'"),
        ({"engine_options": {"gpu_memory_utilization": 90}}, "memory_fraction: 90 is no share"),
        ({"engine_options": {"enforce_eager": 1}}, "enforce_eager: true or false"),
        ({"engine_options": {"enforce_eager": True, "cuda_graphs": True}}, "another name of cuda_graphs"),
        ({"engine_options": {"speculative_acceptance": 0.7}}, "speculative_tokens"),
        (
            {"engine_options": {"adapters": {"count": 4, "rank": 16, "slot": 2}}},
            "did you mean 'engine_options.adapters.slot",
        ),
        ({"precision": {"weigths": "fp8"}}, "did you mean 'precision.weights'"),
        ({"engine": "vlm"}, "no engine 'vlm'; did you mean 'vllm'"),
    ],
)
def test_no_setting_is_passed_over(fields: dict[str, Any], told: str) -> None:
    result = run(given=json.dumps({**CASE, **fields}))
    (answer,) = answers(result)
    assert result.exit_code == 2 and told in answer["error"]


@pytest.mark.parametrize(
    ("engine", "own", "ours"),
    [
        ("vllm", {"--gpu-memory-utilization": 0.5}, {"memory_fraction": 0.5}),
        ("vllm", {"enforce_eager": True}, {"cuda_graphs": False}),
        (
            "sglang",
            {"max_running_requests": 4, "disable_radix_cache": True},
            {"max_num_seqs": 4, "prefix_caching": False},
        ),
        ("trtllm", {"max_batch_size": 4}, {"max_num_seqs": 4}),
        ("llamacpp", {"parallel": 2}, {"max_num_seqs": 2}),
    ],
)
def test_an_engines_own_names_are_its_settings(engine: str, own: dict[str, Any], ours: dict[str, Any]) -> None:
    lines = [json.dumps({**CASE, "engine": engine, "engine_options": options}) for options in (own, ours)]
    by_own, by_ours = answers(run(given="\n".join(lines)))
    assert "error" not in by_own and by_own == by_ours


def test_a_misspelt_framework_is_not_the_usual_one() -> None:
    case = {"kind": "train", "model": CASE["model"], "accelerator": "H100", "count": 8, "seq_len": 4096}
    (answer,) = answers(run(given=json.dumps({**case, "global_batch": 64, "framework": "megatro"})))
    assert "no framework 'megatro'; did you mean 'megatron'" in answer["error"]


QWEN_FP8 = {"model": "Qwen/Qwen3-235B-A22B", "precision": {"weights": "fp8"}, "layout": {"tp": 8, "dp": 8, "ep": 8}}


@pytest.mark.parametrize(
    "fields",
    [
        {**QWEN_FP8, "accelerator": "h200-sxm-141gb", "engine": "trtllm", "isl": 1000, "osl": 1000},
        {**QWEN_FP8, "accelerator": "b200-sxm-180gb", "engine": "sglang", "isl": 1000, "osl": 1000},
        {**QWEN_FP8, "accelerator": "h200-sxm-141gb", "engine": "vllm", "isl": 100, "osl": 2000},
        {"accelerator": "h100-sxm5-80gb", "engine": "vllm", "isl": 1000, "osl": 1000},
        {"accelerator": "mi300x", "engine": "tgi", "isl": 8000, "osl": 200},
        {"accelerator": "rtx-4090", "engine": "llamacpp", "isl": 8000, "osl": 200},
    ],
)
def test_no_closed_loop_yields_more_than_saturated(fields: dict[str, Any]) -> None:
    loads = [{"saturated": True}, *({"concurrency": 4**n} for n in range(8))]
    found = answers(run(given="".join(json.dumps({**CASE, **fields, "traffic": load}) + "\n" for load in loads)))
    most, *loops = (one["output_tokens_per_s"]["value"] for one in found)
    # Lengths of a loop are drawn, and its mean is theirs within a percent.
    assert max(loops) <= most * 1.01
    assert max(loops) > most * 0.85, "what is saturated is reached by enough clients"


@pytest.mark.parametrize(
    ("engine", "accelerator", "told"),
    [
        ("trtllm", "tpu-v6e", "what would work: engine vllm"),
        ("trtllm", "gaudi3", "what would work: engine vllm or hf"),
        ("trtllm", "trainium2", "what would work: engine vllm"),
        ("trtllm", "mi300x", "what would work: engine vllm or sglang"),
        ("lmdeploy", "mi300x", "no source shows LMDeploy running on Instinct MI300X"),
        ("sglang", "trainium2", "no source shows SGLang"),
        ("llamacpp", "tpu-v6e", "no source shows llama.cpp"),
        ("mlx", "mi300x", "no source shows"),
    ],
)
def test_an_engine_that_nothing_shows_there_is_not_predicted(engine: str, accelerator: str, told: str) -> None:
    (found,) = answers(run(given=json.dumps({**CASE, "engine": engine, "accelerator": accelerator}) + "\n"))
    assert not found["fits"] and "ttft_s" not in found
    assert told in found["why"]


@pytest.mark.parametrize(
    ("engine", "accelerator"), [("vllm", "ascend-910c"), ("mlx", "h100-sxm5-80gb"), ("tgi", "tpu-v6e")]
)
def test_an_engine_whose_documents_run_it_there_is_predicted(engine: str, accelerator: str) -> None:
    (found,) = answers(run(given=json.dumps({**CASE, "engine": engine, "accelerator": accelerator}) + "\n"))
    assert found["fits"]


def test_a_network_compiler_of_one_maker_is_not_predicted_on_anothers_parts() -> None:
    asked = {"kind": "infer", "model": "resnet-50", "accelerator": "mi300x", "engine": "tensorrt", "saturated": True}
    (found,) = answers(run(given=json.dumps(asked) + "\n"))
    assert not found["fits"] and found["why"] == "no source shows TensorRT running on Instinct MI300X"


@pytest.mark.parametrize(
    ("layout", "prefill", "decode", "short"),
    [
        ({}, {"tp": 4}, {"tp": 8}, None),
        ({"tp": 8}, {"tp": 1}, {"tp": 8}, "prefill workers: "),
        ({"tp": 8}, {"tp": 8}, {"tp": 1}, "decode workers: "),
    ],
)
def test_each_pool_is_held_by_its_own_layout(
    layout: dict[str, int], prefill: dict[str, int], decode: dict[str, int], short: str | None
) -> None:
    pools = {"prefill_workers": 2, "prefill": prefill, "decode_workers": 1, "decode": decode}
    asked = {**CASE, "model": "meta-llama/Llama-3.1-70B-Instruct", "layout": layout, "disaggregation": pools}
    (found,) = answers(run(given=json.dumps(asked) + "\n"))
    assert found["fits"] is (short is None)
    assert short is None or found["why"].startswith(short)
