"""Published savings of prefix caches: GPUStack's closed loops with LMCache, and the table that has them beside ours."""

import pytest
from tools.sessions.published import BEGIN, END, HOST_BYTES, OURS, PAGE, RUNS, closed_loop, rows


def published(row: str) -> float:
    return float(next(one["published"] for one in rows() if one["id"] == row))


@pytest.mark.parametrize("name", RUNS)
def test_host_memory_gives_what_was_measured(name: str) -> None:
    without, held = closed_loop(RUNS[name], host_bytes=None), closed_loop(RUNS[name], host_bytes=HOST_BYTES)
    assert without.prompt_tokens_per_s == pytest.approx(published(f"{name}-cold"), rel=0.25)
    gained = held.prompt_tokens_per_s / without.prompt_tokens_per_s
    assert gained == pytest.approx(1.0 + published(f"{name}-rate") / 100.0, rel=0.12)
    left = held.ttft_s / without.ttft_s
    assert left == pytest.approx(1.0 + published(f"{name}-ttft") / 100.0, rel=0.3)


def test_the_page_shows_every_row_and_each_has_an_answer() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = text[text.index(BEGIN) : text.index(END)].splitlines()[3:]
    assert len(lines) == len(rows())
    for line, row in zip(lines, rows(), strict=True):
        assert f": {row['published']}" in line and row["case"] in line
        assert row["id"] in OURS or "of tokens" in line
