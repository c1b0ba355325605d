"""`tonnage explain` of a case, a plan and a prediction: the same tree, named down to the grid it was read from."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.command import told as command

CASE: dict[str, Any] = {
    "kind": "serve",
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "h100-sxm5-80gb",
    "traffic": {"concurrency": 16},
    "isl": 1024,
    "osl": 128,
    "id": "mine",
}


def run(*args: str, given: str | None = None) -> tuple[int, str, str]:
    result = command(*args, given=given, width=170)
    return result.exit_code, result.stdout, result.stderr


def breakdown(given: str, *args: str) -> dict[str, Any]:
    code, text, errors = run("explain", "-", "--json", *args, given=given)
    assert (code, errors) == (0, "")
    found: dict[str, Any] = json.loads(text)
    return found


def test_tpot_opens_down_to_operators_and_names_their_grid() -> None:
    code, text, _ = run("explain", "-", "--number", "tpot", given=json.dumps(CASE))
    assert code == 0
    assert text.startswith("Llama 3.1 8B on 1 x H100 SXM5 80 GB, vllm, 16 clients")
    assert "\nmean TPOT: " in text
    assert "TTFT" not in text
    product = next(line for line in text.splitlines() if "feed-forward up" in line)
    assert "32 x " in product
    assert "n=28672 k=4096" in product
    assert "own gemm/bf16 [" in product
    assert "efficiency/h100-sxm5-80gb.vllm.grids, vllm 0.24.0" in text
    assert "engines/overheads.csv" in text


def test_a_first_screen_names_the_largest_parts_of_each_number() -> None:
    code, text, _ = run("explain", "-", given=json.dumps(CASE))
    lines = text.splitlines()
    assert code == 0 and len(lines) <= 24 and "--why" in lines[-1]
    assert lines[0].startswith("Llama 3.1 8B on 1 x H100 SXM5 80 GB")
    found = breakdown(json.dumps(CASE))["numbers"]
    for name in ("TTFT", "TPOT"):
        row = next(line for line in lines if name in line.split()[:2])
        node = next(node for node in found if node["name"] == name)
        shares = [int(share) for share in re.findall(r"(\d+) %", row)]
        assert shares == sorted(shares, reverse=True) and 50 < sum(shares) <= 101
        assert f"{node['value'] * 1e3:.3g} ms" in row


def test_json_is_nested_nodes_with_evidence() -> None:
    found = breakdown(json.dumps(CASE))
    assert (found["schema"], found["kind"], found["id"]) == ("tonnage.breakdown/1", "serve", "mine")
    assert [node["name"] for node in found["numbers"]] == [
        "TTFT",
        "TPOT",
        "end to end",
        "requests per second",
        "output tokens per second",
    ]
    node = found["numbers"][1]
    while "execution" not in node:
        node = max(node["parts"], key=lambda part: part["value"])
    assert node["evidence"]["tier"] == "own"
    assert node["evidence"]["grid"] == "gemm/bf16"
    assert 0 < node["evidence"]["roofline_share"] < 1.1
    assert node["execution"]["shape"]["weights"] == "bf16"


def test_depth_says_how_far_it_is_opened() -> None:
    lengths = [len(run("explain", "-", "--depth", depth, given=json.dumps(CASE))[1]) for depth in ("0", "1", "3", "9")]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) == 4


def test_a_prediction_keeps_its_parts_and_gives_the_same_tree() -> None:
    code, line, _ = run("predict", "--why", given=json.dumps(CASE))
    assert code == 0
    assert breakdown(line)["numbers"] == breakdown(json.dumps(CASE))["numbers"] == json.loads(line)["opened"]
    assert breakdown(json.dumps(breakdown(line)))["numbers"] == json.loads(line)["opened"]


def test_a_prediction_without_parts_says_how_to_get_them() -> None:
    _, line, _ = run("predict", given=json.dumps(CASE))
    assert "opened" not in json.loads(line)
    code, text, errors = run("explain", "-", given=line)
    assert (code, text) == (2, "")
    assert "--why" in errors


def test_many_cases_are_opened_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(
        "".join(
            f"- {{kind: serve, model: meta-llama/Llama-3.1-8B, accelerator: {part}, traffic: {{{load}}}, isl: 9, "
            "osl: 9}\n"
            for part, load in (("H100", "rate_per_s: 2"), ("L40S", "saturated: true"))
        ),
        encoding="utf-8",
    )
    text = run("explain", str(path), "--depth", "1")[1]
    assert text.count("TPOT: ") == 2
    lines = "\n".join(json.dumps(CASE) for _ in range(3))
    assert len(json.loads(run("explain", "-", "--json", given=lines)[1])) == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("[]", "holds nothing to explain"),
        ("{}", "has no 'schema'"),
        ("nothing", "has no 'schema'"),
        (json.dumps({**CASE, "accelerator": "h100-smx5"}), "did you mean"),
        (json.dumps({**CASE, "kind": "infer"}), "known"),
        (json.dumps({"fits": True, "kind": "infer", "basis": "derived"}), "no parts to open"),
        (json.dumps({"fits": True, "kind": "serve", "opened": 3}), "cannot be read"),
        (json.dumps({"schema": "tonnage.breakdown/1"}), "cannot be read"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_one_sentence(given: str, told: str) -> None:
    code, text, errors = run("explain", "-", given=given)
    assert (code, text) == (2, "")
    assert told in errors
    assert len(errors.splitlines()) == 1


def test_json_opens_the_number_and_the_levels_that_are_asked_for() -> None:
    whole, part = (breakdown(json.dumps(CASE), *more)["numbers"] for more in ((), ("--number", "tpot", "--depth", "1")))
    tpot = next(node for node in whole if node["name"] == "TPOT")
    for node in tpot["parts"]:
        node.pop("parts", None)
    assert part == [tpot]


def test_an_unknown_number_is_refused_with_those_there_are() -> None:
    code, _, errors = run("explain", "-", "--number", "latency", given=json.dumps(CASE))
    assert code == 2
    assert "TPOT" in errors


def test_a_case_that_does_not_fit_says_so() -> None:
    code, text, _ = run("explain", "-", given=json.dumps({**CASE, "model": "meta-llama/Llama-3.1-405B"}))
    assert code == 3
    assert "does not fit" in text


def test_a_plan_opens_its_latencies_under_its_own_means(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert (
        run(
            "plan",
            "serve",
            "meta-llama/Llama-3.1-8B",
            "--rate",
            "2/s",
            "--traffic",
            "chat",
            "--accelerator",
            "H100",
            "--quick",
            "-o",
            str(path),
        )[0]
        == 0
    )
    option = json.loads(path.read_text(encoding="utf-8"))["options"][0]
    found = {node["name"]: node for node in breakdown(path.read_text(encoding="utf-8"))["numbers"]}
    assert found["TPOT"]["value"] == pytest.approx(option["capacity"]["tpot_mean_s"], rel=1e-9)
    assert found["TTFT"]["value"] == pytest.approx(option["capacity"]["ttft_mean_s"], rel=1e-9)
    code, text, _ = run("explain", str(path), "--why")
    assert code == 0
    assert "Memory of one accelerator" in text
    assert "matrix products" in text
    assert run("explain", str(path), "--option", "999")[0] == 2


def test_a_training_case_opens_its_step() -> None:
    case = {
        "kind": "train",
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "h100-sxm5-80gb",
        "count": 8,
        "seq_len": 4096,
        "global_batch": 64,
        "framework": "megatron",
    }
    found = breakdown(json.dumps(case))
    assert [node["name"] for node in found["numbers"]] == ["step", "tokens per second and accelerator"]
    text = run("explain", "-", "--why", given=json.dumps(case))[1]
    assert "gate_up_proj weight gradient" in text
    assert "training/coefficients.toml" in text
