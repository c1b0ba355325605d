"""A misspelt or unfit name is refused with a way on, over every face; what is answered is what was asked."""

from __future__ import annotations

import pytest
from tests.sweeps import FULL
from tools.benchmarks import names


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
