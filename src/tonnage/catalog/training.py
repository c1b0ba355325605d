"""The fitted numbers of training, read from their dated file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from tonnage.errors import BadFact
from tonnage.nouns.training import TrainCoefficients

__all__ = ["training_coefficients"]


@cache
def training_coefficients() -> TrainCoefficients:
    """
    Coefficients shared by every training prediction, with their source and date.

    Raises
    ------
    BadFact
        The file does not hold what `TrainCoefficients` names.
    """
    path = files("tonnage.catalog") / "data" / "training" / "coefficients.toml"
    try:
        return msgspec.toml.decode(path.read_bytes(), type=TrainCoefficients)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFact(f"training coefficients {path.name}: {error}") from error
