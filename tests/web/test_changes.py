"""Sentences that say what would change an answer, and the questions behind their Apply."""

from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

from tonnage.domain.plan import BreakEven
from tonnage.report.document import Text
from tonnage.web.changes import break_even_suggestions, suggestions
from tonnage.web.questions import QUESTIONS

GIVEN = {"model": "8B", "rate": "4/s", "ttft": "1 s", "tpot": "50 ms", "traffic": "chat"}
KNOWN = frozenset(field.name for field in QUESTIONS["plan/serve"].fields)


def applied(href: str) -> dict[str, str]:
    """The fields that an address asks for."""
    assert urlsplit(href).path == "/plan/serve"
    return {name: value[0] for name, value in parse_qs(urlsplit(href).query).items()}


def point(input: str, value: float, unit: str, *, now: float, ties: bool = False) -> BreakEven:
    return BreakEven(input=input, value=value, unit=unit, becomes="2 x B200 180 GB", now=now, ties=ties)


def test_a_break_even_is_applied_just_past_its_point() -> None:
    found = break_even_suggestions(
        (point("mean rate above", 7.91, "1/s", now=4.0), point("TPOT below", 0.01405, "s", now=0.05),
         point("B300 288 GB (x, on-demand) below", 4.89, "USD/h", now=6.99)),
        path="plan/serve", given=GIVEN, known=KNOWN,
    )  # fmt: skip
    by_text = {one.text.split(" (now")[0]: one for one in found}
    assert applied(by_text["Mean rate above 7.91/s"].href) == {**GIVEN, "rate": "8/s"}
    assert applied(by_text["TPOT below 14 ms"].href) == {**GIVEN, "tpot": "14 ms"}
    price = next(one for one in found if "costs less than $4.89/h" in one.text)
    assert not price.href and "B300" in price.text and "B200" in price.text


def test_points_within_error_are_shown_where_there_is_little_else() -> None:
    clear, tied = point("mean rate above", 8.0, "1/s", now=4.0), point("TTFT below", 0.3, "s", now=1.0, ties=True)
    few = break_even_suggestions((clear, tied), path="plan/serve", given=GIVEN, known=KNOWN)
    assert [one.text.split()[0] for one in few] == ["Mean", "TTFT"] and "less than the error" in few[1].note
    more = break_even_suggestions(
        (clear, tied, point("peak over mean above", 2.0, "count", now=1.0)), path="plan/serve", given=GIVEN, known=KNOWN
    )
    assert not [one for one in more if one.text.startswith("TTFT")]


def test_what_would_work_is_applied_whatever_it_is() -> None:
    lines = (
        "with --ttft '1.5 s' --tpot '30 ms': 2 x H100 at $4.58/h",
        "without the rule against community hosts (--community): 1 x RTX 3090 at $0.10/h",
        "without --term: 1 x H100 at $1.10/h",
    )
    looser, community, term = suggestions(
        SimpleNamespace(break_even=()),
        [Text(f"Would work: {line}", kind="relaxed") for line in lines],
        path="plan/serve",
        given=GIVEN,
        known=KNOWN,
    )
    assert looser.text == "With TTFT within 1.5 s and TPOT within 30 ms: 2 x H100 at $4.58/h"
    assert applied(looser.href) == {**GIVEN, "ttft": "1.5 s", "tpot": "30 ms"}
    assert community.text == "Without the rule against community hosts: 1 x RTX 3090 at $0.10/h"
    assert applied(community.href) == {**GIVEN, "community": "true"}
    assert applied(term.href)["term"] == "on-demand, spot, reserved-1y, reserved-3y"


def test_lines_that_offer_something_ask_for_it_and_relaxed_limits_are_dropped() -> None:
    nothing = SimpleNamespace(break_even=())
    offer, without, risk = suggestions(
        nothing,
        [
            Text("Survives the loss of any one replica: $9.78/h.", asks={"spare_replicas": "1"}),
            Text("Would work: without --tpot: 8 x MI355X at $68.80/h", kind="relaxed"),
            Text("Risk: the price is 27 weeks old."),
        ],
        path="plan/serve",
        given=GIVEN,
        known=KNOWN,
    )
    assert applied(offer.href) == {**GIVEN, "spare_replicas": "1"}
    assert without.text == "Without the TPOT objective: 8 x MI355X at $68.80/h"
    assert applied(without.href) == {name: value for name, value in GIVEN.items() if name != "tpot"}
    assert not risk.href
    again = suggestions(
        nothing,
        [Text(offer.text, asks={"spare_replicas": "1"})],
        path="plan/serve",
        given={**GIVEN, "spare_replicas": "1"},
        known=KNOWN,
    )
    assert not again[0].href
