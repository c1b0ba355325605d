"""Token prices: every row plausible or doubted, and found by the names that people use."""

from datetime import date
from pathlib import Path

import pytest

from tonnage import catalog
from tonnage.catalog.rows import table
from tonnage.catalog.tokens import FOLDER, all_token_prices, plain_name, token_prices
from tonnage.domain.cost import BoughtTokens
from tonnage.errors import BadFact, UnknownName
from tonnage.questions.serve.tokens import _sentence


@pytest.mark.parametrize(
    ("name", "provider", "plain"),
    [
        ("fireworks_ai/accounts/fireworks/models/qwen2p5-72b-instruct", "fireworks_ai", "qwen2.5-72b-instruct"),
        ("fireworks_ai/accounts/fireworks/models/llama-v3p1-405b-instruct", "fireworks_ai", "llama-3.1-405b-instruct"),
        ("bedrock/ap-northeast-1/deepseek.v3.2", "bedrock", "deepseek-v3.2"),
        ("openai.gpt-oss-120b-1:0", "bedrock_converse", "gpt-oss-120b"),
        ("meta-llama/Llama-3.3-70B-Instruct-Turbo", "together_ai", "llama-3.3-70b-instruct"),
        ("databricks/databricks-gpt-oss-20b", "databricks", "gpt-oss-20b"),
        ("vertex_ai/zai-org/glm-5-maas", "vertex_ai-zai_models", "glm-5"),
        ("vertex_ai/mistral-nemo@2407", "vertex_ai-mistral_models", "mistral-nemo"),
    ],
)
def test_what_an_api_adds_to_a_name_is_taken_off(name: str, provider: str, plain: str) -> None:
    assert plain_name(name, provider) == plain


@pytest.mark.parametrize(
    ("provider", "name", "model"),
    [
        ("fireworks_ai", "fireworks_ai/accounts/fireworks/models/llama-v3p1-405b-instruct",
         "meta-llama/Meta-Llama-3.1-405B"),
        ("bedrock_converse", "meta.llama3-3-70b-instruct-v1:0", "meta-llama/Llama-3.3-70B-Instruct"),
        ("bedrock", "bedrock/ap-northeast-1/deepseek.v3.2", "deepseek-ai/DeepSeek-V3.2"),
        ("groq", "groq/openai/gpt-oss-120b", "openai/gpt-oss-120b"),
        ("azure", "azure/mistral-large-latest", ""),  # another model each season
        ("dashscope", "dashscope/qwen-max", ""),  # its weights are not open
    ],
)  # fmt: skip
def test_a_providers_name_means_a_model_of_the_catalogue_or_none(provider: str, name: str, model: str) -> None:
    (found,) = [price for price in all_token_prices() if (price.provider, price.name) == (provider, name)]
    assert found.model == model


def test_the_prices_of_a_model_are_found_by_any_of_its_names() -> None:
    prices = catalog.token_prices("meta-llama/Llama-3.3-70B-Instruct")
    assert prices == catalog.token_prices("nvidia/Llama-3.3-70B-Instruct-FP8")
    assert len(prices) > 15
    assert len({price.provider for price in prices}) > 10
    assert {price.model for price in prices} == {"meta-llama/Llama-3.3-70B-Instruct"}


def test_trusted_rows_come_first_and_the_cheapest_output_before_the_dearer() -> None:
    prices = catalog.token_prices("openai/gpt-oss-120b")
    trusted = [price.trusted for price in prices]
    assert trusted == sorted(trusted, reverse=True)
    outputs = [price.output_usd_per_million_tokens or 0.0 for price in prices if price.trusted]
    assert outputs == sorted(outputs)


def test_a_row_without_a_page_of_the_provider_is_not_trusted() -> None:
    unbacked = [price for price in all_token_prices() if not price.page]
    assert len(unbacked) > 600
    assert not any(price.trusted for price in unbacked)


def test_a_row_that_contradicts_another_is_kept_with_its_doubt() -> None:
    (row,) = [price for price in all_token_prices() if price.name == "openinfer/@oi/Qwen3.5-9B"]
    assert row.page and row.doubt
    assert not row.trusted


def test_a_model_nobody_sells_has_no_prices_and_an_unknown_one_is_an_error() -> None:
    assert catalog.token_prices("nvidia/ft-gpt-89b") == ()
    with pytest.raises(UnknownName, match=r"Llama-3\.1-8B"):
        catalog.token_prices("Llama-3.1-9B")


def test_a_provider_lists_a_model_once_at_one_price() -> None:
    prices = catalog.token_prices("deepseek-ai/DeepSeek-V3.2")
    keys = [
        (
            p.provider,
            p.input_usd_per_million_tokens,
            p.cached_input_usd_per_million_tokens,
            p.output_usd_per_million_tokens,
        )
        for p in prices
    ]
    assert len(keys) == len(set(keys))


def test_asking_for_one_model_finds_every_row_whose_name_means_it() -> None:
    meant: dict[str, set[tuple[str, float | None, float | None]]] = {}
    for p in all_token_prices():
        prices = (p.provider, p.input_usd_per_million_tokens, p.output_usd_per_million_tokens)
        meant.setdefault(p.model, set()).add(prices)
    del meant[""]
    assert len(meant) > 150
    for model, prices in meant.items():
        found = catalog.token_prices(model)
        assert {(p.provider, p.input_usd_per_million_tokens, p.output_usd_per_million_tokens) for p in found} == prices


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ("x,x/a,chat,,,,,,,", "no price"),
        ("x,x/a,chat,-1,,,,,,", "a price is expected"),
        ("x,x/a,chat,one,,,,,,", "a number is expected"),
        ("x,x/a,chat,1,,,,,,p9", "is not in pages.csv"),
        ("x,x/a,chat,1,,,,,,\nx,x/a,chat,2,,,,,,", "listed twice"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: str, complaint: str) -> None:
    header = ",".join(next(iter(table(FOLDER / "prices.csv"))))
    (tmp_path / "prices.csv").write_text(f"{header}\n{cells}\n", encoding="utf-8")
    for name in ("pages.csv", "doubts.csv", "sources.csv"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes().replace(b"p009", b"p999"))
    monkeypatch.setattr("tonnage.catalog.tokens.FOLDER", tmp_path)
    with pytest.raises(BadFact, match=complaint):
        all_token_prices.__wrapped__()


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


def test_no_figure_of_the_comparison_has_an_exponent() -> None:
    one = BoughtTokens(provider="x", name="m", usd_per_million_input=0.2, usd_per_million_output=0.4,
                       usd_per_request=1e-4, usd_per_hour=28_766.0)  # fmt: skip
    told = _sentence(one, times=5592.0, wins_from_per_s=None, winner=None)
    assert "$28,766/h for this load, 5,592x less than renting" in told
    assert "5,592x what renting costs" in _sentence(one, times=1 / 5592.0, wins_from_per_s=None, winner=None)
