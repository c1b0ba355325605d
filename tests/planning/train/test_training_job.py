"""How sure a training prediction is: by the architectures that the fit has seen, the method, structure and software."""

import pytest
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis
from tonnage.domain.training import TrainSetup
from tonnage.physics.training_memory import EXACT
from tonnage.planning.train.training_job import TrainingJob, mfu
from tonnage.simulation.training import model_flop

MODEL = catalog.model("meta-llama/Meta-Llama-3-8B")
H100 = catalog.accelerator("h100-sxm5-80gb")


def job(accelerator: Accelerator = H100, setup: TrainSetup | None = None) -> TrainingJob:
    return TrainingJob(
        model=MODEL, accelerator=accelerator, setup=setup or train_setup(), coefficients=training_coefficients()
    )


def test_an_architecture_that_no_fit_has_seen_is_derived() -> None:
    assert job().basis is Basis.CALIBRATED
    assert job(catalog.accelerator("mi300x")).basis is Basis.DERIVED


def test_the_level_names_method_structure_and_software() -> None:
    def level(setup: TrainSetup) -> str:
        return job(setup=setup).errors.level

    assert level(train_setup(software="megatron")) == "calibrated:whole:dense:megatron"
    assert level(train_setup(method="qlora", software="eager")) == "calibrated:adapter:dense:eager"


def test_utilisation_counts_model_flop_on_the_dense_16_bit_peak() -> None:
    setup = train_setup(seq_len=4096, precision="fp8")
    found = mfu(MODEL, accelerator=H100, setup=setup, step_s=1.0)
    assert found == pytest.approx(model_flop(MODEL, setup=setup) / H100.peaks["bf16"])
    assert mfu(MODEL, accelerator=H100, setup=setup, step_s=1.0, share=0.5) == pytest.approx(2 * found)


def test_no_peak_is_said_to_be_below_what_counts_and_formats_give() -> None:
    lora = train_setup("eager", method="lora", seq_len=128)
    found = job(setup=lora).memory()
    exact = sum(part.value for part in found.parts if part.name in EXACT)
    assert found.low is not None and exact <= found.low <= found.value
    assert found.low > found.value / job(setup=lora).errors.factor("memory_peak_bytes")


def test_a_peak_has_an_upper_end_of_its_own() -> None:
    whole = job(setup=train_setup(software="megatron"))
    found, upper = whole.memory(), whole.errors.factor("memory_peak_bytes_upper")
    assert found.low is not None and found.high == pytest.approx(found.value * upper)
    assert 1.0 < upper < found.value / found.low, "tables of Megatron lie below their prediction, not above"
