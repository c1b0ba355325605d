"""Fields that come in groups: LoRA adapters, images, and requests that come back as sessions."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, engine_field
from tonnage.errors import BadRequest, echo
from tonnage.record import SparseRecord

_GROUP = "Model and engine"


class AdapterFields(SparseRecord, kw_only=True):
    """LoRA adapters of a base model, each request for one of them."""

    adapters: Annotated[
        int | None, engine_field("LoRA adapters served on the model, each request for one", high=1e6)
    ] = None
    adapter_rank: Annotated[int, engine_field("their largest rank", high=65536)] = 16
    adapter_skew: Annotated[
        float,
        engine_field(
            "how unevenly they are asked for: exponent of Zipf's law; 0 = all alike, 1 = the second half as often",
            low=MAY_BE_NOTHING,
            high=10.0,
        ),
    ] = 0.0
    """The i-th most popular is asked for in proportion to i to the minus this. [-]"""
    adapter_targets: Annotated[
        str | None, engine_field("matrices that they adapt: 'q_proj,v_proj' or 'attention'; otherwise all linear")
    ] = None


class Adapters(SparseRecord, kw_only=True):
    """LoRA adapters as one configuration serves them."""

    count: int
    rank: int
    skew: float = 0.0
    """Exponent of Zipf's law. [-]"""
    targets: tuple[str, ...] = ()
    """Names of matrices; empty = every linear layer."""
    slots: int = 0
    """Adapters in an accelerator's memory at once; 0 = none, for each is merged into replicas of its own."""
    allocated: int = 0
    """Rank that each slot has room for, where the engine knows few sizes; 0 = the adapters' own."""

    @property
    def slot_rank(self) -> int:
        """Rank that each slot has room for."""
        return self.allocated or self.rank

    @property
    def kept(self) -> Literal["resident", "swapped", "merged"]:
        """Where they are: all in the accelerator's memory, some of them, or in the weights."""
        if not self.slots:
            return "merged"
        return "resident" if self.slots >= self.count else "swapped"

    @property
    def label(self) -> str:
        """In a few words: "64 LoRA resident", "64 LoRA swapped 8", "4 LoRA merged"."""
        return f"{self.count} LoRA {self.kept}{f' {self.slots}' if self.kept == 'swapped' else ''}"


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


_ABOVE: float = 0.999


class SessionFields(SparseRecord, kw_only=True):
    """Sessions: what is not given is that of the traffic profile."""

    profile: str | None = None
    """Of the traffic whose sessions these are, where the lengths are not its own."""
    reuse: Annotated[bool, Field("prompts find the cache of their session again; no = every prompt in full")] = True
    prefix_hits: Annotated[
        float | None,
        Field("share of prompt tokens found in the cache, as measured", "fraction", low=MAY_BE_NOTHING, high=0.999),
    ] = None
    """Stated instead of computed from sessions: the same for every option, however much cache it has. [-]"""
    turns: Annotated[float | None, Field("mean turns of a session", low=_ABOVE, high=1e4)] = None
    turn_gap_s: Annotated[
        float | None,
        Field("from one turn to the next: answer, tools, thinking", "s", name="turn_gap", high=86400.0 * 7),
    ] = None
    """Mean. [s]"""
    system_prompt: Annotated[
        float | None, Field("tokens that every session begins with", "tokens", low=MAY_BE_NOTHING, high=1e7)
    ] = None
    branching: Annotated[
        float | None,
        Field("share of turns that keep only part of their context", "fraction", low=MAY_BE_NOTHING, high=1.0),
    ] = None
    success_rate: Annotated[
        float | None, Field("share of sessions that solve their task, for its cost", "fraction", high=1.0)
    ] = None
    kv_host_bytes: Annotated[
        float | None, engine_field("host memory of a node for cache: 1 TiB", "bytes", name="kv_host")
    ] = None
    kv_host_bytes_per_s: Annotated[
        float | None,
        engine_field(
            "between host memory and all accelerators of a node; absent = each one's own link",
            "bytes/s",
            name="kv_host_link",
        ),
    ] = None
    kv_nvme_bytes: Annotated[
        float | None, engine_field("local disks of a node for cache: 8 TB", "bytes", name="kv_nvme")
    ] = None
    kv_nvme_bytes_per_s: Annotated[
        float | None, engine_field("reading from them, of a node", "bytes/s", name="kv_nvme_link")
    ] = None
    kv_store_bytes: Annotated[
        float | None, engine_field("cache store that all replicas share", "bytes", name="kv_store")
    ] = None
    kv_store_bytes_per_s: Annotated[
        float | None, engine_field("reading from it, of a node", "bytes/s", name="kv_store_link")
    ] = None
