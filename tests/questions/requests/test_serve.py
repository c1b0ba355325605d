"""A serving request is read as people write it, or refused in one sentence that names the field and a fix."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.core.reading import request_fields
from tonnage.domain.requests.serve import Serve
from tonnage.errors import TonnageError
from tonnage.questions.serve.question import serve_request

MODEL = "meta-llama/Llama-3.1-8B"
GOOD = {"model": MODEL, "rate": "4/s", "traffic": "chat"}


def test_reads_units_names_and_lists() -> None:
    request = serve_request(
        {
            **GOOD,
            "ttft": "500 ms",
            "tpot": "0.05 s",
            "accelerator": "H100, A100",
            "precision": ["fp8", "bf16"],
            "eu": True,
            "budget": "$20/h",
            "headroom": "30 %",
            "max_accelerators": "16",
        }
    )
    assert request.rate_per_s == 4.0
    assert request.slo.ttft_s == 0.5 and request.slo.tpot_s == 0.05
    assert request.filters.accelerators == ("h100-sxm5-80gb", "a100-sxm4-80gb")
    assert request.precisions == ("fp8", "bf16")
    assert request.filters.eu is True and request.filters.max_count == 16
    assert request.budget_usd_per_h == 20.0 and request.headroom == pytest.approx(0.3)
    assert request.lengths.prompt_tokens == 1155 and request.shape.dispersion == 1.4


def test_users_become_a_rate() -> None:
    request = serve_request({"model": MODEL, "users": "600", "think_time": "2 min", "traffic": "chat"})
    assert request.rate_per_s == pytest.approx(5.0)


def test_lengths_replace_those_of_the_profile() -> None:
    request = serve_request({**GOOD, "prompt_tokens": "8k"})
    assert request.lengths.prompt_tokens == 8000 and request.lengths.output_tokens == 211
    assert request.lengths.prompt_p95 is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rate": "4"}, "rate: '4' has no unit"),
        ({"rate": "-4/s"}, "rate: '-4/s' is out of range"),
        ({"rate": "0/s"}, "rate: '0/s' is out of range"),
        ({"rate": "1e12/s"}, "rate: '1e12/s' is out of range"),
        ({"rate": "4 GB"}, "rate: '4 GB' is"),
        ({"ttft": "500"}, "ttft: '500' has no unit"),
        ({"ttft": ["1 s"]}, "ttft: one value is expected"),
        ({"concurrency": "64"}, "rate and concurrency contradict"),
        ({"rate": None}, "no load is given"),
        ({"traffic": "chatt"}, "no traffic profile 'chatt'; did you mean 'chat'"),
        ({"traffic": None, "prompt_tokens": "100"}, "output_tokens is missing"),
        ({"precision": "fp9"}, "no precision 'fp9'"),
        ({"accelerator": "h100-smx"}, "no accelerator 'h100-smx'; did you mean"),
        ({"accelerator": "H100", "exclude": "H100"}, "both wanted and excluded"),
        ({"region": "eu-central-99"}, "no region 'eu-central-99'.*did you mean"),
        ({"provider": "amazonia"}, "no provider 'amazonia'"),
        ({"vendor": "Nvidea"}, "no vendor 'Nvidea'.*NVIDIA"),
        ({"engine": "vlm"}, "no planned engine 'vlm'; did you mean 'vllm'"),
        ({"percentile": "101"}, "percentile: '101' is out of range"),
        ({"headroom": "100 %"}, "headroom: '100 %' is out of range"),
        ({"eu": "maybe"}, "eu: 'maybe' must be true or false"),
        ({"max_accelerators": "2.5"}, "max_accelerators: '2.5' must be a whole number"),
        ({"ttfft": "1 s"}, "no field 'ttfft'; did you mean 'ttft'"),
        ({"model": ""}, "model is empty"),
        ({"model": None}, "model is missing"),
        ({"think_time": "1 s"}, "think_time only makes sense with users"),
        ({"budget": "€5/h"}, "euro"),
        ({"term": "weekly"}, "no term 'weekly'"),
    ],
)
def test_one_sentence_for_each_mistake(change: dict[str, object], told: str) -> None:
    with pytest.raises(TonnageError) as caught:
        serve_request({**GOOD, **change})
    sentence = str(caught.value)
    assert re.search(told, sentence), sentence
    assert "\n" not in sentence and len(sentence) < 400


ANYTHING = st.one_of(
    st.text(max_size=30), st.integers(), st.floats(), st.lists(st.text(max_size=5), max_size=3), st.none()
)


@given(st.sampled_from([field.name for field in request_fields(Serve)]), ANYTHING)
def test_any_value_is_read_or_refused(field: str, value: object) -> None:
    try:
        serve_request({**GOOD, field: value})
    except TonnageError as error:
        assert "\n" not in str(error)


def test_every_field_has_help_and_reads_something_known() -> None:
    from tonnage.units import DIMENSIONS

    for field in request_fields(Serve):
        assert field.help and field.reads in {*DIMENSIONS, "text", "list", "flag", "integer", "entries"}


@pytest.mark.parametrize("written", ["50", "$50", "50 USD", "50$", "$50/h", "36500 USD/month"])
def test_a_budget_without_a_time_is_of_the_hour_that_the_option_names(written: str) -> None:
    made = serve_request({"model": "13B", "rate": "2/s", "traffic": "chat", "budget": written})
    assert made.budget_usd_per_h == pytest.approx(50.0)


@pytest.mark.parametrize("written", ["50 EUR", "fifty", "50/s"])
def test_a_budget_of_another_unit_is_refused(written: str) -> None:
    with pytest.raises(TonnageError, match="budget"):
        serve_request({"model": "13B", "rate": "2/s", "traffic": "chat", "budget": written})
