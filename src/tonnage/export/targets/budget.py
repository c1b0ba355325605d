"""
A budget alert of a plan: the provider tells you before a month costs more than was planned, in Terraform's JSON syntax.

The limit is the plan's price of a month; providers warn at half, at four fifths by their forecast, and at all of it.
Budgets count what an account or a subscription spends, so that other services there count too; the file says so.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import BadRequest, Deployment, Target
from tonnage.export.targets.terraform import Group, module_text

TARGET = Target(
    title="Budget alert by Terraform",
    version="JSON configuration syntax of 1.x",
    files=("budget.tf.json",),
    start="terraform apply -var alert_email=you@example.com",
    anywhere=True,
)
"""Source: website/docs/r of hashicorp/terraform-provider-aws, -google and -azurerm: budgets, read 2026-11-23."""
MONTH_H: Final = 730.0
"""A twelfth of 8,760 hours, as bills count a month. [h]"""
SHARES: Final = ((50, False), (80, True), (100, False))
"""Percent of the planned month -> whether by the forecast of the month instead of what is spent."""


def export(d: Deployment) -> str:
    """`budget.tf.json`."""
    if d.provider not in BUDGETS:
        raise BadRequest(
            f"budgets are written for {', '.join(BUDGETS)}, and the plan rents at {d.provider}: set "
            f"${d.option.bill.usd_per_hour * MONTH_H:,.0f} a month there, or plan with --provider"
        )
    month = f"{d.option.bill.usd_per_hour * MONTH_H:.0f}"
    variables, kind, budget = BUDGETS[d.provider](d, month)
    lines = [
        *d.lines,
        f"The plan costs ${float(month):,.0f} in a month of {MONTH_H:.0f} h.",
        "The alert counts all that the account spends: use one of its own, or add a filter.",
    ]
    return module_text(d.name, lines, asks=variables, resource={kind: budget})


EMAIL: Final = {"alert_email": ("string", "Who is told.")}


def _aws(d: Deployment, month: str) -> Group:
    """Variables, type and fields of AWS's resource; `month` is the limit in whole USD, as text."""
    told = [
        {
            "comparison_operator": "GREATER_THAN",
            "threshold": share,
            "threshold_type": "PERCENTAGE",
            "notification_type": "FORECASTED" if forecast else "ACTUAL",
            "subscriber_email_addresses": ["${var.alert_email}"],
        }
        for share, forecast in SHARES
    ]
    budget = {
        "name": d.name,
        "budget_type": "COST",
        "limit_amount": month,
        "limit_unit": "USD",
        "time_unit": "MONTHLY",
        "notification": told,
    }
    return EMAIL, "aws_budgets_budget", budget


def _gcp(d: Deployment, month: str) -> Group:
    """Variables, type and fields of Google's resource; `month` is the limit in whole USD, as text."""
    rules = [
        {"threshold_percent": share / 100, "spend_basis": "FORECASTED_SPEND" if forecast else "CURRENT_SPEND"}
        for share, forecast in SHARES
    ]
    budget = {
        "billing_account": "${var.billing_account}",
        "display_name": d.name,
        "amount": {"specified_amount": {"currency_code": "USD", "units": month}},
        "threshold_rules": rules,
    }
    return (
        {"billing_account": ("string", "Id of the billing account, whose administrators are told.")},
        "google_billing_budget",
        budget,
    )


def _azure(d: Deployment, month: str) -> Group:
    """Variables, type and fields of Azure's resource; `month` is the limit in whole USD, as text."""
    told = [
        {
            "operator": "GreaterThan",
            "threshold": share,
            "threshold_type": "Forecasted" if forecast else "Actual",
            "contact_emails": ["${var.alert_email}"],
        }
        for share, forecast in SHARES
    ]
    budget = {
        "name": d.name,
        "subscription_id": "${var.subscription_id}",
        "amount": int(month),
        "time_grain": "Monthly",
        "time_period": {"start_date": "${var.first_day}"},
        "notification": told,
    }
    asks = {
        **EMAIL,
        "subscription_id": ("string", "As /subscriptions/ID."),
        "first_day": ("string", "First of a month: 2026-12-01T00:00:00Z."),
    }
    return asks, "azurerm_consumption_budget_subscription", budget


BUDGETS: Final = {"aws": _aws, "gcp": _gcp, "azure": _azure}
