"""Training setups for tests that name their software, as requests do."""

from typing import Any

from tonnage.domain.training import TrainSetup
from tonnage.engines.training import software_spec


def train_setup(software: str = "megatron", **fields: Any) -> TrainSetup:
    """A setup under that family of software."""
    return TrainSetup(software=software_spec(software), **fields)
