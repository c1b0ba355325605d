"""What fetching prices, or asking a hub again for models, did, as a person reads it."""

from __future__ import annotations

from tonnage.domain.listing import Refresh, Refreshed, RefreshedModel, RefreshedModels
from tonnage.report.console import make_console

__all__ = ["show_refreshed", "show_refreshed_models"]


def show_refreshed(found: Refreshed) -> None:
    """One line a provider, those that kept what they had last."""
    console = make_console()
    kept = [one for one in found.refreshed if one.kept]
    prices = sum(one.kept for one in kept)
    console.print(
        f"{prices:,} prices of {len(kept)} providers fetched from {found.source}.", style="bold", markup=False
    )
    for one in sorted(found.refreshed, key=lambda one: (not one.kept, one.provider)):
        console.print(f"  {_line(one)}", markup=False)


def _line(one: Refresh) -> str:
    if not one.kept:
        return f"{one.provider}: keeps what is known; {one.why}"
    moved = "" if one.moved is None else f", {one.moved - 1:+.0%} at the middle against those known"
    left = f", {one.left_out} instances with unknown accelerators left out" if one.left_out else ""
    return f"{one.provider}: {one.kept:,} prices of {one.as_of}{moved}{left}"


def show_refreshed_models(found: RefreshedModels) -> None:
    """One line a model."""
    console = make_console()
    read = sum(not one.why for one in found.refreshed)
    models = "model" if read == 1 else "models"
    console.print(f"{read} {models} read from {found.source}.", style="bold", markup=False)
    for one in found.refreshed:
        console.print(f"  {one.model}: {_of_model(one)}", markup=False)


def _of_model(one: RefreshedModel) -> str:
    if one.why:
        return f"keeps what is known; {one.why}"
    if not one.known:
        return "kept in this machine's cache, and known without a network from now on"
    if not one.differs:
        return "as the catalogue says"
    return (
        f"the hub differs in {', '.join(one.differs)}; the catalogue holds, a config.json given as a path overrides it"
    )
