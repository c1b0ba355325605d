"""What has been fitted about networks that do not decode text, read from its dated file."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.model import Model
from tonnage.domain.offline import Offline, Runtime, Shape, Silicon, Unet
from tonnage.errors import BadFact

__all__ = ["offline", "runtime_of", "shape_of", "silicon_of", "unet_of"]

_GENERIC = "generic"


@cache
def offline() -> Offline:
    """
    Shared numbers of every prediction of a batch through a network.

    Raises
    ------
    BadFact
        The file does not hold what `Offline` names.
    """
    path = files("tonnage.catalog") / "data" / "engines" / "networks.toml"
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Offline)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFact(f"networks.toml: {error}") from error


def runtime_of(facts: Offline, engine: str, *, mode: str = "") -> tuple[Runtime, bool]:
    """
    The runtime of an engine and mode, and whether it is a stand-in.

    An unknown mode takes the engine's own default; an unknown engine the generic one.
    """
    table = _runtimes(facts.runtimes)
    engine, mode = (facts.aliases.get(name.lower(), name.lower()) for name in (engine, mode))
    for key in ((engine, mode), (engine, "")):
        if key in table:
            return table[key], False
    return table[_GENERIC, ""], True


def silicon_of(facts: Offline, accelerator: Accelerator) -> Silicon:
    """The generation an accelerator belongs to: by compute capability, architecture, segment, or vendor."""
    names = {row.architecture.lower(): row for row in facts.silicon}
    whole = accelerator.architecture.lower()
    capability = accelerator.compute_capability or "none"
    for name in (capability, whole, *whole.split()[:1], accelerator.segment, accelerator.vendor.lower()):
        if name in names:
            return names[name]
    return names[_GENERIC]


def shape_of(facts: Offline, model: Model) -> tuple[Shape, float | None]:
    """What is known of a model's family, and the depth its name gives; the last shape is that of any network."""
    return _shape(facts.shapes, f"{model.family} {model.id}".lower())


def unet_of(facts: Offline, model: Model) -> Unet | None:
    """The denoising U-Net of a model's family, or of the family its id names; none when it is not known."""
    wanted = "ControlNet" if "controlnet" in model.id.lower() else model.family
    return next((unet for unet in facts.unets if unet.family == wanted), None)


@lru_cache(maxsize=8)
def _runtimes(rows: tuple[Runtime, ...]) -> dict[tuple[str, str], Runtime]:
    return {(row.engine, row.mode): row for row in rows}


@lru_cache(maxsize=512)
def _shape(shapes: tuple[Shape, ...], name: str) -> tuple[Shape, float | None]:
    for shape in shapes:
        match = re.search(shape.pattern, name)
        if match is not None:
            depth = match.groups()[0] if match.groups() else None
            return shape, float(depth) if depth else None
    raise BadFact("networks.toml: the last shape must match any name")
