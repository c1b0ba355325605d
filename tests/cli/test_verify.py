"""The verify command: the same to the byte, or what differs and why; every kind of plan."""

import json
from pathlib import Path

import pytest
from tests.command import told as run

REQUESTS = {
    "serve": "model: 8B\nrate: 4/s\ntraffic: chat\nttft: 1 s\naccelerator: [L4, L40S]\nquick: true\n",
    "batch": "model: 8B\nitems: 100k\ndeadline: 8 h\nprompt_tokens: 400\noutput_tokens: 60\naccelerator: L40S\n",
    "finetune": "model: 8B\nmethod: lora\ntokens: 4M\naccelerator: L40S\n",
    "train": "model: 1B\ntokens: 2B\ndeadline: 30 days\nseq_len: 2048\naccelerator: H100\n",
    "infer": "model: ultralytics/yolov8m\nstreams: 20\nfps: 25\nlatency: 200 ms\naccelerator: [T4, L4]\n",
    "lifecycle": "model: 8B\nmonths: 12\nquick: true\nfinetune: {tokens: 4M, accelerator: L40S}\n"
    "serve: {rate: 2/s, traffic: chat, ttft: 1 s, accelerator: L40S}\n",
    "fleet": "provider: gcp\nquick: true\nworkloads:\n- {name: chat, model: 8B, rate: 2/s, traffic: chat, ttft: 1 s}\n",
}


def kept(folder: Path, kind: str) -> Path:
    (folder / "request.yaml").write_text(f"plan: {kind}\n{REQUESTS[kind]}")
    path = folder / "plan.json"
    assert run("plan", str(folder / "request.yaml"), "-o", str(path), "--today", "2026-10-01").exit_code == 0
    return path


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_plan_is_made_again_to_the_byte_on_its_own_day(tmp_path: Path, kind: str) -> None:
    told = run("verify", str(kept(tmp_path, kind)), "--json")
    found = json.loads(told.stdout)
    assert told.exit_code == 0 and found["same"] and found["made"] == "2026-10-01"
    assert len(found["question"]) == len(found["data_now"]) == 12 and found["data_before"] == found["data_now"]


def test_what_differs_is_named_with_its_cause(tmp_path: Path) -> None:
    path = kept(tmp_path, "serve")
    plan = json.loads(path.read_text())
    question = json.loads(run("verify", str(path), "--json").stdout)["question"]
    plan["provenance"] |= {"version": "0.0.9"}
    plan["provenance"]["catalogue"]["data"] = "000000000000"
    plan["options"][0]["bill"]["usd_per_instance_hour"] *= 2
    plan["options"][0]["usd_per_month"] *= 2
    path.write_text(json.dumps(plan))
    told = run("verify", str(path))
    assert told.exit_code == 1 and "Not the same" in told.stdout and "0.0.9" in told.stdout
    assert "000000000000" in told.stdout
    found = json.loads(run("verify", str(path), "--json").stdout)
    assert found["question"] == question
    assert "options[0].bill.usd_per_instance_hour" in [where for where, _, _ in found["first"]]


def test_another_order_is_the_same_plan_and_another_name_is_not(tmp_path: Path) -> None:
    path = kept(tmp_path, "finetune")
    plan = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(plan.items()))))
    told = run("verify", str(path), width=200)
    assert told.exit_code == 0 and "the same plan, value for value (the file is written otherwise)." in told.stdout
    assert "byte for byte" not in told.stdout
    path.write_text(json.dumps({**plan, "approved": True}))
    told = run("verify", str(path))
    assert told.exit_code == 1 and "Not the same: 1 value differs" in told.stdout and "approved" in told.stdout


def test_a_what_if_is_told_apart_from_the_catalogue(tmp_path: Path) -> None:
    path = kept(tmp_path, "serve")
    told = run("verify", str(path), "--set", "l4.memory_bw=600 GB/s", width=80)
    assert told.exit_code == 1 and "of one's own differ" in told.stdout


@pytest.mark.parametrize("name", ["serve", "train"])
def test_plans_of_schema_1_are_made_again_and_say_what_they_lack(name: str) -> None:
    file = next((Path(__file__).parents[1] / "data" / "schema1").glob(f"*{name}*.json"))
    told = run("verify", str(file))
    assert told.exit_code == 1 and "does not say which data" in told.stdout


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    told = run("verify", str(tmp_path / "x.json"))
    assert told.exit_code == 2 and "plan" in told.output
