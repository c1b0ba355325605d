"""Blocks as characters: a table fits the width that there is, and nothing is cut inside a word."""

import io

import pytest
from rich.console import Console

from tonnage.cli.options import show_progress
from tonnage.report.document import Column, Table
from tonnage.report.terminal import print_blocks, rich_table

TABLE = Table(
    columns=(
        Column("#", number=True),
        Column("accelerators", wraps=True),
        Column("layout", wraps=True),
        Column("TTFT"),
        Column("headroom", number=True, spare=1),
        Column("$/1M out", number=True, spare=2),
        Column("offer", wraps=True),
    ),
    rows=(
        (
            "1",
            "16384 x h100-sxm5-80gb",
            "tp 8 pp 16 vpp 8",
            "322 (159-652) ms",
            "46%",
            "3.22",
            "seeweb it-fr2, 2026-05",
        ),
        ("2", "2 x l4", "tp 1", "28 (14-56) ms", "9%", "120.50", "verda FIN-03, 2026-05"),
    ),
)


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


@pytest.mark.parametrize("width", [40, 52, 60])
def test_where_columns_do_not_fit_each_row_is_a_card_and_nothing_is_cut(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (Column(""), Column("accelerators"), Column("time", number=True), Column("cost", number=True))
    rows = (
        ("train", "1 x RTX PRO 6000 Server", "2.81 h (1.6-4.9 h)", "$19.80 ($12-35) each"),
        ("", "16 x TPU v6e Trillium", "27.6 min (20-38 min)", "$1,990 ($1,500-2,700)"),
    )
    print_blocks([Table(columns=columns, rows=rows)], width=width)
    text = capsys.readouterr().out
    assert all(len(line) <= width for line in text.splitlines())
    assert all(cell in text for row in rows for cell in row) and "cost $19.80" in text


@pytest.mark.parametrize("width", [60, 80, 100, 140, None])
def test_no_line_ends_in_blanks_and_empty_columns_are_left_out(
    width: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (Column("part"), Column("size", number=True), Column("from", wraps=True))
    rows = (("weights", "1 GiB", ""), ("cache", "20 GiB", "a long remark " * 12))
    print_blocks([Table(columns=columns, rows=rows)], width=width)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [line.rstrip() for line in lines] and max(map(len, lines)) <= (width or 150)
    assert "".join(lines).count("remark") == 12
    print_blocks([Table(columns=columns, rows=rows[:1])], width=width)
    assert "from" not in capsys.readouterr().out


def test_work_that_takes_long_says_what_it_does_how_far_it_is_and_how_to_stop_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonnage.cli.options.QUIET_S", 0.01)
    monkeypatch.setattr("tonnage.cli.options.BETWEEN_S", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    told = ""
    with show_progress("asking each point") as tell:
        tell(3, 10)
        while "3 of 10" not in told:
            told += capsys.readouterr().err
    told += capsys.readouterr().err
    assert "asking each point, 3 of 10, 0 s; Ctrl-C stops it" in told and told.endswith("\r\x1b[K")
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    with show_progress("nobody looks"):
        pass
    assert capsys.readouterr().err == ""
