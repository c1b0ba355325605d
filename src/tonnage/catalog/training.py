"""The fitted numbers of training and counted totals of networks, read from their dated files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

import msgspec

from tonnage.domain.model import Attention, Model, Network
from tonnage.domain.training import TrainCoefficients
from tonnage.errors import BadFact

__all__ = ["training_coefficients", "with_training_totals"]

_T = TypeVar("_T")


class _Counted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flop: float
    activation_values: float
    input_px: int
    source: str


@cache
def training_coefficients() -> TrainCoefficients:
    """
    Coefficients shared by every training prediction, with their source and date.

    Raises
    ------
    BadFact
        The file does not hold what `TrainCoefficients` names.
    """
    return _read("coefficients.toml", TrainCoefficients)


_ADAPTIVE_COLUMNS: Final = 33_000
"""20,000 short-listed words for every token, and the tails of 20,000, 160,000 and 68,000 words for 5, 7 and 1 % of
them (arXiv 1609.04309 on WikiText-103)."""


def with_training_totals(model: Model) -> Model:
    """The model with the totals that training needs, where its own source prints none."""
    if model.family == "Transformer-XL" and model.layers:
        recurrent = tuple(
            msgspec.structs.replace(group, mixer=msgspec.structs.replace(group.mixer, segment_recurrence=True))
            if isinstance(group.mixer, Attention)
            else group
            for group in model.layers
        )
        return msgspec.structs.replace(model, layers=recurrent, head_columns=_ADAPTIVE_COLUMNS)
    if model.layers or model.encoder or (model.network and model.network.activation_values):
        return model
    counted = _counted().get(model.id)
    if counted is None:
        return model
    network = Network(
        flop=counted.flop, input_px=counted.input_px, activation_values=counted.activation_values
    )  # fmt: skip
    return msgspec.structs.replace(model, network=network)


@cache
def _counted() -> dict[str, _Counted]:
    return _read("networks.toml", dict[str, _Counted])


def _read(name: str, kind: type[_T]) -> _T:
    path = files("tonnage.catalog") / "data" / "training" / name
    try:
        return msgspec.toml.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFact(f"training file {name}: {error}") from error
