"""
How many FLOP does a source count for one sequence? Rates printed as FLOP/s mean nothing without its definition.

Sources count six FLOP per weight and token (eight where they count the recomputed forward pass as well), and the whole
or the causal half of attention. A row says which in `tflops_definition` and `attn_flops`.
"""

from __future__ import annotations

from tonnage import catalog
from tonnage.domain.model import Attention, Model
from tonnage.errors import BadFact
from tonnage.planning.train.training_job import layer_weights
from tonnage.validation.rows import Row, count, text
from tonnage.validation.train_cases import model_of

__all__ = ["flop_of_sequence"]


def flop_of_sequence(row: Row) -> float:
    """
    FLOP of one sequence, forward and backward, as the row's source counts them.

    Raises
    ------
    BadFact
        The row gives no sequence length, or its model has no attention.
    """
    said = model_of(row)
    model = said if isinstance(said, Model) else catalog.model(said)
    tokens = count(row, "seq_len")
    mixer = model.layers[0].mixer if model.layers else None
    if tokens is None or not isinstance(mixer, Attention):
        raise BadFact("not stated: what its FLOP/s count")
    weights = layer_weights(model)
    layers = sum(group.count for group in model.layers)
    width = mixer.num_attention_heads * mixer.head_dim
    attention = 2.0 * layers * width * tokens * (0.5 if text(row, "attn_flops") == "causal" else 1.0)
    repeated = text(row, "tflops_definition") == "hardware" and text(row, "act_ckpt") == "full"
    passes = 8.0 if repeated else 6.0
    return tokens * (passes * (weights + attention) + 6.0 * model.hidden_size * model.vocab_size)
