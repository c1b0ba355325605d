"""A listing as text: whole for a pipe, inside the window on a terminal, unknown as a dash."""

import sys

import pytest

from tonnage.domain.accelerator import Accelerator, Fact, Link
from tonnage.domain.listing import AcceleratorCard, Column, Hidden, Listing
from tonnage.report.listing import show_card, show_listing

LISTING = Listing(
    kind="offers",
    columns=(
        Column(name="provider"),
        Column(name="memory", unit="bytes"),
        Column(name="price", unit="USD/h"),
        Column(name="spot", unit="yes/no"),
        Column(name="as_of", unit="date"),
        Column(name="notes", wide=True),
    ),
    rows=(
        {
            "provider": "a [red]b",
            "memory": 80 * 2.0**30,
            "price": 0.05,
            "spot": False,
            "as_of": "2026-08-31",
            "notes": "n",
        },
        dict(provider="c", memory=None, price=None, spot=None, as_of="2026-01", notes=None),
    ),
    hidden=(Hidden(reason="beyond --limit 2", rows=3),),
    notes=("'X' taken as Y",),
    today="2026-09-01",
)
PART = Accelerator(
    id="x",
    vendor="V",
    name="X",
    architecture="",
    segment="edge",
    memory_bytes=8e9,
    memory_bytes_per_s=1e11,
    peaks={"int8": 1e13},
    link=Link(kind="none"),
    host_link=Link(kind="pcie4"),
    fact=Fact(source="a sheet", notes="word " * 40),
)


def in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")


def test_a_pipe_gets_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    show_listing(LISTING)
    assert capsys.readouterr().out.splitlines() == [
        "'X' taken as Y",
        "provider  memory  price  spot  as of",
        "             GiB    $/h",
        "a [red]b      80   0.05  no    2026-08-31",
        "c              –      –  –     2026-01*",
        "2 of 5 offers shown; hidden: 3 beyond --limit 2.",
        "* older than 90 days on 2026-09-01",
    ]


def test_a_first_screen_counts_the_rows_that_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    show_listing(LISTING, most=1)
    out = capsys.readouterr().out
    assert "a [red]b" in out and "\nc " not in out
    assert "1 of 5 offers shown; hidden: 3 beyond --limit 2; 1 more, --all shows them." in out
    show_listing(LISTING, most=2)
    assert "--all" not in capsys.readouterr().out


def test_wide_adds_the_other_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show_listing(LISTING, wide=True)
    assert "notes" in capsys.readouterr().out.splitlines()[1]


def test_a_narrow_window_drops_columns_but_never_price_and_date(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_window(monkeypatch)
    show_listing(LISTING)
    out = capsys.readouterr().out
    assert "provider  memory  price  as of" in out
    assert "This window is too narrow for: spot." in out
    assert all(len(line) <= 40 for line in out.splitlines())
    assert "2 of 5 offers shown; hidden: 3 beyond --limit 2." in " ".join(out.split())


def test_long_notes_fold_in_a_window(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_window(monkeypatch)
    empty = Listing(kind="offers", columns=LISTING.columns, rows=(), today="2026-09-01")
    show_card(AcceleratorCard(accelerator=PART, offers=empty))
    out = capsys.readouterr().out
    assert all(len(line) <= 40 for line in out.splitlines())
    assert out.count("word") == 40
    assert "No provider here rents it as asked." in out
    assert "0 of 0 offers shown." in out


def test_a_card_shows_what_is_unknown_as_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    empty = Listing(kind="offers", columns=LISTING.columns, rows=(), today="2026-09-01")
    show_card(AcceleratorCard(accelerator=PART, offers=empty, ambiguity="'?' taken as X"))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "'?' taken as X"
    assert {"power –", "usable memory –", "ECC –", "host link PCIe 4, rate not published", "source a sheet"} <= set(
        lines
    )


def test_where_somebody_reads_ids_are_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = Listing(
        kind="offers",
        columns=(Column(name="accelerator"), Column(name="provider")),
        rows=(
            {"accelerator": "mi300x", "provider": "gcp"},
            {"accelerator": "rtx-4090", "provider": "runpod"},
            {"accelerator": None, "provider": None},
        ),
        today="2026-09-01",
    )
    show_listing(listing)
    assert "mi300x" in (piped := capsys.readouterr().out) and "RunPod" not in piped
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_listing(listing)
    seen = capsys.readouterr().out
    assert "MI300X 192 GB" in seen and "Google Cloud (gcp)" in seen and "RunPod" in seen and "–" in seen
