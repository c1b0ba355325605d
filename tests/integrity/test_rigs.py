"""Machines as their owners published them: every row has its page and date, and reads as an owner would write it."""

from tools.rigs import rows_of

from tonnage.catalog.hub.resolve import resolve
from tonnage.core.machine import machine_named
from tonnage.domain.precision import Precision


def test_every_row_has_a_page_a_date_and_a_machine_that_reads() -> None:
    rows = rows_of()
    assert len({row["id"] for row in rows}) == len(rows)
    assert len({row["rig"] for row in rows}) >= 30
    for row in rows:
        assert row["source"].startswith("https://"), row["id"]
        assert row["published"].startswith("20"), row["id"]
        assert row["decode_per_s"] or row["prompt_per_s"], row["id"]
        assert (row["host_basis"] == "stated") == bool(row["host_gb_per_s"]), row["id"]
        assert row["split"] in {"", "tensor"}, row["id"]
        assert machine_named(row["machine"]).title
        assert resolve(row["model"]).layers
        Precision(weights=row["weights"], kv=row["cache"] or "fp16", activations="fp16")
