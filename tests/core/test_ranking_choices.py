"""Choices between ranked options: named by what speaks for them, never the same option twice."""

from datetime import date
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.core.ranking import NEAR, Traits, choices
from tonnage.domain.plan import Choice, ServePlan
from tonnage.questions.ask import answer

TODAY = date(2026, 7, 1)
EIGHT = "meta-llama/Llama-3.1-8B-Instruct"


def names(*options: Traits) -> dict[str, int]:
    return {choice.name: choice.option for choice in choices(options)}


def test_nothing_to_choose_from() -> None:
    assert choices(()) == ()


def test_of_a_service_cheapest_fastest_near_its_price_and_one_that_survives() -> None:
    found = names(
        Traits(usd=10.0, seconds=9.0, survives=False),
        Traits(usd=10.9, seconds=5.0, survives=False),
        Traits(usd=11.1, seconds=1.0, survives=False),
        Traits(usd=14.0, seconds=8.0, survives=True),
        Traits(usd=13.0, seconds=9.0, survives=True, sure=False),
    )
    assert found == {"cheapest": 0, "fastest": 1, "resilient": 3}


def test_a_price_of_third_parties_is_no_choice_beside_a_seller_s() -> None:
    first = Traits(usd=10.0, seconds=9.0, survives=False)
    doubted = Traits(usd=7.0, seconds=5.0, survives=True, listed=False)
    listed = Traits(usd=12.0, seconds=9.0, survives=True)
    assert names(first, doubted, listed) == {"cheapest": 0, "resilient": 2}
    assert names(Traits(usd=10.0, seconds=9.0, survives=False, listed=False), doubted) == {"cheapest": 0, "fastest": 1}


def test_of_a_job_the_soonest_at_any_price() -> None:
    found = names(Traits(usd=10.0, seconds=9.0), Traits(usd=10.5, seconds=8.0), Traits(usd=90.0, seconds=1.0))
    assert found == {"cheapest": 0, "fastest": 1, "soonest": 2}


def test_one_option_that_has_it_all_is_one_choice() -> None:
    assert names(Traits(usd=1.0, seconds=1.0, survives=True), Traits(usd=1.05, seconds=2.0, survives=True)) == {
        "cheapest": 0
    }


options = st.lists(
    st.builds(
        Traits,
        usd=st.sampled_from([1.0, 1.05, 1.1, 2.0, inf]),
        seconds=st.sampled_from([1.0, 2.0, 3.0]),
        sure=st.booleans(),
        survives=st.booleans(),
    ),
    max_size=6,
)


@given(options, st.booleans())
def test_choices_differ_and_hold_what_their_names_say(ranked: list[Traits], job: bool) -> None:
    if job:
        ranked = [Traits(usd=one.usd, seconds=one.seconds, sure=one.sure) for one in ranked]
    found = choices(ranked)
    assert len({choice.option for choice in found}) == len({choice.name for choice in found}) == len(found) <= 3
    assert [choice.name for choice in found[:1]] == (["cheapest"] if ranked else [])
    for choice in found[1:]:
        option, first = ranked[choice.option], ranked[0]
        assert option.sure or not first.sure
        assert choice.name == "resilient" or option.seconds < first.seconds
        assert choice.name != "fastest" or option.usd <= NEAR * first.usd
        assert choice.name != "resilient" or (option.survives and not first.survives)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("serve", {"rate": "4/s", "traffic": "chat", "ttft": "1 s", "accelerator": ["H100", "L40S"], "quick": True}),
        ("batch", {"items": "1M", "prompt_tokens": "800", "output_tokens": "150", "accelerator": ["H100", "L40S"]}),
    ],
)
def test_plans_name_their_choices(kind: str, fields: dict[str, object]) -> None:
    made = answer(kind, {"model": EIGHT, **fields}, today=TODAY)
    assert made.choices[0] == Choice(name="cheapest", option=0)
    assert all(choice.option < len(made.options) for choice in made.choices)
    if isinstance(made, ServePlan):
        safe = [made.options[choice.option] for choice in made.choices if choice.name == "resilient"]
        for option in safe:
            peak = 4.0 * made.request.shape.peak_to_mean
            lost = -(-option.replicas // option.bill.instances)
            assert peak <= (option.replicas - lost) * option.capacity.max_rate_per_s.value * (1 + 1e-9)
