"""Can a model be split so? Stated degrees against the model's heads, layers and experts, one sentence each."""

from __future__ import annotations

from typing import Final, get_args

from tonnage.domain.case import TrainCase
from tonnage.domain.layout import Sharding
from tonnage.domain.model import Model, Moe
from tonnage.errors import BadRequest, UnknownName

__all__ = ["SHARDINGS", "check_degrees"]

SHARDINGS: Final[tuple[str, ...]] = get_args(Sharding)
_ENDS: Final = 2
"""Embedding and head, which may be stages of their own (Llama 3 405B: 126 layers on 16 x 8 stages)."""


def check_degrees(case: TrainCase, model: Model) -> None:
    """
    Every stated degree divides what it splits.

    Raises
    ------
    UnknownName
        No such sharding.
    BadRequest
        A tensor degree that divides no heads, more pipeline stages than layers, experts where there are none.
    """
    said = case.layout
    if said.sharding is not None and said.sharding not in SHARDINGS:
        raise UnknownName("sharding", said.sharding, known=SHARDINGS)
    groups = (*model.encoder, *model.layers)
    layers = sum(group.count for group in groups)
    if said.tp and said.tp > 1:
        counts = (getattr(group.mixer, "num_attention_heads", None) for group in groups)
        odd = next((heads for heads in counts if heads and heads % said.tp), None)
        if odd is not None:
            raise BadRequest(f"layout.tp: {said.tp} does not divide the {odd} attention heads of {model.id}")
    if said.pp and layers and said.pp * (said.vpp or 1) > layers + _ENDS:
        stages = f"{said.pp} x {said.vpp} virtual" if said.vpp and said.vpp > 1 else f"{said.pp}"
        raise BadRequest(f"layout.pp: {stages} stages are more than the {layers} layers of {model.id}")
    if said.ep and said.ep > 1:
        experts = [group.feed_forward.num_experts for group in groups if isinstance(group.feed_forward, Moe)]
        if not experts:
            raise BadRequest(f"layout.ep: {model.id} has no experts to spread over {said.ep}; leave ep out")
        if any(number % said.ep for number in experts):
            raise BadRequest(f"layout.ep: {said.ep} does not divide the {experts[0]} experts of {model.id}")
