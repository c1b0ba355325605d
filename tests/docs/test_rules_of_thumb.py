"""The page of rules of thumb is what the code says today, and covers every rule that the catalogue keeps to test."""

import pytest
from tools.calibration.rules import RuleOfThumb
from tools.calibration.rules_judged import rules_of_thumb
from tools.calibration.rules_of_thumb import AS_OF, PAGE, page


@pytest.fixture(scope="module")
def rules() -> tuple[RuleOfThumb, ...]:
    """Judged once: they ask for some sixty predictions and plans."""
    return tuple(rules_of_thumb(AS_OF))


@pytest.fixture(scope="module")
def now(rules: tuple[RuleOfThumb, ...]) -> str:
    return page(rules)


def test_the_page_is_not_stale(now: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(now, encoding="utf-8")
    kept = PAGE.read_text(encoding="utf-8")
    assert kept == now, "docs/rules-of-thumb.md moved: say why, then run `python -m tools.calibration.rules_of_thumb`"


def test_every_rule_is_judged_with_numbers(rules: tuple[RuleOfThumb, ...], now: str) -> None:
    assert len(rules) >= 20 and len({rule.id for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.verdict in {"holds", "roughly", "depends", "fails"}
        assert any(character.isdigit() for character in rule.computed)
        assert rule.rule in now
    assert len({rule.verdict for rule in rules}) == 4  # a page on which everything fails would be no page


def test_measurements_stand_beside_what_can_be_measured(now: str) -> None:
    rows = [line for line in now.splitlines() if line.startswith("| ") and "---" not in line]
    beside = [line for line in rows if " pairs" in line or " runs" in line or "AWS advisor" in line]
    assert len(beside) >= 6
