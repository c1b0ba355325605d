"""The words for latency mean what the glossary says, for numbers and for arrays."""

import math

import numpy as np
import pytest

from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest
from tonnage.simulation.metrics import (
    e2e_s,
    goodput_per_s,
    quantile,
    summary,
    tpot_s,
    ttft_s,
)

TOKENS = [2.0, 2.1, 2.3, 2.6]


def test_end_to_end_is_first_token_and_the_tokens_after_it() -> None:
    ttft = ttft_s(sent_s=1.0, first_s=TOKENS[0])
    tpot = tpot_s(first_s=TOKENS[0], last_s=TOKENS[-1], output_tokens=4)
    assert ttft + 3 * tpot == pytest.approx(e2e_s(sent_s=1.0, last_s=TOKENS[-1]))


def test_one_token_has_no_time_per_token() -> None:
    assert math.isnan(tpot_s(first_s=1.0, last_s=1.0, output_tokens=1))
    found = tpot_s(first_s=np.array([1.0, 1.0]), last_s=np.array([1.0, 2.0]), output_tokens=np.array([1, 11]))
    assert math.isnan(found[0]) and found[1] == pytest.approx(0.1)


def test_goodput_needs_all_objectives_at_once() -> None:
    ttft, tpot = np.array([0.1, 0.9, 0.1, 0.1]), np.array([0.02, 0.02, 0.09, math.nan])
    seen = {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": np.array([1.0, 1.0, 1.0, math.nan])}
    both = Slo(ttft_s=0.5, tpot_s=0.05)
    assert goodput_per_s(seen, both, span_s=2.0) == 0.5
    with pytest.raises(BadRequest, match="span_s"):
        goodput_per_s(seen, both, span_s=0.0)


def test_percentiles_are_numpys() -> None:
    values = np.random.default_rng(0).exponential(1.0, 1001)
    found = summary(np.append(values, math.nan))
    assert found is not None and found.count == 1001
    assert found.p95 == pytest.approx(np.percentile(values, 95))
    assert quantile(sorted(values), 0.37) == pytest.approx(np.quantile(values, 0.37))
    assert summary(np.array([math.nan])) is None
