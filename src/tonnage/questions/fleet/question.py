"""Several workloads on one fleet, as the faces ask."""

from __future__ import annotations

from typing import Final

from tonnage.questions.fleet.answer import FleetPlan
from tonnage.questions.fleet.request import FleetRequest
from tonnage.questions.question import Form, Question

_WORKLOADS: Final = """\
- name: assistant
  model: 8B
  rate: 8/s
  traffic: chat
  ttft: 1 s
  tpot: 60 ms
- name: nightly summaries
  kind: batch
  model: 8B
  items: 1M
  window: 22-6
"""

QUESTIONS = (
    Question(
        name="fleet",
        room="fleet",
        request=FleetRequest,
        answer=FleetPlan,
        needs=("workloads",),
        form=Form(
            title="Several workloads, one fleet",
            about="All your services, batches and machines in; which instances in which hours, on which terms, out.",
            at_first="quick",
            written=("workloads", "own", "quotas"),
            essentials=("workloads", "provider", "region", "term", "zones", "budget", "eu", "quotas", "own"),
            example={"workloads": _WORKLOADS, "provider": "gcp"},
            instead="ask with quick: true (averages), for fewer workloads or accelerators, or on the command line, "
            "which has no limit",
        ),
    ),
)
