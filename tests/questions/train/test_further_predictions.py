"""Tokens predicted beyond the next, as layers and columns of the head."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.training_setups import train_setup

from tonnage import catalog
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe
from tonnage.errors import BadRequest
from tonnage.questions.train.setup import with_further_predictions
from tonnage.simulation.training import model_flop

ATTENTION = Attention(num_attention_heads=8, num_key_value_heads=8, head_dim=64)


def _model(*layers: LayerGroup) -> Model:
    return Model(id="m", family="", kind="llm", hidden_size=512, vocab_size=1000, layers=layers)


def test_none_leaves_the_model_as_it_is() -> None:
    model = _model(LayerGroup(count=4, mixer=ATTENTION, feed_forward=Mlp(intermediate_size=2048)))
    assert with_further_predictions(model, 0) is model


def test_each_adds_a_layer_of_the_last_kind_and_a_pass_through_the_head() -> None:
    dense = LayerGroup(count=1, mixer=ATTENTION, feed_forward=Mlp(intermediate_size=2048))
    routed = LayerGroup(
        count=3,
        mixer=ATTENTION,
        feed_forward=Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=512),
    )
    more = with_further_predictions(_model(dense, routed), 2)
    assert more.layers == (dense, routed, replace(routed, count=2, extra_parameters=2.0 * 512**2))
    assert more.head_columns == 3000


def test_layers_of_their_own_are_added_both() -> None:
    mixing = LayerGroup(count=2, mixer=ATTENTION, norms=1)
    feeding = LayerGroup(count=4, feed_forward=Mlp(intermediate_size=2048), norms=1)
    more = with_further_predictions(_model(mixing, feeding), 1)
    assert [group.count for group in more.layers] == [2, 4, 1, 1]
    assert more.layers[2].mixer == ATTENTION and more.layers[3].feed_forward == feeding.feed_forward


def test_deepseek_takes_as_much_more_as_is_published() -> None:
    """NVIDIA prints 864 TFLOP/s for 3,328 tokens/s: 259.6 GFLOP a token, 3.7 % above 250.4 without the second token."""
    model = catalog.model("deepseek-ai/DeepSeek-V3")
    each = model_flop(train_setup(seq_len=4096, model=with_further_predictions(model, 1))) / 4096
    assert each == pytest.approx(864e12 / 3328, rel=0.015)


@pytest.mark.parametrize("depth", [-1, 17])
def test_depths_that_nobody_trains_are_refused(depth: int) -> None:
    model = _model(LayerGroup(count=4, mixer=ATTENTION, feed_forward=Mlp(intermediate_size=2048)))
    with pytest.raises(BadRequest, match=f"predicted_ahead: {depth} must be 0 to 16"):
        with_further_predictions(model, depth)
