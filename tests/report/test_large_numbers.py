"""Large sums and rates are written out: no exponent in the terminal or on the page."""

import re

import pytest
from msgspec.structs import replace

import tonnage
from tonnage.domain.answer import Quantity
from tonnage.questions.answers import show, with_html_view
from tonnage.report.wording import money, span

EXPONENT = re.compile(r"\de[+-]\d")


def test_a_run_of_a_hundred_million_dollars_is_said_in_millions(capsys: pytest.CaptureFixture[str]) -> None:
    plan = tonnage.plan_train("1B", tokens="2B", deadline="30 days", seq_len="2048", accelerator="H100")
    dear = Quantity(value=1.2e8, unit="USD", low=9.9e7, high=1.53e8)
    large = with_html_view(replace(plan, options=(replace(plan.options[0], cost=dear), *plan.options[1:])))
    show(large)
    terminal, page = (
        capsys.readouterr().out,
        re.sub(r"<(style|script|svg).*?</\1>", "", large._repr_html_(), flags=re.S),
    )
    assert re.search(r"\$120M \(\$9\dM-150M\)", terminal), terminal
    assert not EXPONENT.search(terminal) and not EXPONENT.search(page)


@pytest.mark.parametrize("usd", [1.5e6, 1.5e8, 1.5e11, 1.5e13])
def test_money_has_no_exponent(usd: float) -> None:
    for text in (
        money(usd),
        money(usd, digits=2),
        span(usd / 2, usd, unit="USD"),
        span(usd / 2, usd, unit="USD/month"),
    ):
        assert not EXPONENT.search(text) and text.startswith("$"), text


def test_a_service_of_thousands_of_requests_a_second_says_so_in_digits(capsys: pytest.CaptureFixture[str]) -> None:
    show(tonnage.plan_serve("1B", rate="4000/s", prompt_tokens="64", output_tokens="8", accelerator="H100", quick=True))
    text = capsys.readouterr().out
    assert not EXPONENT.search(text), EXPONENT.search(text)
    assert re.search(r"capacity [4-9],\d{3} req/s", text)
