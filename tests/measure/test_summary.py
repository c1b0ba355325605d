"""A client that was late says so above the numbers it spoilt."""

import pytest

from tonnage.domain.measurement import Latency, Point
from tonnage.measure.summary import MIN_LATE_S, is_late


def point(delay_s: float | None, ttft_s: float | None) -> Point:
    return Point(completed=9, client_delay_s=delay_s, ttft_s=None if ttft_s is None else Latency(count=9, p50=ttft_s))


@pytest.mark.parametrize(
    ("delay_s", "ttft_s", "late"),
    [
        (0.010, 0.100, True),
        (0.004, 0.100, False),
        (0.006, 0.100, True),
        (MIN_LATE_S, 0.002, False),
        (None, 0.1, False),
        (0.5, None, False),
    ],
)
def test_more_than_a_twentieth_of_what_is_measured(delay_s: float | None, ttft_s: float | None, late: bool) -> None:
    assert is_late(point(delay_s, ttft_s)) is late
