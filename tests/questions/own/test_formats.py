"""The choice of an owner: formats by quality and speed, and commands that set what was predicted."""

import re
from itertools import pairwise
from typing import Any

import pytest
from tests.command import answered, told

import tonnage
from tonnage import catalog
from tonnage.adopt import read_running
from tonnage.core.machine import host_of, machine_named
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Layout
from tonnage.domain.machine import LocalRow
from tonnage.domain.precision import Precision, number_format
from tonnage.questions.own.local import LocalRequest, local
from tonnage.questions.predict.predict import predict
from tonnage.units import GB, GiB

GEMMA = "google/gemma-3-27b-it"
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"


def formats(model: str, machine: str, *, memory: float | None = None, **fields: Any) -> tuple[LocalRow, ...]:
    request = LocalRequest(model=model, **fields)
    return local(request, machine_named(machine, memory_bytes=memory)).frontier


def option(row: LocalRow, flag: str) -> str:
    words = row.commands[0][1].split()
    return words[words.index(flag) + 1] if flag in words else ""


def test_every_format_is_there_that_none_beats_in_quality_and_speed() -> None:
    rows = formats(GEMMA, "RTX 3090")
    fast = [row for row in rows if row.decode_per_s.value >= 10.0]
    assert [row.format for row in fast] == ["q6_k", "q5_k_m", "q4_k_m", "q3_k_m"] and rows[: len(fast)] == tuple(fast)
    assert all(one.decode_per_s.value < other.decode_per_s.value for one, other in pairwise(fast))
    losses = [row.change.perplexity for row in fast if row.change and row.change.perplexity]
    assert losses == sorted(losses) and len(losses) == 4 and all(row.change.sources for row in fast if row.change)
    assert [row.format for row in rows[len(fast) :]] == ["q8_0"]


def test_a_row_shows_what_was_published_of_its_format_and_both_intervals() -> None:
    shown = told("local", "-a", "RTX 3090", "--model", GEMMA).output
    assert "in Q6_K, the finest format that makes 10 tokens/s." in " ".join(shown.split())
    assert re.search(r"Q4_K_M +perplexity \+1\.5 % +[\d.]+ +\d+ \(\d+-\d+\) +[\d,]+ \(\d+-[\d,]+\)", shown)
    assert "medians of published evaluations of other models" in " ".join(shown.split())
    assert (
        "nobody published what it keeps of the score"
        in told("local", "-a", "RTX 3090", "--model", GEMMA, "--why").output
    )
    slow = told("local", "-a", "RTX 3090", "--model", GEMMA, "--min-speed", "500").output
    assert "the fastest format; none makes 500 tokens/s" in " ".join(slow.split())


@pytest.mark.parametrize(("machine", "model"), [("RTX 3090", GEMMA), ("2 x RTX 3090", LLAMA)])
def test_the_first_screen_of_a_named_model_is_24_lines_of_100_columns(machine: str, model: str) -> None:
    lines = told("local", "-a", machine, "--model", model, "--context", "32k").output.rstrip().splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100


def test_a_list_names_faster_formats_of_its_first_model_and_intervals_of_prompts() -> None:
    answer = answered("local", "-a", "RTX 3090")
    assert [row["model"] for row in answer["frontier"]] == [answer["rows"][0]["model"]] * len(answer["frontier"])
    shown = told("local", "-a", "RTX 3090", "--why").output
    assert re.search(r"Faster: Q5_K_M \d+, Q4_K_M \d+, Q3_K_M \d+ tokens/s \(perplexity \+0\.6 %, \+1\.5 %, ", shown)
    assert "models at 10 tokens/s or more, each in the finest format that does;" in " ".join(shown.split())
    assert re.search(r"Prompt tokens/s\n(.+\n)*  Qwen3\.5 122B A10B: \d+ \(\d+-[\d,]+\)", shown)


def test_models_stand_by_the_score_that_is_shown_that_of_their_format() -> None:
    shown = told("local", "-a", "RTX 3090", "--top", "20").output
    scores = [float(text) for text in re.findall(r"  (?:Q\w+|MXFP4|BF16) +(\d\d\.\d)  ", shown)]
    assert len(scores) >= 10 and scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("machine", "model", "context"),
    [("RTX 3090", GEMMA, 8192), ("M4 Max 64GB", "Qwen/Qwen3-8B", 32768), ("2 x RTX 3090", LLAMA, 32000),
     ("CPU", "Qwen/Qwen3-8B", 4096)],
)  # fmt: skip
def test_a_command_sets_what_was_predicted(machine: str, model: str, context: int) -> None:
    found = machine_named(machine)
    part, count = (found.device, found.count) if found.device else (found.host.part, 1)
    rows = [row for row in formats(model, machine, context=context) if row.offload.read_share in (0.0, 1.0)]
    assert len(rows) >= 2
    for row in rows:
        running = read_running(row.commands[0][1])
        assert option(row, "-np") == "1" and running.value("max_model_len") == context
        cache = "gguf-q8_0" if option(row, "-ctk") == "q8_0" else "fp16"
        case = ServeCase(
            model=model,
            accelerator=part.id,
            traffic=Traffic(batch=1, static=True),
            isl=2048,
            osl=128,
            precision=Precision(weights=row.precision.weights, kv=cache, activations="fp16"),
            engine="llamacpp",
            engine_options={"ctx_size": int(option(row, "-c")), "parallel": int(option(row, "-np"))},
            layout=Layout(tp=count),
            split_mode="layer" if count > 1 else "tensor",
        )
        plain = predict(case)
        assert row.decode_per_s.value == pytest.approx(1.0 / plain.tpot_s.mean), row.format
        assert row.prompt_per_s.value == pytest.approx(2048 / plain.ttft_s.mean), row.format


def test_a_long_context_says_what_output_is_behind_it() -> None:
    answer = answered("local", "-a", "2 x RTX 3090", "--model", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "--context", "32k")
    rate, behind = answer["rows"][0]["decode_per_s"]["value"], answer["behind_per_s"]
    assert 0.4 * rate < behind < 0.8 * rate
    shown = told(
        "local", "-a", "2 x RTX 3090", "--model", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "--context", "32k"
    ).output
    assert f"{behind:.0f} tokens/s behind 32,000" in shown and " 32k" not in answer["sentence"]
    short = answered("local", "-a", "2 x RTX 3090", "--model", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "--context", "4k")
    assert short.get("behind_per_s") is None


def test_a_narrow_cache_is_offered_where_the_context_has_no_room_and_then_alone() -> None:
    rows = formats(LLAMA, "2 x RTX 3090", context=32000)
    narrow = [row for row in rows if row.precision.kv != "fp16"]
    assert [row.format for row in narrow] == ["q4_k_m, q8_0 cache"]
    wide = next(row for row in rows if row.format == "q4_k_m")
    assert narrow[0].decode_per_s.value > 10.0 > wide.decode_per_s.value
    assert narrow[0].offload.layers < wide.offload.layers
    assert (option(narrow[0], "-ctk"), option(narrow[0], "-ctv"), option(wide, "-ctk")) == ("q8_0", "q8_0", "")
    assert all(row.precision.kv == "fp16" for row in formats("Qwen/Qwen3-8B", "RTX 3090"))


def test_pieces_of_prompts_are_large_where_a_request_is_done_sooner_so() -> None:
    (row,) = formats("openai/gpt-oss-120b", "RTX 3090")
    # 4,096 tokens of prompt on this machine: 380 tokens/s in pieces of 512, 1,113 in 2,048 (measurements/local.csv).
    assert option(row, "-ub") == "2048" and row.prompt_per_s.value > 600.0
    assert all(not option(row, "-ub") for row in formats(GEMMA, "RTX 3090"))


@pytest.mark.parametrize(
    ("model", "mixtures_of"),
    [("deepseek-ai/DeepSeek-R1", lambda n: n - 3), ("moonshotai/Kimi-K2-Instruct", lambda n: n - 1),
     ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", lambda n: n // 2), ("openai/gpt-oss-120b", lambda n: n)],
)  # fmt: skip
def test_as_many_experts_stay_in_the_host_as_were_predicted(model: str, mixtures_of: Any) -> None:
    row = formats(model, "RTX 4090", memory=1000 * GB)[0]
    assert mixtures_of(int(option(row, "-ncmoe"))) == row.offload.expert_layers > 0


def test_layers_that_keep_their_experts_lie_on_all_cards() -> None:
    row = formats("Qwen/Qwen3-Coder-480B-A35B-Instruct", "4 x RTX 3090", memory=512 * GB)[0]
    held = [int(count) for count in option(row, "-ts").split(",")]
    layers = catalog.model(row.model).num_layers
    assert sum(held) == layers and held[0] == max(held) > 2 * held[-1]
    assert max(held[1:]) * row.weight_bytes / layers < 24 * GiB


def test_mxfp4_stays_as_it_is_published() -> None:
    (row,) = formats("deepseek-ai/DeepSeek-V4-Flash", "RTX 4090", memory=192 * GB)
    assert row.format == "mxfp4" and row.change is None and row.commands[0][1].split()[2].endswith("-MXFP4.gguf")


def test_a_host_is_one_that_holds_its_memory() -> None:
    desktop, server = (host_of(memory_bytes=size * GB).part for size in (128, 512))
    assert desktop.id == "cpu-core-13900k" and server.memory_bytes_per_s > 1.4 * desktop.memory_bytes_per_s
    said = told("local", "-a", "RTX 4090", "--memory", "512 GB", "--model", "deepseek-ai/DeepSeek-R1").output
    assert "at 141 GB/s (the host's bandwidth assumed)" in " ".join(said.split())
    named = told(
        "local", "-a", "RTX 4090 + EPYC 9755", "--memory", "512 GB", "--model", "deepseek-ai/DeepSeek-R1"
    ).output
    assert "at 614 GB/s runs" in " ".join(named.split())


def test_names_with_blanks_mean_their_model() -> None:
    shown = told("local", "-a", "RTX 3090", "--model", "qwen 3 32b", "--context", "128k").output
    assert "-hf Qwen/Qwen3-32B-GGUF:" in shown and "Its context ends at 40,960 tokens." in " ".join(shown.split())


@pytest.mark.parametrize(
    ("machine", "engines"), [("RTX 3060", ["vLLM (AWQ"]), ("GTX 1080 Ti", []), ("M4 Max 64GB", ["MLX (4 bits"])]
)
def test_other_engines_stand_there_with_their_rate_where_they_run(machine: str, engines: list[str]) -> None:
    answer = local(LocalRequest(model="Qwen/Qwen3-8B"), machine_named(machine))
    others = answer.rows[0].commands[1:]
    assert [name.partition(",")[0] for name, _ in others] == engines
    assert all(re.search(r", \d+ tokens/s\)$", name) for name, _ in others)


def test_sixteen_bits_are_multiplied_in_32_where_that_is_faster() -> None:
    rows = formats("Qwen/Qwen3-8B", "GTX 1080 Ti")
    assert rows[0].decode_per_s.value > 20.0 and len({round(row.decode_per_s.value) for row in rows}) == len(rows)


@pytest.mark.parametrize(("own", "model"), [("RTX 3090", GEMMA), ("8 x A100 80GB", LLAMA)])
def test_an_inventory_has_a_row_for_every_format_of_a_named_model(own: str, model: str) -> None:
    rows = tonnage.plan_own(own=own, model=model).groups[0].rows
    fast = [row for row in rows if row.per_request >= 19.9]
    by_bits = sorted(fast, key=lambda row: -number_format(row.weights).bits)
    assert len(fast) >= 2 and {row.model for row in rows} == {model}
    assert all(one.output_tokens_per_s.value < other.output_tokens_per_s.value for one, other in pairwise(by_bits))
    shown = told("plan", "own", own, "--model", model).output
    assert "quality" in shown and ("of the score" in shown or "perplexity +" in shown)
