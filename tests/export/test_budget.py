"""The budget alert of a plan: arguments that the provider documents, the plan's own price of a month."""

import json
from typing import Any

import pytest
from tests.asked import Refused
from tests.export.plans import exported, plan
from tests.export.test_hostile import HOSTILE
from tests.export.test_terraform import disagreements

KINDS = {
    "aws": "aws_budgets_budget",
    "gcp": "google_billing_budget",
    "azure": "azurerm_consumption_budget_subscription",
}


def written(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(exported(plan(**changes), "budget")["budget.tf.json"])
    return document


@pytest.mark.parametrize("provider", KINDS)
def test_arguments_and_variables_are_known(provider: str) -> None:
    document = written(provider=provider)
    (budget,) = document["resource"][KINDS[provider]].values()
    assert disagreements(KINDS[provider], budget) == []
    used = json.dumps(budget)
    assert all(f"${{var.{name}}}" in used for name in document["variable"])


def test_the_limit_is_the_plans_month() -> None:
    bill = plan(provider="aws")["options"][0]["bill"]
    month = f"{bill['instances'] * bill['usd_per_instance_hour'] * 730:.0f}"
    (aws,) = written(provider="aws")["resource"][KINDS["aws"]].values()
    (gcp,) = written(provider="gcp")["resource"][KINDS["gcp"]].values()
    (azure,) = written(provider="azure")["resource"][KINDS["azure"]].values()
    assert aws["limit_amount"] == gcp["amount"]["specified_amount"]["units"] == str(azure["amount"]) == month
    assert [one["threshold"] for one in aws["notification"]] == [50, 80, 100]
    assert [one["threshold_percent"] for one in gcp["threshold_rules"]] == [0.5, 0.8, 1.0]


def test_other_providers_are_told_the_sum() -> None:
    with pytest.raises(Refused, match=r"aws, gcp, azure, and the plan rents at nebius: set \$\d"):
        written(provider="nebius")


@pytest.mark.parametrize("name", [*HOSTILE, "a/${var.x}", "a/%{ for x in y }z%{ endfor }"])
def test_names_are_texts(name: str) -> None:
    document = written(provider="aws", model=name if "/" in name else f"a/{name}")
    assert "${" not in json.dumps(document["resource"]).replace("${var.alert_email}", "")
