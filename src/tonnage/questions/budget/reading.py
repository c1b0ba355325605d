"""`tonnage plan budget`: an amount of money, judged by a service or a run whose size is found later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tonnage import catalog, units
from tonnage.catalog import Additions
from tonnage.core.reading import build, read_fields
from tonnage.errors import BadRequest, echo
from tonnage.questions.budget.request import Budget
from tonnage.questions.serve.reading import serve_request, service_fields

_PER_TIME: Final = re.compile(r"/\s*[a-z]+|\bper\s+[a-z]+|\ba\s+(?:month|day|hour|year|week)\b", re.IGNORECASE)


_OF_TIME: Final = re.compile(r"\s*(?:/|\bper\b|\ba\b)\s*", re.IGNORECASE)


_HOURS: Final = {"h": 1.0, "hr": 1.0, "hour": 1.0, "d": 24.0, "day": 24.0, "week": 168.0, "mo": 730.0, "month": 730.0,
                 "yr": 8760.0, "year": 8760.0}  # fmt: skip


MOST_USD: Final = 1e12


def budget_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Budget:
    """
    A budget from named values.

    Raises
    ------
    BadRequest
        The amount is missing or none, or a field is unknown, out of range or contradicts another.
    """
    given = read_fields(values, Budget)
    if "amount" not in given:
        raise BadRequest('amount is missing: give what may be spent, such as "$3,000/month" or "$50,000"')
    per_h, usd = read_amount(given["amount"])
    purpose = given.get("purpose") or ("serving" if per_h is not None else "training")
    if purpose == "serving" and per_h is None:
        raise BadRequest(f"amount: '{echo(given['amount'])}' names no time; a service costs by the month: $3,000/month")
    if purpose != "serving" and usd is None:
        raise BadRequest(f"amount: '{echo(given['amount'])}' is by time; a run costs a sum, such as $50,000")
    if purpose == "serving" and (stray := [name for name in ("tokens", "deadline") if name in given]):
        raise BadRequest(f"{stray[0]} only means something for --purpose training or finetuning")
    if purpose == "serving" and "model" not in given and "rate" not in given:
        raise BadRequest("name a model for its largest rate, or a rate (2/s) for the best model that carries it")
    if purpose != "serving" and "rate" in given:
        raise BadRequest("rate only means something for --purpose serving")
    if purpose == "training" and "model" in given:
        raise BadRequest("model: training finds the size itself; for a given model ask `tonnage plan train --budget`")
    serve = serve_request(service_fields(values, model=given.get("model")), additions=additions)
    return build(
        Budget,
        given,
        additions=additions,
        purpose=purpose,
        serve=serve,
        usd_per_h=per_h,
        usd=usd,
    )


def read_amount(text: str) -> tuple[float | None, float | None]:
    """
    USD an hour, or USD, whichever the text names.

    Raises
    ------
    BadRequest
        It is no amount of money.

    Examples
    --------
    >>> read_amount("$3,650/month"), read_amount("$50,000"), read_amount("$48/day")
    ((5.0, None), (None, 50000.0), (2.0, None))
    """
    if not _PER_TIME.search(text):
        usd = units.read(text, "USD", field="amount")
        if not 1.0 <= usd <= MOST_USD:
            raise BadRequest(f"amount: '{echo(text)}' is out of range; give $1 to $1,000,000,000,000")
        return None, usd
    money, time = _OF_TIME.split(text.strip(), maxsplit=1)
    hours = _HOURS.get(time.strip().lower().removesuffix("s"))
    if hours is None:
        raise BadRequest(f"amount: '{echo(text)}' is by no time that is known; write /month, /h, /day or /year")
    per_h = units.read(money, "USD", field="amount") / hours
    if not 1e-4 <= per_h <= 1e7:
        raise BadRequest(f"amount: '{echo(text)}' is out of range; give $0.0001/h to $10,000,000/h")
    return per_h, None
