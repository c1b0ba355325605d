"""The page of an accelerator: its facts, prices over time, offers, and what others measured."""

import html
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from tonnage import catalog
from tonnage.catalog import NOTHING
from tonnage.catalog.published import predicted_numbers, published_results
from tonnage.web.part import part_charts, part_view

httpx = pytest.importorskip("httpx")
HTML = {"accept": "text/html"}
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def client(page_address: str) -> Any:
    with httpx.Client(base_url=page_address, timeout=PATIENCE_S, trust_env=False) as client:
        yield client


def test_a_row_of_each_list_and_the_card_of_an_answer_lead_to_it(client: Any) -> None:
    known = catalog.accelerators()
    for path in ("/accelerators?q=h100", "/prices?accelerator=h100-sxm5-80gb"):
        found = re.findall(r'href="/accelerators/([^"?]+)"', client.get(path, headers=HTML).text)
        assert "h100-sxm5-80gb" in found and set(found) <= set(known)
    asked = {"model": "8B", "rate": "1/s", "accelerator": "L40S", "quick": "true"}
    assert (
        '<p class="product"><a href="/accelerators/l40s"' in client.get("/plan/serve", params=asked, headers=HTML).text
    )


def test_it_says_what_the_command_line_says_of_it(client: Any) -> None:
    from tests.command import told

    reply = client.get("/accelerators/H100", headers={"accept": "application/json"})
    assert reply.text == told("catalog", "accelerators", "H100", "--json").output
    page = html.unescape(client.get("/accelerators/H100", headers=HTML).text)
    card = reply.json()
    assert card["accelerator"]["fact"]["source"] in page and card["ambiguity"] in page
    for row in card["offers"]["rows"]:
        assert row["instance_type"] in page


def test_no_fact_of_any_accelerator_names_a_column_of_a_table() -> None:
    from tonnage.catalog.listings import accelerator_card
    from tonnage.report.listing import card_rows

    for name in catalog.accelerators():
        told = [text for what, text in card_rows(accelerator_card(name, today=date(2026, 8, 19))) if what != "aliases"]
        assert not [text for text in told if re.search(r"memory_gb|memory_bw|tdp_w|TRAP|int\d \d+ TFLOP|_tensor", text)]


def test_offers_without_any_price_are_left_out(client: Any) -> None:
    table = client.get("/accelerators/h100-sxm5-80gb", headers=HTML).text.split("Who rents it</h2>")[1]
    assert "Mithril" in table and "AWS Capacity Blocks" not in table.split("</table>")[0]


def test_pictures_are_drawn_and_unknown_names_are_not_found(client: Any) -> None:
    pytest.importorskip("vl_convert")
    page = client.get("/accelerators/h100-sxm5-80gb", headers=HTML).text
    names = re.findall(r'data-chart="([^"]+)"', page)
    assert names[0].endswith("/prices") and len(names) == 4
    for name in names:
        for end in ("light.svg", "narrow-dark.svg", "wide-light.svg", "light.json"):
            reply = client.get(f"{name}-{end}")
            assert reply.status_code == 200 and len(reply.content) > 1000
    assert client.get("/chart/accelerators/h100-sxm5-80gb/nothing-light.svg").status_code == 404
    wrong = client.get("/accelerators/h1000", headers=HTML)
    assert wrong.status_code == 404 and "h1000" in wrong.text and "did you mean" in wrong.text


def test_every_part_has_a_page() -> None:
    for id in catalog.accelerators():
        view = part_view(id, additions=NOTHING)
        assert view.facts.rows and bool(view.measured) == bool(view.results.rows)


def test_prices_over_time_are_those_of_the_history() -> None:
    prices = part_charts("a100-sxm4-40gb", additions=NOTHING)[0]
    assert prices.name == "prices" and prices.rows[0][1:3] == ("2022-08-23", "4.10") and len(prices.rows) >= 4


def test_what_stands_beside_a_measurement_is_the_prediction_of_its_row() -> None:
    from tonnage_accuracy.published_points import QUANTITIES
    from tonnage_accuracy.rows import usable_rows
    from tonnage_accuracy.scoring import score

    shown, results = predicted_numbers(), {one.id: one.measured for one in published_results()}
    compared = 0
    for one in score([row for row in usable_rows(ROOT) if row.id in shown][::250]):
        name = QUANTITIES.get(one.quantity, "").replace("ttft_s", "ttft_ms").replace("tpot_s", "tpot_ms")
        if name in shown[one.id]:
            told = shown[one.id][name] / results[one.id][name]
            assert told == pytest.approx(min(3.0, max(1 / 3, one.predicted / one.measured)), rel=0.05), one.id
            compared += 1
    assert compared >= 8
