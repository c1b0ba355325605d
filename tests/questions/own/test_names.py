"""A misspelt or unfit name is refused with a way on, over every face; what is answered is what was asked."""

from __future__ import annotations

import pytest
from tests.sweeps import FULL
from tools.benchmarks import names

import tonnage
from tonnage.errors import TonnageError


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_OFFLINE", "1")


def test_no_name_is_substituted() -> None:
    count = 500 if FULL else 45
    faults, table = names.judge(count, seed=41, http=None)
    assert not faults
    assert table.total() == count and sum(times for (_, how), times in table.items() if how == "answered") > count / 12


@pytest.mark.parametrize(
    ("part", "model", "answer"),
    [
        ("RTX 3090", "Qwen3-8B", {"device": "rtx-4090"}),
        ("RTX 3090 Ti", "Qwen3-8B", {"device": "rtx-3090"}),
        ("RTX 3090 + 1 RTX 4090", "Qwen3-8B", {"device": "rtx-3090"}),
        ("RTX 207 0SUPER", "Qwen3-8B", {"device": "rtx-2070-super"}),
        ("RTX 3090", "Qwen33-2B", {"device": "rtx-3090", "rows": [{"model": "Qwen/Qwen3-32B"}]}),
        ("RTX 3090", "Qwen3-8B", {"device": "rtx-3090", "rows": [{"model": "Qwen/Qwen3-4B"}]}),
    ],
)
def test_a_substituted_name_is_seen(part: str, model: str, answer: dict[str, object]) -> None:
    asked = names.Asked("local", {"accelerator": part, "model": model}, part, model)
    assert names.substituted(asked, answer)


@pytest.mark.parametrize(
    ("text", "said"),
    [("M2 Max (35-core GPU)", "35-core"), ("GB10 (DGX Sparrk)", "Sparrk"), ("RTX 207 0SUPER", "207")],
)
def test_a_number_or_remark_that_no_part_has_is_refused(text: str, said: str) -> None:
    asked = names.Asked("local", {"accelerator": text}, text, "")
    assert said in names.by_command(asked).refused


def test_a_format_that_is_asked_for_is_the_one_that_runs_or_nothing_does() -> None:
    """Cards at home once answered `--precision awq` with GGUF files of five bits."""
    for name in ("gguf-q4_k_m", "gguf-q8_0"):
        rows = tonnage.plan_own(own="2 x RTX 3090", precision=name).groups[0].rows
        assert rows and {row.weights for row in rows} == {name}
        rows = tonnage.local("2 x RTX 3090", precision=name).rows
        assert rows and {row.precision.stored for row in rows} == {name}
    plan = tonnage.plan_own(own="2 x RTX 3090", precision="awq")
    assert not plan.feasible and "reads GGUF files" in plan.sentence and "not awq" in plan.sentence
    assert tonnage.plan_own(own="2 x RTX 3090", precision="awq", engine="vllm").groups[0].rows[0].weights == "awq"
    with pytest.raises(TonnageError, match="not awq"):
        tonnage.local("2 x RTX 3090", precision="awq")
    none = tonnage.local("RTX 3090", model="openai/gpt-oss-20b", precision="gguf-q4_k_m")
    assert not none.feasible and "none of the formats asked for" in none.sentence


def test_a_name_of_several_parts_or_models_says_which_was_taken() -> None:
    told = tonnage.local("RTX 6000", model="Qwen/Qwen3-8B")
    assert told.machine == "Quadro RTX 6000" and any("also: " in text for text in told.assumed)
    plan = tonnage.plan_own(own="RTX 6000", model="Qwen/Qwen3-8B")
    assert any("'RTX 6000' taken as Quadro RTX 6000" in text for text in plan.provenance.assumed)
    assert tonnage.local("RTX 3090", model="mistral").rows[0].model == "mistralai/Mistral-7B-v0.3"


def test_two_sizes_of_one_memory_are_refused() -> None:
    with pytest.raises(TonnageError, match="contradicts the 64 GiB"):
        tonnage.local("M4 Max 64GB", memory="128 GB")
    assert tonnage.local("M4 Max 64GB", memory="64 GB").rows and tonnage.local("M4 Max", memory="128 GB").rows
