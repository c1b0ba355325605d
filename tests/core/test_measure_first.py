"""The one measurement of a first screen: its chance and its limit against what the normal says; every plan has one."""

import math
from statistics import NormalDist

import pytest
from tests.report.examples import answered, names

import tonnage
from tonnage.catalog.spreads import NINETY
from tonnage.core.measure_first import (
    MARGIN,
    REPEATED,
    Rival,
    likelier,
    likeliest_to_overturn,
    narrows,
    smoothly,
    to_stay_within,
)
from tonnage.domain.answer import Quantity
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.questions.answers import document_of
from tonnage.report.document import Text

WIDTH = 0.2
NORMAL = NormalDist()


def on_one_part(tp: int) -> Configuration:
    return Configuration(
        accelerator="h200-sxm-141gb",
        layout=Layout(tp=tp),
        precision=Precision(weights="fp8"),
        engine=Engine(name="vllm"),
    )


def rival(
    place: int,
    usd: float,
    *,
    margin: float = math.inf,
    width: float = WIDTH,
    configuration: Configuration | None = None,
) -> Rival:
    factor = math.exp(width * NINETY)
    return Rival(
        place=place,
        configuration=configuration,
        cost=smoothly(Quantity(value=usd, unit="USD").within(factor)),
        margin=margin,
        measured=Quantity(value=0.02, unit="s").within(factor),
        name="TPOT",
        what=f"option {place}",
        load="8 at once",
        usd=1.0,
    )


def seen_share() -> float:
    """Of a measured option's variance, what the measurement tells."""
    return 1.0 / (1.0 + (REPEATED / WIDTH) ** 2)


def test_a_cheaper_rival_leads_as_often_as_the_normal_says() -> None:
    found = likeliest_to_overturn([rival(0, 1.0, width=0.01), rival(1, 1.1)], confidence=0.8)
    faster = math.log(1.1 / (1.0 - MARGIN)) / WIDTH
    expected = 1.0 - NORMAL.cdf(faster / math.sqrt(seen_share()))
    assert found.option == 1 and found.chance == pytest.approx(expected, abs=1 / 40)
    told = 0.02 * math.exp(-faster / math.sqrt(seen_share()) * WIDTH)
    assert found.below == pytest.approx(told, rel=0.01) and found.above is None
    assert "it leads" in found.sentence and found.minutes == 5


def test_the_first_loses_where_it_no_longer_has_its_confidence() -> None:
    """It needs 0.8 = Phi(0.84); measured, what is left of its error is small, so it must only keep its limits."""
    margin = 1.0
    found = likeliest_to_overturn([rival(0, 1.0, margin=margin), rival(1, 3.0)], confidence=0.8)
    share = seen_share()
    slower = margin - NORMAL.inv_cdf(0.8) * math.sqrt(1.0 - share)
    expected = NORMAL.cdf(-slower / math.sqrt(share))
    assert found.option == 0 and found.chance == pytest.approx(expected, abs=1 / 40)
    assert found.above == pytest.approx(0.02 * math.exp(slower / math.sqrt(share) * WIDTH), rel=0.01)
    assert found.becomes == "option 1"


@pytest.mark.parametrize(("accelerators", "said"), [(8.0, "the same on 8 leads"), (4.0, "the same at another offer")])
def test_two_of_one_configuration_are_told_apart_without_a_rank(accelerators: float, said: str) -> None:
    first = rival(0, 1.0, margin=1.0)._replace(what="H100", accelerators=4.0)
    other = rival(1, 3.0)._replace(what="H100", accelerators=accelerators)
    found = likeliest_to_overturn([first, other], confidence=0.8)
    assert said in found.sentence and "option" not in found.sentence


def test_a_rival_that_is_not_sure_yet_may_prove_itself() -> None:
    found = likeliest_to_overturn([rival(0, 1.0), rival(1, 0.5, margin=0.5)], confidence=0.8)
    assert found.option == 1 and found.below is not None and found.below > 0.02, "as predicted, it would be sure"
    slower = 0.5 - NORMAL.inv_cdf(0.8) * math.sqrt(1.0 - seen_share())
    assert found.chance == pytest.approx(NORMAL.cdf(slower / math.sqrt(seen_share())), abs=1 / 40)


@pytest.mark.parametrize("margin", [0.85, 0.9])
def test_no_rival_is_measured_that_leads_only_where_it_is_slower(margin: float) -> None:
    """
    Two options of one part: the dearer is sure of its limits, the first barely. Where the dearer is measured slower,
    the first is slower with it, loses its confidence, and the dearer leads: which measuring the first itself tells.
    """
    first = rival(0, 1.0, margin=margin, width=0.02, configuration=on_one_part(1))
    dearer = rival(1, 2.0, margin=9.0, configuration=on_one_part(2))
    found = likeliest_to_overturn([first, dearer], confidence=0.8)
    assert found.option == 0 and (found.chance == 0.0 or found.above is not None)
    assert found.becomes in ("", "option 1")


def test_where_the_first_leads_again_both_ends_are_said() -> None:
    """Two options of one part: a little faster, the second needs a replica less; faster still, so does the first."""
    first = rival(0, 1.0, configuration=on_one_part(1))._replace(cost=lambda faster: 0.4 if faster > 0.8 else 1.0)
    second = rival(1, 1.2, configuration=on_one_part(2))._replace(cost=lambda faster: 0.8 if faster > 0.3 else 1.2)
    found = likeliest_to_overturn([first, second], confidence=0.5)
    assert found.option == 1 and found.above is not None and found.below is not None
    assert found.above < found.below < found.predicted and "between" in found.sentence
    ends = [math.log(found.predicted / value) / WIDTH for value in (found.below, found.above)]
    assert found.chance == pytest.approx(NORMAL.cdf(ends[1]) - NORMAL.cdf(ends[0]), abs=1 / 40)


def test_nothing_is_promised_where_nothing_is_likely_to_change() -> None:
    found = likeliest_to_overturn([rival(0, 1.0), rival(1, 9.0)], confidence=0.8)
    assert found.chance == 0.0 and found.above is found.below is None and not found.becomes
    assert "no likely result changes the choice" in found.sentence


def test_what_ranks_behind_for_another_reason_stays_behind() -> None:
    """The second is cheaper and sure, so the plan ranked it behind for its price's trust: no speed changes that."""
    found = likeliest_to_overturn([rival(0, 1.0), rival(1, 0.5)], confidence=0.8)
    assert found.chance == 0.0 and found.option == 0


def test_a_job_at_the_end_of_its_budget_breaks_it_half_the_time() -> None:
    even = to_stay_within(rival(0, 1.0), 1.0, what="the budget")
    assert even.chance == pytest.approx(0.5, abs=1 / 40) and even.becomes
    assert to_stay_within(rival(0, 1.0), 5.0, what="the budget").chance == 0.0


def test_of_several_parts_the_likeliest() -> None:
    weak, strong = narrows(rival(0, 1.0), "why"), likeliest_to_overturn([rival(0, 1), rival(1, 1.1)], confidence=0.8)
    assert likelier((None, weak, strong)) is strong and likelier((None,)) is None


@pytest.mark.parametrize("name", [name for name in names() if not name.startswith(("compare", "simulate", "rent"))])
def test_every_plan_ends_its_first_screen_with_one(name: str) -> None:
    plan = answered(name)
    found = plan.measure_first
    assert found.sentence.startswith("Measure first (5 min")
    assert 0.0 <= found.chance <= 1.0 and (found.chance == 0.0) == (found.above is found.below is None)
    assert found.option is None or not hasattr(plan, "options") or found.option < len(plan.options)
    last = [block for block in document_of(plan).first if isinstance(block, Text)][-1]
    assert last.text == found.sentence


def test_what_is_measured_holds_the_model() -> None:
    """Eight replicas share a 70B in 16 bits: one H100 alone holds a seventh of it."""
    asked = {"model": "Llama-3.1-70B", "method": "lora", "examples": "50k", "tokens_per_example": "900"}
    found = tonnage.plan_finetune(**asked, accelerator="H100", count="8", framework="hf").measure_first
    assert found.what.startswith("4 x H100") and "FSDP" in found.what
