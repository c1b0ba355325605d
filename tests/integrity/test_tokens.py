"""Every row of the token prices: in the range such prices have, with a source, a date and a place for its doubts."""

from datetime import date

import pytest

from tonnage.catalog.rows import table
from tonnage.catalog.tokens import FOLDER, all_token_prices, token_prices

PRICES = all_token_prices()
MODES = {"chat", "embedding", "image_generation", "audio_transcription", "rerank", "responses", "completion",
         "image_edit", "audio_speech", "ocr", "evaluation", ""}  # fmt: skip


def test_the_table_is_whole() -> None:
    assert len(PRICES) == 1946
    assert {price.mode for price in PRICES} <= MODES
    assert sum(bool(price.model) for price in PRICES) > 1150
    assert sum(price.trusted for price in PRICES) > 1250


def test_every_price_is_believable_or_doubted() -> None:
    for price in PRICES:
        for amount in (price.input_usd_per_million_tokens, price.output_usd_per_million_tokens):
            assert amount is None or 0 <= amount <= 60 or price.doubt, price.name
        given, cached = price.input_usd_per_million_tokens, price.cached_input_usd_per_million_tokens
        assert cached is None or given is None or cached <= given, price.name
        assert price.usd_per_image is None or 0.001 < price.usd_per_image < 1, price.name
        assert price.usd_per_audio_s is None or 1e-6 < price.usd_per_audio_s < 1e-2, price.name
        if price.mode == "chat" and not price.doubt and given is not None:
            assert given >= 0.002, price.name


def test_every_row_has_a_source_and_a_date() -> None:
    assert all(price.source and date.fromisoformat(price.as_of) <= date.today() for price in PRICES)


def test_pages_and_doubts_belong_to_rows() -> None:
    pages = {row["page"]: row["address"] for row in table(FOLDER / "pages.csv")}
    used = {row["page"] for row in table(FOLDER / "prices.csv")} - {""}
    assert used == set(pages)
    assert all(address.startswith("https://") for address in pages.values())
    keys = {(price.provider, price.name) for price in PRICES}
    for row in table(FOLDER / "doubts.csv"):
        assert (row["provider"], row["name"]) in keys
        assert len(row["why"]) > 20


@pytest.mark.parametrize(
    "model",
    ["meta-llama/Llama-3.3-70B-Instruct", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3.2", "moonshotai/Kimi-K2.6",
     "zai-org/GLM-4.6", "Qwen/Qwen3-235B-A22B"],
)  # fmt: skip
def test_what_many_sell_is_sold_within_a_band(model: str) -> None:
    """The cheapest and the dearest trusted row of one model lie within a factor; a slip of a unit would not."""
    outputs = [p.output_usd_per_million_tokens for p in token_prices(model) if p.trusted]
    known = sorted(price for price in outputs if price)
    assert len(known) >= 5
    assert known[-1] / known[0] < 30
