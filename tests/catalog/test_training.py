"""The files of training facts: read whole, shares are shares, totals have sources."""

import msgspec
import pytest

from tonnage import catalog
from tonnage.catalog.fitted import training_coefficients, with_training_totals
from tonnage.domain.model import Attention


def test_coefficients_are_dated_and_physical() -> None:
    found = training_coefficients()
    assert found.fitted >= "2026"
    assert found.source
    for table in (found.gemm, found.narrow, found.memory, found.expert):
        assert all(0.05 < share < 1 for share in table.values())
    for name in ("link", "network", "host_link", "tensor_overlap", "data_overlap", "unaligned", "ragged"):
        assert 0 <= getattr(found, name) <= 1, name


def test_every_table_has_a_row_for_every_software_or_a_fallback() -> None:
    found = training_coefficients()
    families = {"megatron", "deepspeed", "fsdp", "eager", "compiled", "jax"}
    for name in ("passes", "layer_s", "step_s", "turn_s", "activation"):
        assert set(getattr(found, name)) == families, name
    for name in ("gemm", "narrow", "attention", "memory"):
        assert "*" in getattr(found, name), name


def test_models_with_layers_are_left_alone() -> None:
    llama = catalog.model("meta-llama/Meta-Llama-3-8B")
    assert with_training_totals(llama) is llama


def test_transformer_xl_is_recurrent_with_a_short_head() -> None:
    model = with_training_totals(catalog.model("nvidia/transformer-xl-base-wt103"))
    mixer = model.layers[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.segment_recurrence
    assert model.head_columns is not None
    assert model.head_columns < model.vocab_size / 4


@pytest.mark.parametrize("name", ["nvidia/nnunet-3d", "nvidia/nnunet-2d", "torchvision/maskrcnn_resnet50_fpn"])
def test_counted_networks_carry_activation_values(name: str) -> None:
    network = with_training_totals(catalog.model(name)).network
    assert network is not None
    assert network.activation_values
    assert msgspec.structs.asdict(network)["flop"] > 1e9
