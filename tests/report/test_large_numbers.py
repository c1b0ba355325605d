"""Large sums and rates are written out: no exponent in the terminal or on the page."""

import re
from pathlib import Path

import pytest
from tests.command import printed, told

EXPONENT = re.compile(r"\de[+-]\d")


def run_of(tokens: str, price: int) -> dict[str, object]:
    return {"plan": "train", "model": "7B", "tokens": tokens, "seq_len": "2048", "accelerator": "MI300A",
            "price": f"MI300A=${price}/h", "count": 64}  # fmt: skip


@pytest.mark.parametrize(("tokens", "price"), [("100B", 1_000), ("4T", 1_000), ("400T", 10_000), ("4000T", 50_000)])
def test_a_run_of_millions_of_dollars_and_more_is_said_without_an_exponent(tokens: str, price: int) -> None:
    done = told("plan", "-", given=run_of(tokens, price))
    assert re.search(r"\$[\d,.]+M \(\$[\d,.]+M-[\d,.]+M\)", done.stdout), done.stdout
    assert not EXPONENT.search(done.stdout)


def test_a_page_of_hundreds_of_millions_has_no_exponent(tmp_path: Path) -> None:
    told("plan", "-", "--plot", tmp_path / "plan.html", given=run_of("4T", 1_000))
    page = re.sub(r"<(style|script|svg).*?</\1>", "", (tmp_path / "plan.html").read_text(), flags=re.S)
    assert re.search(r"\$1\d\dM", page) and not EXPONENT.search(page)


def test_a_service_of_thousands_of_requests_a_second_says_so_in_digits() -> None:
    asked = {"model": "1B", "rate": "4000/s", "prompt_tokens": "64", "output_tokens": "8", "accelerator": "H100"}
    text = printed("serve", **asked, quick=True)
    assert not EXPONENT.search(text), EXPONENT.search(text)
    assert re.search(r"capacity [4-9],\d{3} req/s", text)
