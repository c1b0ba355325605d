"""Every example of the repository, answered once for all tests of reports; plans without their simulations."""

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from tonnage.catalog import NOTHING
from tonnage.core.files import read_mapping
from tonnage.questions.ask import answer
from tonnage.questions.compare.files import compare_files
from tonnage.questions.cost.inputs import rent_or_buy_request
from tonnage.questions.cost.rent_or_buy import rent_or_buy
from tonnage.questions.registry import KINDS
from tonnage.questions.simulate.page import simulation_question
from tonnage.questions.simulate.simulate import simulate, simulation_of
from tonnage.report.document import Document

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
TODAY: Final = date(2026, 11, 22)
QUICK: Final = frozenset({"serve", "fleet", "lifecycle"})
"""Kinds of plan that need minutes when they simulate; the report is the same without."""
FEW: Final = {"budget-lab": "H100", "budget-70b": "H100,H200"}
"""Kinds of accelerator of budgets, which search the market at every rate and size."""
REQUESTS: Final = 1500
"""Requests of a simulation in these tests."""


def names() -> list[str]:
    """Examples with one answer each: a sweep has many, and a cluster file none."""
    return sorted(path.stem for path in EXAMPLES.glob("*.yaml") if not path.stem.startswith("sweep"))


@cache
def answered(name: str) -> Any:
    """The answer to an example."""
    path = str(EXAMPLES / f"{name}.yaml")
    fields = read_mapping(path)
    kind = fields.pop("plan", None)
    if kind in KINDS:
        if str(fields.get("model", "")).startswith("examples/"):
            fields["model"] = str(EXAMPLES.parent / fields["model"])
        quick = {"quick": True} if kind in QUICK else {}
        few = {"accelerator": FEW[name]} if name in FEW else {}
        return answer(kind, {**fields, **quick, **few}, additions=NOTHING, today=TODAY)
    if fields.pop("cost", None):
        return rent_or_buy(rent_or_buy_request(fields), today=TODAY)
    if name.startswith("compare"):
        return compare_files((path,))
    return simulate(simulation_of(_short(fields)))


def question(name: str) -> list[str]:
    """What stands above answers that do not hold their question."""
    fields = read_mapping(str(EXAMPLES / f"{name}.yaml"))
    return simulation_question(simulation_of(_short(fields))) if name.startswith("simulate") else []


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "capacity": False, "traffic": {**fields["traffic"], "requests": REQUESTS}}


def texts_of(document: Document) -> list[str]:
    """Every text that blocks hold, cells included."""
    found: list[str] = []
    for block in document.blocks:
        for inner in (block, *getattr(block, "blocks", ())):
            found += [getattr(inner, "text", ""), getattr(inner, "title", "")] if not hasattr(inner, "meters") else []
            found += [meter.value for meter in getattr(inner, "meters", ())]
            found += [cell for row in getattr(inner, "rows", ()) for cell in row]
    return [text for text in found if text.strip()]
