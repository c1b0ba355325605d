"""A bare size is a dense decoder of that size, and says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.catalog.hub import resolve
from tonnage.catalog.hub.names import bare_size, decoder_of_size
from tonnage.domain.model import Attention
from tonnage.errors import BadRequest
from tonnage.physics.parameters import parameters


@pytest.mark.parametrize(
    "text", ["125M", "350m", "1B", "1.5B", "7b", "13B", "34B", "70b", "175B", "405B", "1T", " 8 B "]
)
def test_the_total_is_the_size_to_one_percent(text: str) -> None:
    found = resolve(text, offline=True)
    assert parameters(found).value == pytest.approx(bare_size(text), rel=0.01)
    assert "dense decoder of that size" in found.assumed[0]


@given(st.floats(min_value=25e6, max_value=4.9e12))
def test_every_size_in_between_is_met(size: float) -> None:
    found = decoder_of_size(size, name="x")
    assert parameters(found).value == pytest.approx(size, rel=0.01)
    mixer = found.layers[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.num_attention_heads * mixer.head_dim == found.hidden_size
    assert mixer.num_attention_heads % mixer.num_key_value_heads == 0


def test_known_sizes_get_the_shape_such_models_have() -> None:
    seventy = resolve("70B", offline=True)
    assert (seventy.hidden_size, seventy.layers[0].count) == (8192, 80)


@pytest.mark.parametrize("text", ["8x7B", "16x3.8b"])
def test_a_mixture_has_no_shape_from_its_size(text: str) -> None:
    with pytest.raises(BadRequest, match="mixture of experts"):
        resolve(text, offline=True)


@pytest.mark.parametrize("text", ["0B", "1M", "9999B", "0.0001B"])
def test_no_decoder_has_that_size(text: str) -> None:
    with pytest.raises(BadRequest, match="20M to 5T"):
        resolve(text, offline=True)
