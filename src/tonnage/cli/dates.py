"""The day that prices are aged from, where somebody gives one."""

from __future__ import annotations

from datetime import date

import click

from tonnage.catalog import Additions

__all__ = ["remark_date"]


def remark_date(today: date | None, additions: Additions) -> None:
    """Say on stderr that a day lies before the price book, which no answer could know."""
    if today is None:
        return
    from tonnage.catalog.offers import date_remark

    remark = date_remark(today, additions=additions)
    if remark is not None:
        click.echo(f"tonnage: {remark}", err=True)
