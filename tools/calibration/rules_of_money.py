"""Rules of thumb about money against prices, ownership parameters and plans."""

from __future__ import annotations

from datetime import date
from statistics import median
from typing import Final

from tools.calibration.rules import BF16, EIGHT, Judge, Judged, RuleOfThumb, requests_per_s, rule

from tonnage import catalog
from tonnage.pricing.owning import resale_share
from tonnage.questions.cost.inputs import rent_or_buy_request
from tonnage.questions.cost.rent_or_buy import FASTEST_DECLINE, rent_or_buy
from tonnage.questions.lifecycle.plan import plan_lifecycle
from tonnage.questions.lifecycle.question import lifecycle_request


def _claimed(id: str, machine: str, words: str, *, on: str) -> Judge:
    """A rule that `rent-or-buy` judges itself."""

    def judge(today: date) -> RuleOfThumb:
        answer = rent_or_buy(rent_or_buy_request({"machine": machine}), today=today)
        (found,) = (claim for claim in answer.claims if words in claim.rule)
        return RuleOfThumb(
            id=id, area="money", rule=found.rule, computed=f"{on}: {found.computed}", verdict=found.verdict
        )

    return judge


@rule("spot-saves", "money", "spot saves 60 to 90 %")
def _spot() -> Judged:
    saved = []
    for offer in catalog.offers():
        listed, spot = offer.usd_per_hour("on-demand"), offer.usd_per_hour("spot")
        if listed and spot and not offer.history and offer.count >= 1 and spot < listed:
            saved.append(1.0 - spot / listed)
    saved.sort()
    inside = sum(0.6 <= share <= 0.9 for share in saved) / len(saved)
    low, high = saved[len(saved) // 10], saved[-len(saved) // 10]
    computed = (
        f"{len(saved)} offers with both prices: median {median(saved):.0%}, eight in ten from {low:.0%} to "
        f"{high:.0%}; {inside:.0%} of them lie in the range, before lost work"
    )
    return computed, "holds" if inside > 0.8 else "depends" if inside > 0.2 else "fails"


def _cheapest(accelerator: str) -> float:
    """Of one accelerator, on demand, any provider. [USD/h]"""
    return min(
        price / offer.count
        for offer in catalog.offers()
        if offer.accelerator == accelerator and not offer.history and offer.count >= 1
        for price in [offer.usd_per_hour("on-demand")]
        if price is not None
    )


@rule("a100-over-3080", "money", "an A100 costs three times an RTX 3080 by the hour")
def _a100_over_3080() -> Judged:
    big, small = _cheapest("a100-sxm4-80gb"), _cheapest("rtx-3080-10gb")
    ratio = big / small
    computed = f"cheapest listed: {big:.2f} and {small:.2f} USD/h, {ratio:.0f} times"
    return computed, "holds" if 2.4 <= ratio <= 3.75 else "fails"


def _mi300x(today: date) -> RuleOfThumb:
    row = catalog.parameter("claim", "mi300x_cost_vs_nvidia")
    bought = (
        catalog.parameter("server_price", "mi300x-8gpu").value
        / catalog.parameter("server_price", "hgx-h100-8gpu").value
    )
    rented = _cheapest("mi300x") / _cheapest("h100-sxm5-80gb")
    return RuleOfThumb(
        id="mi300x-cost",
        area="money",
        rule=f"an MI300X costs {row.value:.0%} of its NVIDIA counterpart",
        computed=f"{bought:.0%} of an HGX H100 to buy, {rented:.0%} of the cheapest H100 to rent",
        verdict="holds" if max(bought, rented) <= row.value * 1.1 else "depends" if bought < 1 else "fails",
    )


@rule("dearer-but-faster", "money", "the card at three times the price is four to five times as fast")
def _dearer_but_faster() -> Judged:
    price = _cheapest("h100-sxm5-80gb") / _cheapest("a100-sxm4-80gb")
    h100, a100 = (requests_per_s(name, BF16, osl=256) for name in ("h100-sxm5-80gb", "a100-sxm4-80gb"))
    faster = h100 / a100
    computed = (
        f"H100 over A100, cheapest listed: {price:.1f}x the price, {faster:.1f}x the requests of an 8B model; "
        f"H100 is {'cheaper' if faster > price else 'more expensive'} per request"
    )
    return computed, "roughly" if faster > price else "fails"


def _inference_share(today: date) -> RuleOfThumb:
    row = catalog.parameter("claim", "inference_share_of_lifetime_cost")
    plan = plan_lifecycle(
        lifecycle_request(
            {
                "model": EIGHT,
                "months": 12,
                "train": {"tokens": "100B", "deadline": "30 days"},
                "serve": {"rate": "20/s", "traffic": "chat", "ttft": "1 s", "tpot": "50 ms"},
            }
        ),
        today=today,
    )
    share = plan.serve_share or 0.0
    return RuleOfThumb(
        id="inference-share",
        area="money",
        rule=f"serving is {row.low or 0:.0%} to {row.high or 0:.0%} of a model's lifetime cost",
        computed=f"8B on 100B tokens, then 20 requests/s of chat for a year: {share:.0%}; it follows the traffic",
        verdict="depends",
    )


@rule("outdated", "money", "hardware is outdated in nine to twelve months")
def _price_decline() -> Judged:
    row = catalog.parameter("depreciation", "residual_value_36m")
    left = resale_share(years=1.0, after_3_years=row.value)
    computed = (
        f"after a year it sells for {left:.0%} of its price (planning figure: {row.value:.0%} after three years), "
        f"and the same instance rents for {1 - FASTEST_DECLINE:.0%} (p5.48xlarge, 2023 to 2026)"
    )
    return computed, "fails"


MONEY: Final[tuple[Judge, ...]] = (
    _claimed("rent-below-70", "H100", "below", on="HGX H100"),
    _claimed("rent-until-2600", "A100", "accelerator-hours", on="used HGX A100"),
    _claimed("own-from-80", "H100", "over three years", on="HGX H100"),
    _claimed("purchase-half", "H100", "lifetime cost", on="HGX H100 at 70 % use"),
    _claimed("pays-back", "H100", "hyperscalers", on="HGX H100"),
    _spot,
    _a100_over_3080,
    _mi300x,
    _dearer_but_faster,
    _inference_share,
    _price_decline,
)
"""Rules about money."""
