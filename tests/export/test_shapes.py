"""Every field of an architecture's description is a flag of Megatron-LM, or a refusal."""

from typing import Any

import msgspec
import pytest

from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe
from tonnage.questions import launchable as launching

CHANGES: dict[type, dict[str, Any]] = {
    Attention: {"v_head_dim": 64, "window": 4096, "causal": False, "gated": True, "sinks": True, "kv_shared": True,
                "segment_recurrence": True, "key_is_value": True, "index_heads": 1, "index_head_dim": 8,
                "index_topk": 4, "qk_norm_all_heads": True},
    LayerGroup: {"cross_attention": Attention(num_attention_heads=1, num_key_value_heads=1, head_dim=8), "norms": 4,
                 "norm_bias": True, "extra_parameters": 5.0},
    Model: {"encoder": (LayerGroup(count=1),), "towers": (), "embedding_size": 8, "learned_positions": 8,
            "head_bias": True, "head_columns": 4, "has_head": False, "final_norms": 0,
            "norm_bias": True, "extra_parameters": 3.0},
    Moe: {"shared_gate": True, "dense_intermediate_size": 8, "latent_size": 8, "bias": True, "router_bias": True,
          "gated": False},
    Mlp: {"gated": False, "bias": True},
}  # fmt: skip


def _built(changed: type, field: str, value: Any) -> Model:
    """A plain decoder with one field of its description changed."""
    feed: Any = (
        Mlp(intermediate_size=64)
        if changed is not Moe
        else Moe(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8)
    )
    mixer, more = Attention(num_attention_heads=4, num_key_value_heads=2, head_dim=8), {field: value}
    if changed is Attention:
        mixer = msgspec.structs.replace(mixer, **more)
    if changed in (Moe, Mlp):
        feed = msgspec.structs.replace(feed, **more)
    group = LayerGroup(count=2, mixer=mixer, feed_forward=feed)
    group = msgspec.structs.replace(group, **more) if changed is LayerGroup else group
    model = Model(id="a/b", family="Llama3", kind="llm", hidden_size=32, vocab_size=100, layers=(group,))
    return msgspec.structs.replace(model, **more) if changed is Model else model


@pytest.mark.parametrize("kind", list(CHANGES))
def test_every_field_of_the_description_is_a_flag_or_a_refusal(kind: type) -> None:
    assert launching._shape(
        _built(kind, "count" if kind is LayerGroup else "id", 2 if kind is LayerGroup else "a/b")
        if kind in (LayerGroup, Model)
        else _built(Model, "id", "a/b")
    )
    for field, value in CHANGES[kind].items():
        if value == getattr(kind, field, None) or value == ():
            continue
        assert not launching._shape(_built(kind, field, value)), f"{kind.__name__}.{field} is lost"
    handled = {*CHANGES[kind], *launching.WRITTEN, *launching.BESIDE, "network", "profile", "towers"}
    if kind in (Attention, LayerGroup, Model):
        assert set(kind.__struct_fields__) <= handled, "a new field: give it a flag, or a change that is refused"
