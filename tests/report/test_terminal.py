"""Blocks as characters: a table fits the width that there is, and nothing is cut inside a word."""

import io

import pytest
from rich.console import Console

from tonnage.report.document import Column, Table
from tonnage.report.terminal import rich_table

TABLE = Table(
    columns=(
        Column("#", number=True), Column("accelerators", wraps=True), Column("layout", wraps=True), Column("TTFT"),
        Column("headroom", number=True, spare=1), Column("$/1M out", number=True, spare=2), Column("offer", wraps=True),
    ),
    rows=(
        ("1", "16384 x h100-sxm5-80gb", "tp 8 pp 16 vpp 8", "322 (159-652) ms", "46%", "3.22",
         "seeweb it-fr2, 2026-05"),
        ("2", "2 x l4", "tp 1", "28 (14-56) ms", "9%", "120.50", "verda FIN-03, 2026-05"),
    ),
)  # fmt: skip


def printed(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(rich_table(TABLE, width=width))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [70, 80, 100, 118, 140])
def test_no_word_is_cut_and_no_line_too_long(width: int) -> None:
    found = printed(width)
    assert all(len(line.rstrip()) <= width for line in found)
    words = {word for line in found for word in line.split()}
    assert {"h100-sxm5-80gb", "322", "(159-652)", "it-fr2,", "2026-05"} <= words


def test_what_can_be_spared_goes_first_and_in_order() -> None:
    heads = [set(printed(width)[0].split()) for width in (120, 84, 70)]
    assert "headroom" in heads[0] and "out" in heads[0]
    assert "out" not in heads[-1]
    assert all("offer" in head and "TTFT" in head for head in heads)


def test_what_wraps_takes_one_line_where_there_is_room() -> None:
    assert any("16384 x h100-sxm5-80gb" in line and "tp 8 pp 16 vpp 8" in line for line in printed(140))


def test_a_width_that_nothing_fits_still_prints_everything_that_stays() -> None:
    text = "".join("".join(printed(40)).split())
    assert "16384" in text and "TTFT" in text
