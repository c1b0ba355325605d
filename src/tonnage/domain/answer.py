"""A number that can say where it came from.

`Quantity` carries value, unit, the 90 % interval, the basis and the parts that it follows from, each a quantity itself:
a number is its own explanation, down to single operators and overheads with their evidence. A total is only as well
founded as its weakest part, so the basis of a sum is the weakest basis in it.

Every quantity says how its value follows from its parts (`rule`), so that a program can check a tree without knowing
what it is about: `gap` does. Deep trees are built when somebody asks (`tonnage explain`, `predict --why`), never while
planning.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from math import exp, inf, log
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tonnage.domain.calibration import CalibrationUse
from tonnage.record import SparseRecord
from tonnage.units import show

BREAKDOWN_SCHEMA: Final = "tonnage.breakdown/1"


class Basis(StrEnum):
    """How a number is founded, strongest first."""

    MEASURED = "measured"
    CALIBRATED = "calibrated"
    DERIVED = "derived"
    ASSUMED = "assumed"


_STRENGTH = {basis: rank for rank, basis in enumerate(Basis)}


def weakest(bases: Iterable[Basis]) -> Basis:
    """The basis of a number made from numbers with these bases; `derived` for none."""
    return max(bases, key=_STRENGTH.__getitem__, default=Basis.DERIVED)


Tier = Literal["own", "architecture", "generation", "curve", "fitted", "formula", "assumed", "stated"]
"""
What a time rests on, strongest first.

Kernels measured on this accelerator; on a donor of the same compute capability; on a donor of another generation; the
generic curve. Then: fitted on published or own runs; a formula on datasheet rates; a usual value that nobody measured
here; what the question states.
"""

Rule = Literal["sum", "max", "quotient"]


class Evidence(SparseRecord, kw_only=True):
    """What a leaf rests on, and how near the hardware's limit it comes."""

    tier: Tier
    grid: str = ""
    """Key of the measured grid ("gemm/bf16"), or of the fitted numbers ("vllm 0.24")."""
    accelerator: str = ""
    """Where it was measured: the donor's id where the accelerator's own was not."""
    source: str = ""
    """Software and table that were measured, or the fit."""
    file: str = ""
    """Of the catalogue, below `tonnage/catalog/data`."""
    date: str = ""
    """When the file was built (ISO)."""
    roofline_s: float | None = None
    """One execution at datasheet rates: the longer of arithmetic and traffic, or the message over the link. [s]"""
    roofline_share: float | None = None
    """`roofline_s` over one execution as predicted. [-]"""
    bound: Literal["", "arithmetic", "memory", "link"] = ""
    """Which of the datasheet's limits is the longer."""


class Execution(SparseRecord, kw_only=True):
    """One operator as it runs on one rank: its node's value is count x once_s x factor."""

    kind: str
    """Of `physics.work.Kind`: gemm, attention_decode, all_reduce …"""
    count: float
    """Executions in the phase."""
    once_s: float
    """One execution, as its grid or curve says. [s]"""
    factor: float = 1.0
    """What the engine makes of that kernel, over the table's. [-]"""
    shape: dict[str, Any] = {}
    """Sizes of one execution on one rank: m, n, k, batch, context, heads …, formats, FLOP and bytes."""


class Spread(NamedTuple):
    """Where measurements lie around a prediction, in ln(measured / predicted)."""

    width: float
    """From the median to either end of 90 %. [-]"""
    bias: float = 0.0
    """The median. [-]"""
    certified: bool = True
    """Whether enough sources taught it to call it 90 %."""

    def at(self, x: float) -> float:
        """Factor on the prediction where the error goes `x` times the way to the end of its 90 % interval. [-]"""
        return exp(self.bias + x * self.width)

    def reach(self, room: float) -> float:
        """How far an error may go, in ways to the end of its interval, until it takes up ln(limit / prediction)."""
        room -= self.bias
        return room / self.width if self.width > 0.0 else inf if room >= 0.0 else -inf

    @property
    def turned(self) -> Spread:
        """Of one over the quantity."""
        return self._replace(bias=-self.bias)


class Quantity(SparseRecord, kw_only=True):
    """
    A value with unit, interval, basis and what it is made of.

    `low` and `high` bound 90 % of what measurements of such cases show; both are absent when the
    number is exact (a count, a price as listed).

    By `rule`: sum = times x the sum of the parts; max = times x the largest part, which `binds` names, while the others
    run beside it; quotient = times / the sum of the parts (a rate and the seconds it costs). A leaf has no parts.
    """

    name: str = ""
    """What it is of its whole; the answer itself is named by where it stands."""
    value: float
    unit: str = ""
    """Of parts that say none: that of the whole."""
    low: float | None = None
    high: float | None = None
    middle: float | None = None
    """Half of such measurements lie below it; absent = below the value."""
    certified: bool = True
    """False: fewer than nine sources taught the interval, so that it is not certifiable as 90 %."""
    basis: Basis = Basis.DERIVED
    source: str = ""
    """Formula or fact it comes from, in a few words or as a source key."""
    rule: Rule = "sum"
    times: float = 1.0
    binds: str = ""
    how: str = ""
    """The arithmetic in a few words."""
    parts: tuple[Quantity, ...] = ()
    execution: Execution | None = None
    evidence: Evidence | None = None

    @classmethod
    def of_parts(cls, unit: str, parts: Iterable[Quantity]) -> Quantity:
        """The sum of parts; its basis is the weakest of theirs that contributes."""
        return cls.total("", tuple(parts), unit=unit)

    @classmethod
    def total(
        cls, name: str, parts: tuple[Quantity, ...], *, times: float = 1.0, how: str = "", unit: str = "s"
    ) -> Quantity:
        """So many times the sum of parts; those of no value are left out."""
        kept = tuple(part for part in parts if part.value != 0)
        value = times * sum(part.value for part in kept)
        basis = weakest(part.basis for part in kept)
        return cls(name=name, value=value, unit=unit, basis=basis, times=times, how=how, parts=kept)

    @classmethod
    def longest(cls, name: str, parts: tuple[Quantity, ...], *, how: str = "") -> Quantity:
        """The largest of parts that run beside each other."""
        most = max(parts, key=lambda part: part.value)
        return cls(name=name, value=most.value, unit=most.unit, rule="max", binds=most.name, how=how, parts=parts)

    @classmethod
    def rate(cls, name: str, parts: tuple[Quantity, ...], *, times: float, unit: str, how: str = "") -> Quantity:
        """So much work over the seconds it costs."""
        value = times / sum(part.value for part in parts)
        return cls(name=name, value=value, unit=unit, rule="quotient", times=times, how=how, parts=parts)

    def within(self, factor: float) -> Quantity:
        """The same value with the interval value / factor … value x factor (factor >= 1)."""
        return self.spread(Spread(log(factor)))

    def spread(self, of: Spread, *, least: float = 0.0) -> Quantity:
        """The same value with the interval that such errors give it, which never reaches below `least`."""
        low = max(self.value * of.at(-1.0), min(least, self.value))
        middle = max(low, self.value * of.at(0.0)) if of.bias else None
        return msgspec.structs.replace(
            self, low=low, high=self.value * of.at(1.0), middle=middle, certified=of.certified
        )

    def scaled(self, times: float) -> Quantity:
        """So many times the value and its interval, without parts."""
        low, high, middle = (None if end is None else times * end for end in (self.low, self.high, self.middle))
        return Quantity(
            value=times * self.value,
            unit=self.unit,
            low=low,
            high=high,
            middle=middle,
            certified=self.certified,
            basis=self.basis,
        )

    def shown(self, *, digits: int = 3) -> str:
        """The value and, where it is known, its interval, each end with its unit: "374 ms (200 ms-700 ms)"."""
        said, *ends = (
            show(each, self.unit, digits=digits) for each in (self.value, self.low, self.high) if each is not None
        )
        return f"{said} ({'-'.join(ends)}{doubt(self.certified)})" if len(ends) == 2 else said

    def part(self, name: str) -> float:
        """Value of one part by name; 0 when the sum has no such part."""
        return sum(part.value for part in self.parts if part.name == name)

    @property
    def weights(self) -> float:
        """Of a memory, what holds the model's weights. [bytes]"""
        return sum(part.value for part in self.parts if part.name.startswith("weights"))


def doubt(certified: bool) -> str:
    """What stands behind an interval that too few sources taught; empty behind one of 90 %."""
    return "" if certified else ", not certifiable"


class Opened(float):
    """
    A number that keeps the nodes it is the sum of, so that a formula written for plain numbers makes a tree of them.

    Sums, multiples and rates keep them; every other operation, and a sum with a number that keeps none, gives a plain
    number.

    Examples
    --------
    >>> half = Opened((Quantity(name="products", value=2.0, unit="s"),))
    >>> step = 3 * (half + Opened((Quantity(name="attention", value=1.0, unit="s"),)))
    >>> float(step), [(node.name, node.value) for node in step.nodes]
    (9.0, [('products', 6.0), ('attention', 3.0)])
    """

    __slots__ = ("nodes",)
    nodes: tuple[Quantity, ...]

    def __new__(cls, nodes: tuple[Quantity, ...]) -> Opened:
        self = super().__new__(cls, sum(node.value for node in nodes))
        self.nodes = tuple(node for node in nodes if node.value)
        return self

    def __add__(self, other: float) -> float:
        if isinstance(other, Opened):
            return Opened(self.nodes + other.nodes)
        return float(self) + other if other else self  # 0: what a sum begins with, and parts of no length

    __radd__ = __add__

    def __mul__(self, times: float) -> float:
        return Opened(tuple(_scaled(node, float(times)) for node in self.nodes))

    __rmul__ = __mul__

    def __truediv__(self, by: float) -> float:
        return self * (1.0 / by)

    def __rtruediv__(self, work: float) -> float:
        return Opened((Quantity.rate("", self.nodes, times=work, unit="1/s"),))


def named(name: str, seconds: float, *, how: str = "", evidence: Evidence | None = None) -> Opened:
    """Seconds under a name: the sum of what they were added up from, or a leaf where a formula made them. [s]"""
    if isinstance(seconds, Opened):
        return Opened((Quantity.total(name, seconds.nodes, how=how),))
    return Opened((Quantity(name=name, value=float(seconds), unit="s", how=how, evidence=evidence),))


def _scaled(node: Quantity, times: float) -> Quantity:
    if node.parts and node.rule == "sum":
        return msgspec.structs.replace(node, value=times * node.value, times=times * node.times)
    return node if times == 1.0 else Quantity.total(node.name, (node,), times=times, unit=node.unit)


class Breakdown(SparseRecord, kw_only=True):
    """The numbers of one configuration, opened; `tonnage explain --json` prints it."""

    schema: str
    kind: Literal["serve", "train"]
    label: str
    """The configuration in a few words."""
    numbers: tuple[Quantity, ...] = ()
    """Serving: TTFT, TPOT, end-to-end latency, rates. Training: step time, rate."""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    notes: tuple[str, ...] = ()
    """What is assumed, and what could not be opened."""
    id: str | None = None

    @property
    def sentence(self) -> str:
        """What is opened, as other answers say what they found."""
        return self.label


class Verdict(SparseRecord, kw_only=True):
    """
    Whether something works; when it does not, which limit binds, by how much, and what would work.

    `limit` is a short stable name ("memory", "ttft", "tp", "region"); `short_by` is in `unit`.
    """

    ok: bool
    limit: str | None = None
    reason: str | None = None
    short_by: float | None = None
    unit: str | None = None
    nearest: str | None = None
