"""How does the history look? A table of what was measured, the latest first."""

from __future__ import annotations

from tonnage.domain.measurement import History
from tonnage.report.console import make_console

__all__ = ["show_history"]


def show_history(history: History) -> None:
    """Print entries."""
    from rich.table import Table

    console = make_console()
    count = len(history.entries)
    console.print(f"{count} measurement{'s' if count != 1 else ''} in {history.place}.", markup=False)
    if not count:
        return
    table = Table(box=None, pad_edge=False)
    for head in ("no", "kind", "date", "machine", "model", "of", "versions"):
        table.add_column(head, justify="right" if head == "no" else "left", overflow="fold")
    for entry in history.entries:
        versions = ", ".join(f"{name} {version}" for name, version in entry.versions.items())
        table.add_row(
            str(entry.id), entry.kind, entry.date, entry.machine, entry.model or "–", entry.subject or "–", versions
        )
    console.print(table)
