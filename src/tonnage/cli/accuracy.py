"""`tonnage accuracy`: predicted against measured, by block; the scoring is a package of its own (tools/accuracy)."""

from __future__ import annotations

from tonnage.errors import BadRequest

try:
    from tonnage_accuracy.command import accuracy
except ModuleNotFoundError as error:
    if error.name != "tonnage_accuracy":
        raise
    raise BadRequest(
        "scoring needs the 'accuracy' extra: pip install 'tonnage[accuracy]', or in a checkout "
        "pip install -e tools/accuracy"
    ) from None

__all__ = ["accuracy"]
