"""Rules of thumb about money against prices, ownership parameters and plans."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from statistics import median
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.cost import Claim
from tonnage.domain.precision import Precision
from tonnage.pricing.owning import resale_share
from tonnage.questions.cost.inputs import rent_or_buy_request
from tonnage.questions.cost.rent_or_buy import FASTEST_DECLINE, rent_or_buy
from tonnage.questions.lifecycle.plan import plan_lifecycle
from tonnage.questions.lifecycle.question import lifecycle_request
from tonnage.questions.predict.serving import predict_serve


class RuleOfThumb(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule that articles repeat, judged."""

    id: str
    area: str
    """memory, speed, money."""
    rule: str
    computed: str
    """What Tonnage computes for the case the rule speaks of, in words with numbers."""
    verdict: str
    """holds, roughly, fails, depends."""
    measured: str = ""
    """What published measurements say; empty = none at hand."""


def _claim(machine: str, words: str, *, today: date) -> Claim:
    answer = rent_or_buy(rent_or_buy_request({"machine": machine}), today=today)
    (found,) = (claim for claim in answer.claims if words in claim.rule)
    return found


def _rule(id: str, found: Claim, *, on: str) -> RuleOfThumb:
    return RuleOfThumb(id=id, area="money", rule=found.rule, computed=f"{on}: {found.computed}", verdict=found.verdict)


def _rent_below(today: date) -> RuleOfThumb:
    return _rule("rent-below-70", _claim("H100", "below", today=today), on="HGX H100")


def _rent_until(today: date) -> RuleOfThumb:
    return _rule("rent-until-2600", _claim("A100", "accelerator-hours", today=today), on="used HGX A100")


def _own_from(today: date) -> RuleOfThumb:
    return _rule("own-from-80", _claim("H100", "over three years", today=today), on="HGX H100")


def _half(today: date) -> RuleOfThumb:
    return _rule("purchase-half", _claim("H100", "lifetime cost", today=today), on="HGX H100 at 70 % use")


def _months(today: date) -> RuleOfThumb:
    return _rule("pays-back", _claim("H100", "hyperscalers", today=today), on="HGX H100")


def _spot(today: date) -> RuleOfThumb:
    saved = []
    for offer in catalog.offers():
        listed, spot = offer.usd_per_hour("on-demand"), offer.usd_per_hour("spot")
        if listed and spot and not offer.history and offer.count >= 1 and spot < listed:
            saved.append(1.0 - spot / listed)
    saved.sort()
    inside = sum(0.6 <= share <= 0.9 for share in saved) / len(saved)
    low, high = saved[len(saved) // 10], saved[-len(saved) // 10]
    return RuleOfThumb(
        id="spot-saves",
        area="money",
        rule="spot saves 60 to 90 %",
        computed=(
            f"{len(saved)} offers with both prices: median {median(saved):.0%}, eight in ten from {low:.0%} to "
            f"{high:.0%}; {inside:.0%} of them lie in the range, before lost work"
        ),
        verdict="holds" if inside > 0.8 else "depends" if inside > 0.2 else "fails",
    )


def _cheapest(accelerator: str) -> float:
    """Of one accelerator, on demand, any provider. [USD/h]"""
    return min(
        price / offer.count
        for offer in catalog.offers()
        if offer.accelerator == accelerator and not offer.history and offer.count >= 1
        for price in [offer.usd_per_hour("on-demand")]
        if price is not None
    )


def _a100_over_3080(today: date) -> RuleOfThumb:
    big, small = _cheapest("a100-sxm4-80gb"), _cheapest("rtx-3080-10gb")
    ratio = big / small
    return RuleOfThumb(
        id="a100-over-3080",
        area="money",
        rule="an A100 costs three times an RTX 3080 by the hour",
        computed=f"cheapest listed: {big:.2f} and {small:.2f} USD/h, {ratio:.0f} times",
        verdict="holds" if 2.4 <= ratio <= 3.75 else "fails",
    )


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


def _dearer_but_faster(today: date) -> RuleOfThumb:
    precision = Precision(weights="bf16", activations="bf16", kv="bf16")

    def rate(accelerator: str) -> float:
        case = ServeCase(
            model="meta-llama/Llama-3.1-8B-Instruct",
            accelerator=accelerator,
            traffic=Traffic(saturated=True),
            isl=1024,
            osl=256,
            precision=precision,
        )
        found = predict_serve(case).requests_per_s
        assert found is not None
        return found.value

    price = _cheapest("h100-sxm5-80gb") / _cheapest("a100-sxm4-80gb")
    faster = rate("h100-sxm5-80gb") / rate("a100-sxm4-80gb")
    return RuleOfThumb(
        id="dearer-but-faster",
        area="money",
        rule="the card at three times the price is four to five times as fast",
        computed=(
            f"H100 over A100, cheapest listed: {price:.1f}x the price, {faster:.1f}x the requests of an 8B model; "
            f"H100 is {'cheaper' if faster > price else 'more expensive'} per request"
        ),
        verdict="roughly" if faster > price else "fails",
    )


def _inference_share(today: date) -> RuleOfThumb:
    row = catalog.parameter("claim", "inference_share_of_lifetime_cost")
    plan = plan_lifecycle(
        lifecycle_request(
            {
                "model": "meta-llama/Llama-3.1-8B-Instruct",
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


def _price_decline(today: date) -> RuleOfThumb:
    row = catalog.parameter("depreciation", "residual_value_36m")
    left = resale_share(years=1.0, after_3_years=row.value)
    return RuleOfThumb(
        id="outdated",
        area="money",
        rule="hardware is outdated in nine to twelve months",
        computed=(
            f"after a year it sells for {left:.0%} of its price (planning figure: {row.value:.0%} after three years), "
            f"and the same instance rents for {1 - FASTEST_DECLINE:.0%} (p5.48xlarge, 2023 to 2026)"
        ),
        verdict="fails",
    )


MONEY: Final[tuple[Callable[[date], RuleOfThumb], ...]] = (
    _rent_below,
    _rent_until,
    _own_from,
    _half,
    _months,
    _spot,
    _a100_over_3080,
    _mi300x,
    _dearer_but_faster,
    _inference_share,
    _price_decline,
)
"""Rules about money."""
