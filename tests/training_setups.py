"""Training setups for tests that name their software, as requests do."""

from typing import Any

from tonnage import catalog
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.training import TrainSetup
from tonnage.engines.registry import software_spec

MODEL = catalog.model("meta-llama/Meta-Llama-3-8B")
H100 = catalog.accelerator("h100-sxm5-80gb")


def train_setup(software: str = "megatron", **fields: Any) -> TrainSetup:
    """A setup under that family of software, of Llama 3 8B on H100 unless said otherwise."""
    usual = {"model": MODEL, "accelerator": H100, "coefficients": training_coefficients()}
    return TrainSetup(software=software_spec(software), **usual | fields)
