"""What a measured load says of objectives: met or missed, and how many replicas follow."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.command import told as command
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Capacity, Latency, Measurement, Point
from tonnage.domain.requests.common import Slo
from tonnage.errors import Unmeasured
from tonnage.measure.capacity import Demand, capacity_of


def test_a_rate_that_was_kept_up_with_is_sustained_whatever_its_drained_tail_took() -> None:
    """200 requests in 40 s at 5/s, the last answered 5.4 s later: 4.4/s are counted, and 5/s were sustained."""
    times = {"ttft_s": Latency(p95=0.2), "e2e_s": Latency(p50=5.0)}
    tail = Point(
        rate_per_s=5.0, requests=200, completed=200, duration_s=45.4, arrivals_s=40.0, requests_per_s=4.4, **times
    )
    slo, demand = Slo(ttft_s=1.0), {"rate_per_s": 5.0, "headroom": 0.0}

    def sized(point: Point) -> Capacity:
        found = Measurement(schema=MEASUREMENT_SCHEMA, tool="tonnage", points=(point,))
        return capacity_of(found, Demand(**demand, slo=slo))

    assert (sized(tail).replicas, sized(tail).sustained_per_s) == (1, 5.0)
    assert sized(replace(tail, arrivals_s=None)).replicas == 2, "no one says that it kept up"
    with pytest.raises(Unmeasured, match="no load in this measurement is sustained"):
        sized(replace(tail, duration_s=90.0, requests_per_s=2.2))


POINT = Point(
    concurrency=4, requests=100, completed=100, ttft_s=Latency(p90=0.5, p95=0.762, p99=2.0), tpot_s=Latency(p95=0.015)
)


@pytest.mark.parametrize(
    ("changes", "limits", "notes", "said"),
    [
        ({}, {"ttft_s": 1.0, "tpot_s": 0.033}, (), "met: p95 TTFT 762 ms of 1 s, TPOT 15 ms of 33 ms."),
        ({}, {"ttft_s": 1.0, "tpot_s": 0.01}, (), "missed: p95 TTFT 762 ms of 1 s, TPOT 15 ms of 10 ms (missed)."),
        ({}, {"ttft_s": 1.0, "percentile": 99.0}, (), "missed: p99 TTFT 2 s of 1 s (missed)."),
        ({}, {"e2e_s": 1.0}, (), "not judged: p95 E2E not measured of 1 s."),
        ({"failures": {"timeout": 6}}, {"ttft_s": 1.0}, (),
         "missed: p95 TTFT 762 ms of 1 s, 6 requests failed (missed)."),
        ({"failures": {"timeout": 5}}, {"ttft_s": 1.0}, (), "met: p95 TTFT 762 ms of 1 s."),
        ({"stopped": "over-saturated"}, {"ttft_s": 1.0}, (), "not judged: p95 TTFT 762 ms of 1 s."),
        ({}, {"ttft_s": 1.0}, ("Not to be used: heat.",), "not judged: p95 TTFT 762 ms of 1 s."),
    ],
)  # fmt: skip
def test_the_last_line_says_whether_the_objectives_were_met(
    changes: dict[str, Any],
    limits: dict[str, float],
    notes: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Measurement(
        schema=MEASUREMENT_SCHEMA, tool="tonnage", points=(replace(POINT, **changes),), slo=Slo(**limits), notes=notes
    )
    monkeypatch.setenv("TONNAGE_HISTORY", "off")

    def shown(one: Measurement) -> str:
        path = tmp_path / "found.json"
        path.write_bytes(msgspec.json.encode(one))
        return command("measure", "import", str(path)).stdout

    assert shown(found).rstrip().splitlines()[-1].strip() == f"Objectives {said}"
    assert "Objectives: p9" in shown(replace(found, points=(POINT, replace(POINT, concurrency=8))))
