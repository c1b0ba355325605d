"""
Fitted numbers, read from dated files: of training, of networks that decode no text, and what errors come from.

`causes` lists what errors come from, and what part of them stacks share; how far predictions are off says `spreads`.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from tonnage.catalog.rows import DATA, table
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.model import Attention, Model, Network
from tonnage.domain.offline import Offline, Runtime, Shape, Silicon, Unet
from tonnage.domain.rl import RlCoefficients
from tonnage.domain.training import TrainCoefficients
from tonnage.errors import BadFact
from tonnage.record import Record

_T = TypeVar("_T")


class _Counted(Record, kw_only=True, forbid_unknown_fields=True):
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
    return _read("training/coefficients.toml", TrainCoefficients)


@cache
def rl_coefficients() -> RlCoefficients:
    """
    What loops of reinforcement learning add to engine and trainer, with source and date.

    Raises
    ------
    BadFact
        The file does not hold what `RlCoefficients` names.
    """
    return _read("training/rl.toml", RlCoefficients)


_ADAPTIVE_COLUMNS: Final = 33_000
"""20,000 short-listed words for every token, and the tails of 20,000, 160,000 and 68,000 words for 5, 7 and 1 % of
them (arXiv 1609.04309 on WikiText-103)."""


def with_training_totals(model: Model) -> Model:
    """
    The model with the totals that training needs, where its own source prints none.

    A network gets the values of its activations; Transformer-XL its recurrence, and the columns of its adaptive
    softmax. Any other model stays as it is.
    """
    if model.family == "Transformer-XL" and model.layers:
        recurrent = tuple(
            replace(group, mixer=replace(group.mixer, segment_recurrence=True))
            if isinstance(group.mixer, Attention)
            else group
            for group in model.layers
        )
        return replace(model, layers=recurrent, head_columns=model.head_columns or _ADAPTIVE_COLUMNS)
    if model.layers or model.encoder or (model.network and model.network.activation_values):
        return model
    counted = _read_counts().get(model.id)
    if counted is None:
        return model
    network = Network(flop=counted.flop, input_px=counted.input_px, activation_values=counted.activation_values)
    return replace(model, network=network)


@cache
def _read_counts() -> dict[str, _Counted]:
    return _read("training/networks.toml", dict[str, _Counted])


def _read(name: str, kind: type[_T]) -> _T:
    try:
        return msgspec.toml.decode((DATA / name).read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFact(f"{name}: {error}") from error


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
    return _read("engines/networks.toml", Offline)


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


@cache
def network_engines() -> frozenset[str]:
    """Names of engines with measurements of batches through a network, in every spelling."""
    facts = offline()
    return frozenset({engine for engine, _ in _runtimes(facts.runtimes)} | set(facts.aliases))


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


class Cause(Record, kw_only=True):
    """One named cause of errors, and the part of their variance that it makes up."""

    name: str
    shared_by: tuple[str, ...]
    """What two stacks must have in common to share it: accelerator, software, or both."""
    share: float
    """Of the variance of ln(measured / predicted). [-]"""


class Priors(Record, kw_only=True):
    """Before anything is measured: how far the numbers of one run lie from the catalogue's."""

    widths: dict[str, float]
    """By cause: standard deviation of its logarithm. [-]"""
    noise: dict[str, float]
    """By quantity: the same of what neither a cause nor a drift explains of one measured number. [-]"""
    offset: dict[str, float] = {}
    """By drift (`pace` of all times, `first` of first tokens besides): what all configurations share. [-]"""
    drift: dict[str, float] = {}
    """By drift: what changes from one configuration to another. [-]"""
    length: dict[str, float] = {}
    """By dimension of a configuration: how far in its logarithm until a drift is forgotten but for 1 / e. [-]"""


@cache
def causes(kind: str) -> tuple[Cause, ...]:
    """The causes of errors of one kind of case; what their shares leave of 1 is each number's own."""
    found = tuple(
        Cause(name=row["cause"], shared_by=tuple(row["shared_by"].split()), share=float(row["share"]))
        for row in table(DATA / "intervals" / "causes.csv")
        if row["kind"] == kind
    )
    if not found or not 0 <= sum(cause.share for cause in found) < 1:
        raise BadFact(f"intervals/causes.csv: the shares of {kind} must be given and sum to less than 1")
    return found


@cache
def priors(kind: str) -> Priors:
    """Widths of the causes that a user's own measurements settle, and of what they leave."""
    rows = [row for row in table(DATA / "intervals" / "priors.csv") if row["kind"] == kind]
    by: dict[str, dict[str, float]] = {"cause": {}, "noise": {}, "offset": {}, "drift": {}, "length": {}}
    for row in rows:
        by[row["of"]][row["name"]] = float(row["width"])
    if not rows or min(width for own in by.values() for width in own.values()) <= 0:
        raise BadFact(f"intervals/priors.csv: the widths of {kind} must be given and above 0")
    return Priors(widths=by["cause"], **{of: by[of] for of in ("noise", "offset", "drift", "length")})
