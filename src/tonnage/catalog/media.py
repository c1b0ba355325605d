"""How much video does an accelerator decode beside its work? Published stream counts, one row a part and codec."""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from tonnage.catalog.rows import DATA, number, table
from tonnage.errors import BadFact

__all__ = ["CODECS", "Decoder", "decoder"]

CODECS: Final = ("h264", "hevc")
PIXELS_PER_STREAM: Final = 1920.0 * 1080.0 * 30.0
"""Of a stream of 1,080 lines at 30 frames a second. [px/s]"""


class Decoder(msgspec.Struct, frozen=True, kw_only=True):
    """The video decoders of one part, all together."""

    pixels_per_s: float
    source: str
    codec: str
    """The row's own; another than asked for where only that is published."""


def decoder(accelerator: str, *, codec: str) -> Decoder | None:
    """The decoders of a part for a codec; HEVC borrows H.264's rate, which is never the higher one. None = unknown."""
    rows = _rows()
    for name in (codec, "h264") if codec == "hevc" else (codec,):
        if (accelerator, name) in rows:
            return rows[accelerator, name]
    return None


@cache
def _rows() -> dict[tuple[str, str], Decoder]:
    found = {}
    for row in table(DATA / "media" / "decoders.csv"):
        streams = number(row, "streams_1080p30")
        if streams is None or streams <= 0 or row["codec"] not in CODECS:
            raise BadFact(
                f"decoders.csv: {row['accelerator']} needs streams above 0 and a codec of {', '.join(CODECS)}"
            )
        found[row["accelerator"], row["codec"]] = Decoder(
            pixels_per_s=streams * PIXELS_PER_STREAM, source=row["source"], codec=row["codec"]
        )
    return found
