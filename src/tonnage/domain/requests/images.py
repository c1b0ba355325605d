"""Fields that say which images come with a request, and what a model's vision encoder makes of them."""

from __future__ import annotations

from typing import Annotated, Final

from tonnage.domain.requests.field import MAY_BE_NOTHING, Field
from tonnage.errors import BadRequest, echo
from tonnage.record import SparseRecord

MIN_SIDE: Final = 8.0
MAX_SIDE: Final = 20_000.0
"""Of an image. [px]"""


class ImageFields(SparseRecord, kw_only=True):
    """Images that come with each request."""

    images: Annotated[float | None, Field("images of a request, on average, for models that see", high=1e4)] = None
    image_size: Annotated[str | None, Field("their size in pixels: 1024x768, or one side of a square")] = None
    image_hits: Annotated[
        float | None,
        Field("share of images whose encoding is kept, as seen", "fraction", low=MAY_BE_NOTHING, high=0.999),
    ] = None
    """Stated instead of computed from `distinct_images`. [-]"""
    distinct_images: Annotated[
        float | None, Field("different images that requests draw from: what is kept of them", high=1e12)
    ] = None
    """Each asked for equally often, which is the least that a cache of encodings can give."""


class Images(SparseRecord, kw_only=True):
    """Images of a mean request as the model's own rule cuts them up: by their size, or patches and tokens as stated."""

    per_request: Annotated[float, Field("images of a request, whose tokens isl holds", high=1e4)]
    size: Annotated[str | None, Field("in pixels, 1024x768, in the place of patches, tokens and tiles")] = None
    patches: Annotated[float, Field("patches of an image, or of one of its tiles", high=1e6)] = 0.0
    tokens: Annotated[float, Field("tokens that one image is in the prompt", "tokens", high=1e6)] = 0.0
    tiles: Annotated[float, Field("tiles of an image, each a pass of the encoder", high=1e3)] = 1.0
    hits: Annotated[
        float | None, Field("share of these images whose encoding is kept", "fraction", low=MAY_BE_NOTHING, high=0.999)
    ] = None
    distinct: Annotated[float | None, Field("different images that are drawn from, equally often", high=1e12)] = None

    @property
    def prompt_tokens(self) -> float:
        """Tokens that they add to a prompt. [tokens]"""
        return self.per_request * self.tokens


def pixels_of(said: str) -> tuple[float, float]:
    """
    Width and height from "1024x768" or "1024". [px]

    Raises
    ------
    BadRequest
        No size, or a side that no model reads.
    """
    sides = said.lower().replace("×", "x").replace("px", "").split("x")
    if len(sides) not in {1, 2} or not all(side.strip().isascii() and side.strip().isdigit() for side in sides):
        raise BadRequest(f"image_size: '{echo(said)}' is no size in pixels; write for example '1024x768' or '896'")
    width, height = float(sides[0]), float(sides[-1])
    if not (min(width, height) >= MIN_SIDE and max(width, height) <= MAX_SIDE):
        raise BadRequest(f"image_size: '{echo(said)}' has a side outside {MIN_SIDE:g} to {MAX_SIDE:,.0f} pixels")
    return width, height
