"""How sure a training prediction is: by the architectures that the fit has seen, the method, structure and software."""

import pytest
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.core import train_estimate as estimate
from tonnage.domain.answer import Basis
from tonnage.domain.training import TrainSetup
from tonnage.physics.training_memory import EXACT
from tonnage.simulation.training import model_flop


def test_an_architecture_that_no_fit_has_seen_is_derived() -> None:
    assert estimate.basis(train_setup()) is Basis.CALIBRATED
    assert estimate.basis(train_setup(accelerator=catalog.accelerator("mi300x"))) is Basis.DERIVED


def test_the_level_names_method_structure_and_software() -> None:
    def level(setup: TrainSetup) -> str:
        return estimate.errors(setup).level

    assert level(train_setup(software="megatron")) == "calibrated:whole:dense:megatron"
    assert level(train_setup(method="qlora", software="eager")) == "calibrated:adapter:dense:eager"


def test_utilisation_counts_model_flop_on_the_dense_16_bit_peak() -> None:
    setup = train_setup(seq_len=4096, precision="fp8")
    assert estimate.mfu(setup, step_s=1.0) == pytest.approx(model_flop(setup) / setup.accelerator.peaks["bf16"])


def test_no_peak_is_said_to_be_below_what_counts_and_formats_give() -> None:
    lora = train_setup("eager", method="lora", seq_len=128)
    found = estimate.memory(lora)
    exact = sum(part.value for part in found.parts if part.name in EXACT)
    assert found.low is not None and exact <= found.low <= found.value
    assert found.low > found.value / estimate.errors(lora).factor("memory_peak_bytes")


def test_a_peak_has_an_upper_end_of_its_own() -> None:
    whole = train_setup(software="megatron")
    found, upper = estimate.memory(whole), estimate.errors(whole).factor("memory_peak_bytes_upper")
    assert found.low is not None and found.high == pytest.approx(found.value * upper)
    assert 1.0 < upper < found.value / found.low, "tables of Megatron lie below their prediction, not above"
