"""Storage beside the instances: priced where the provider publishes a price, told where it does not."""

import pytest
from tests.questions.train.test_plan import finetune, train

NEBIUS_USD_PER_GB_MONTH = 0.01369
"""docs.nebius.com/object-storage/resources/pricing: 0.0147 per GiB and 730 hours."""
KEPT_CHECKPOINTS = 3


def test_checkpoints_and_data_are_a_line_of_the_bill() -> None:
    plan = train(provider="nebius")
    option = plan.options[0]
    stored = KEPT_CHECKPOINTS * option.run.checkpoint_bytes + 100e9 * 4
    months = option.run.wall_s.value / 3600 / 730
    assert option.cost.part("storage") == pytest.approx(stored / 1e9 * months * NEBIUS_USD_PER_GB_MONTH, rel=1e-3)
    assert sum(part.value for part in option.cost.parts) == pytest.approx(option.cost.value)
    assert option.cost.low <= option.cost.value <= option.cost.high
    assert any("stored at its list price" in said for said in plan.provenance.assumed)


def test_what_is_not_published_is_said_and_not_charged() -> None:
    plan = finetune(provider="verda")
    assert not plan.options[0].cost.part("storage")
    told = next(said for said in plan.provenance.assumed if said.startswith("Verda"))
    assert "storage is not in the bill" in told


def test_taking_the_result_out_is_told_with_its_price() -> None:
    told = " ".join(train(provider="aws", accelerator="H100").provenance.assumed)
    assert "taking the result out (16.1 GB)" in told
    assert "would add $1.4" in told
