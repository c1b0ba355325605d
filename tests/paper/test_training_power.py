"""
Power of training against what was published of it; nothing here was fitted.

- Olmo 3 on H100: 146 MWh over 234 thousand H100 hours (7B), 681 MWh over 1.05 million (32B), restarts and checkpoints
  included (Ai2, as told in muxup.com, "Minipost: Olmo 3 training cost", 2025-11).
- An HGX H100 of eight that trained Llama 2 13B: 8.4 kW at most of the 10.2 kW it is rated for (arXiv 2412.08602);
  compute-intensive training at 76 % of the rating (arXiv 2506.14551).

Not measurements of power, and so no test of it: Llama 3.1's model card and BLOOM's 433,196 kWh (arXiv 2211.02001) are
hours times the limit of the board (700 W, 400 W); a step may only draw less.
"""

import pytest

from tonnage import catalog
from tonnage.core.host import LoadShare, machine_draw, machine_power
from tonnage.domain.answer import Quantity
from tonnage.domain.case import TrainCase, TrainResult
from tonnage.questions.predict.predict import predict


def drawn(model: str, accelerator: str, **fields: object) -> Quantity:
    result = predict(TrainCase(model=model, accelerator=accelerator, **fields))  # type: ignore[arg-type]
    assert isinstance(result, TrainResult) and result.board_w is not None
    return result.board_w


@pytest.mark.parametrize(
    ("model", "count", "mwh", "hours"),
    [("allenai/OLMo-2-1124-7B", 512, 146, 234e3), ("allenai/OLMo-2-0325-32B", 1024, 681, 1.05e6)],
)
def test_olmo_on_h100(model: str, count: int, mwh: float, hours: float) -> None:
    """Olmo 3 has the shapes of Olmo 2 but for sliding windows; sequences of 8,192."""
    found = drawn(model, "h100-sxm5-80gb", count=count, seq_len=8192, global_batch=512)
    measured = mwh * 1e6 / hours
    assert found.value == pytest.approx(measured, rel=0.12)
    assert found.low <= measured <= found.high


def test_a_node_that_trains_llama_2_13b_stays_below_what_was_seen_at_most() -> None:
    part = catalog.accelerator("h100-sxm5-80gb")
    board = drawn("meta-llama/Llama-2-13b-hf", part.id, count=8, seq_len=4096, global_batch=64)
    load = LoadShare(value=board.value / 700, low=board.value / 700, high=board.value / 700, source="")
    node = machine_draw(machine_power(part, count=8), load=load).watts
    assert 0.68 * 10_200 < node <= 8_400 * 1.01


@pytest.mark.parametrize(
    ("model", "accelerator", "fields"),
    [
        ("meta-llama/Llama-3.1-405B", "h100-sxm5-80gb", {"count": 16384, "seq_len": 8192, "global_batch": 2048}),
        ("bigscience/bloom", "a100-sxm4-80gb", {"count": 384, "seq_len": 2048, "global_batch": 2048}),
    ],
)
def test_what_is_published_as_hours_times_the_limit_is_an_upper_bound(
    model: str, accelerator: str, fields: dict[str, int]
) -> None:
    limit = catalog.accelerator(accelerator).power_w
    assert 0.75 * limit < drawn(model, accelerator, **fields).value < limit
