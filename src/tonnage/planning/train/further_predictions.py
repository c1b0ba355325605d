"""Multi-token prediction in training: a position that also learns the tokens after the next one."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Model
from tonnage.errors import BadRequest

__all__ = ["with_further_predictions"]

_MOST: Final = 16
"""More than models train with: DeepSeek-V3 1, Nemotron 3 Super 2, up to 7 in the first study (arXiv 2404.19737)."""


def with_further_predictions(model: Model, depth: int) -> Model:
    """
    The model that trains to predict `depth` further tokens, as layers and head columns beside its own.

    Each of them is one more layer with attention (and the last feed-forward layer, where a model keeps the two in
    layers of their own) behind a projection of two hidden states to one, and one more pass through the head.

    Parameters
    ----------
    model : Model
        With layers and a head.
    depth : int
        d, tokens beyond the next, 0 to 16. [-]

    Returns
    -------
    Model
        d layers more and 1 + d times the columns of the head; itself where d is 0.

    Raises
    ------
    BadRequest
        The depth is out of range, or the model has no layers with attention or no head.

    Valid
    -----
    Layers in the formats of the others; products of the projection are left out (0.3 % of DeepSeek-V3's), and what
    depths share is held once for each.

    Source
    ------
    DeepSeek-V3, arXiv 2412.19437, section 2.2: one of 61 layers more and a second pass through the head are 4 % of the
    FLOP; NVIDIA prints 3.8 % more than the model without it takes.
    """
    if depth == 0:
        return model
    if not 0 < depth <= _MOST:
        raise BadRequest(f"predicted_ahead: {depth} must be 0 to {_MOST}; DeepSeek-V3 takes 1")
    attending = [group for group in model.layers if isinstance(group.mixer, Attention | LatentAttention)]
    if not attending or not model.has_head:
        raise BadRequest(f"predicted_ahead: {model.id} has no layers with attention and a head; leave it out")
    added = [_further(attending[-1], depth, extra=2.0 * model.hidden_size**2)]
    if attending[-1].feed_forward is None:
        added += [_further(group, depth) for group in model.layers if group.feed_forward is not None][-1:]
    columns = model.head_columns or model.vocab_size
    return replace(model, layers=(*model.layers, *added), head_columns=columns * (1 + depth))


def _further(group: LayerGroup, depth: int, *, extra: float = 0.0) -> LayerGroup:
    return replace(group, count=depth, extra_parameters=group.extra_parameters + extra)
