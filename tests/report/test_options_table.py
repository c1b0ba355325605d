"""The table of options fits the width that there is."""

import io

import pytest
from rich.console import Console

from tonnage.report.options_table import Column, options_table

COLUMNS = (
    Column("#", ("1~", "2"), number=True),
    Column("accelerators", ("16384 x h100-sxm5-80gb", "2 x l4"), wraps=True),
    Column("layout", ("tp 8 pp 16 vpp 8", "tp 1"), wraps=True),
    Column("TTFT", ("322 (159-652) ms", "28 (14-56) ms")),
    Column("free", ("46%", "9%"), number=True, spare=1),
    Column("$/1M out", ("3.22", "120.50"), number=True, spare=2),
    Column("offer", ("seeweb it-fr2, 2026-05*", "verda FIN-03, 2026-05*"), wraps=True),
)


def printed(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(options_table(COLUMNS, width=width))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [70, 80, 100, 118, 140])
def test_no_word_is_cut_and_no_line_too_long(width: int) -> None:
    found = printed(width)
    assert all(len(line.rstrip()) <= width for line in found)
    words = {word for line in found for word in line.split()}
    assert {"h100-sxm5-80gb", "322", "(159-652)", "it-fr2,", "2026-05*"} <= words


def test_what_can_be_spared_goes_first_and_in_order() -> None:
    heads = [set(printed(width)[1].split()) for width in (120, 84, 70)]
    assert "free" in heads[0] and "out" in heads[0]
    assert "out" not in heads[-1]
    assert all("offer" in head and "TTFT" in head for head in heads)


def test_what_wraps_takes_one_line_where_there_is_room() -> None:
    assert any("16384 x h100-sxm5-80gb" in line and "tp 8 pp 16 vpp 8" in line for line in printed(140))


def test_a_width_that_nothing_fits_still_prints_everything_that_stays() -> None:
    text = "".join("".join(printed(40)).split())
    assert "16384" in text and "TTFT" in text
