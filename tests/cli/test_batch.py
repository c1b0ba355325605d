"""`tonnage plan batch`: file and flags agree, plans can be explained, exit codes kept."""

import json
import re
from pathlib import Path

import pytest
from tests.command import told as run

ROOT = Path(__file__).parents[2]
BATCH = [
    "plan", "batch", "meta-llama/Llama-3.1-8B-Instruct", "--items", "50M", "--prompt-tokens", "800",
    "--output-tokens", "150", "--deadline", "8 h", "--max-accelerators", "64", "-a", "L40S,H100,B200",
]  # fmt: skip
TODAY = ["--today", "2026-11-21"]


def test_the_example_and_the_flags_give_the_same_plan(tmp_path: Path) -> None:
    request = tmp_path / "night.yaml"
    example = (ROOT / "examples" / "nightly-batch.yaml").read_text(encoding="utf-8")
    request.write_text(f"{example}\naccelerator: [L40S, H100, B200]\n", encoding="utf-8")
    by_file = run("plan", str(request), "--json", *TODAY)
    by_flags = run(*BATCH, "--json", *TODAY)
    assert by_file.exit_code == 0 and by_file.output == by_flags.output
    plan = json.loads(by_file.output)
    assert plan["schema"] == "tonnage.plan/2" and plan["kind"] == "batch"


def test_answers_in_a_sentence_then_tables_then_reasons() -> None:
    result = run(*BATCH, *TODAY, "--why")
    assert result.exit_code == 0 and result.output.startswith("Llama 3.1 8B Instruct · 50,000,000 items")
    for title in ("Time-cost trade-off", "Spot or on-demand", "Why this one", "Assumptions"):
        assert title in result.output


def test_what_cannot_be_done_exits_three_and_bad_requests_two() -> None:
    late = run(*BATCH[:-1], "H100", "--deadline", "15 min", *TODAY)
    assert late.exit_code == 3 and "Nearest: deadline" in " ".join(late.output.split())
    assert run(*BATCH, "--deadline", "8 GB", *TODAY).exit_code == 2
    assert run("plan", "batch", "13B", *TODAY).exit_code == 2


PRICE = re.compile(r"\$([\d,.]+) in ([\d.]+) (min|h|days) \((?:([\d.]+) (min|h|days) at )?\$([\d,.]+)/h\)")
HOURS = {"min": 1.0 / 60.0, "h": 1.0, "days": 24.0}


@pytest.mark.parametrize(
    ("asked", "spot"),
    [
        (BATCH, True),
        ([*BATCH[:-1], "L40S", "--deadline", "2 days", "--term", "on-demand"], False),
        ([*BATCH[:-1], "H100", "--deadline", "2 days", "--term", "spot"], True),
        (["plan", str(ROOT / "examples" / "lora-7b.yaml")], False),
        (["plan", "train", "meta-llama/Llama-3.1-8B", "--tokens", "1B", "--term", "spot", "-a", "H100"], True),
        (["plan", str(ROOT / "examples" / "grpo-30b.yaml")], False),
    ],
)
def test_hours_times_price_are_the_cost(asked: list[str], spot: bool) -> None:
    screen = run(*asked, *TODAY)
    assert screen.exit_code == 0
    found = PRICE.search(" ".join(screen.output.split()))
    usd, taken, unit, charged, charged_unit, price = found.groups()
    hours = float(charged) * HOURS[charged_unit] if charged else float(taken) * HOURS[unit]
    # Each of the three is shown to three digits or to the cent.
    assert hours * float(price.replace(",", "")) == pytest.approx(float(usd.replace(",", "")), rel=0.012, abs=0.01)
    assert not spot or charged, "spot capacity is away for a part of the time"


@pytest.mark.parametrize("more", [[], ["--term", "on-demand"], ["--deadline", "3 days"]])
def test_every_option_is_charged_its_hours_at_its_price(more: list[str]) -> None:
    plan = json.loads(run(*BATCH[:-1], "H100,H200,B200,B300,MI300X", *more, "--json", *TODAY).output)
    assert len(plan["options"]) > 5
    for option in plan["options"]:
        hourly = sum(line["value"] for line in option["bill"]["lines"])
        assert option["billed_hours"] * hourly == pytest.approx(option["cost"]["value"], rel=1e-9)


LIFE = ["plan", "lifecycle", "meta-llama/Llama-2-13b-hf", "--months", "12", "--retrainings", "3"]
MAKE = ("method=full", "examples=50k", "tokens_per_example=800", "epochs=3", "deadline=24 h")
SERVE = ("rate=2/s", "traffic=chat", "prompt_tokens=800", "output_tokens=200", "ttft=1 s", "tpot=60 ms")


def life_over(accelerators: str, folder: Path) -> str:
    """The example, over few kinds of accelerator: it is read the same, and answered in a tenth of the time."""
    request = folder / "life.yaml"
    text = (ROOT / "examples" / "lifecycle-13b.yaml").read_text(encoding="utf-8").rstrip()
    line = f"\n  accelerator: {accelerators}"
    request.write_text(text.replace("finetune:", f"finetune:{line}") + f"{line}\n")
    return str(request)


def test_a_life_as_file_and_as_flags(tmp_path: Path) -> None:
    by_file = run("plan", life_over("H100", tmp_path), "--json", *TODAY)
    flags = [word for text in (*MAKE, "accelerator=H100") for word in ("--finetune", text)]
    flags += [word for text in (*SERVE, "accelerator=H100") for word in ("--serve", text)]
    by_flags = run(*LIFE, *flags, "--json", *TODAY)
    assert by_file.exit_code == 0 and by_file.output == by_flags.output
    plan = json.loads(by_file.output)
    assert plan["kind"] == "lifecycle" and plan["make"]["kind"] == "finetune" and plan["serve"]["kind"] == "serve"


def test_a_life_is_shown_and_explained(tmp_path: Path) -> None:
    path = tmp_path / "life.json"
    shown = run("plan", life_over("H100,L40S", tmp_path), "-o", str(path), *TODAY, "--why")
    assert shown.exit_code == 0 and shown.output.startswith("Llama 2 13B · train, then serve for 12 months")
    for title in ("Bill", "One kind of accelerator for both", "Savings options", "Timeline"):
        assert title in shown.output
    assert run("explain", str(path)).exit_code == 0
