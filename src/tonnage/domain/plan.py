"""A plan: ranked, priced, explained options for one workload, and why each loser lost.

`tonnage plan` returns one of these; its JSON (`"schema": "tonnage.plan/2"`) is the file that
`explain`, `export`, `check` and `compare` read. Everything needed to make the plan again is inside:
the request, the version, the catalogue's dates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.calibration import CalibrationUse, FirstMeasurement
from tonnage.domain.cost import BillingRules, EnergyUse, TokensInstead, UnitCosts
from tonnage.domain.layout import Engine, Layout, PoolWorkers
from tonnage.domain.money import Commitment, Contract, OfferKind, Trust
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.published import QualityChange
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import FleetDay, ImageCosts, Roofline
from tonnage.domain.sessions import PrefixReuse, SessionCosts
from tonnage.errors import BadRequest
from tonnage.record import Record, SparseRecord

__all__ = ["PoolWorkers"]

PLAN_SCHEMA = "tonnage.plan/2"


class Configuration(SparseRecord, kw_only=True):
    """One way to run a model: accelerator, layout, formats, engine, and the link inside a replica."""

    accelerator: str
    layout: Layout
    precision: Precision
    engine: Engine
    intra_link: str | None = None
    """nvlink, pcie, …; absent = the accelerator's usual link."""
    pools: PoolWorkers | None = None
    """Prompts and answers on workers of their own, in units of so many; a replica is then a unit."""

    @property
    def ranks(self) -> int:
        """Accelerators of a replica, or of a unit of workers."""
        pools = self.pools
        return self.layout.ranks * (pools.prefill + pools.decode) + pools.encode if pools else self.layout.ranks

    def label(self, part: Callable[[str], str] | None = None, engine: Callable[[str], str] = str) -> str:
        """
        A few words that name it, "h200-sxm-141gb tp2 fp8 vllm"; for people where it is said how they write its
        accelerator and its engine: "H200 SXM 141 GB TP2 FP8 vLLM".
        """
        how = " ".join([*(self.layout.degrees() or ["tp1"]), self.precision.stored])
        if part is not None:
            return " ".join([part(self.accelerator), how.upper(), engine(self.engine.name), *self.settings()])
        settings = [said.lower().replace(" ", "-") for said in self.settings()]
        return " ".join([self.accelerator, how, self.engine.name, *settings])

    def settings(self) -> tuple[str, ...]:
        """Settings besides layout and weights that are not the usual ones, in a word each: "KV FP8", "1P3D"."""
        engine, kv, pools = self.engine, self.precision.kv, self.pools
        return tuple(
            said
            for said, unusual in (
                (f"KV {kv.upper()}", number_format(kv).bits < 16),
                (
                    f"{'EAGLE-3' if engine.draft_model else 'MTP'} k={engine.speculative_tokens}",
                    bool(engine.speculative_tokens),
                ),
                ("encoder DP", engine.mm_encoder_tp_mode == "data"),
                (engine.adapters.label if engine.adapters else "", engine.adapters is not None),
                (pools.label if pools else "", pools is not None),
            )
            if unusual
        )


class LoadPoint(SparseRecord, kw_only=True):
    """One rate that was simulated, and what requests saw at their 50th, 95th and 99th percentile."""

    rate_per_s: float
    ttft_s: tuple[float, float, float]
    tpot_s: tuple[float, float, float] | None = None
    """Absent where every answer has one token."""
    passed: bool
    """Every objective holds."""


class SimulatedCapacity(SparseRecord, kw_only=True):
    """The largest rate of one replica within the objectives, request by request. [1/s]"""

    rate_per_s: float
    """0 = not even a lone request meets them."""
    low_per_s: float
    """5th percentile over blocks of requests: the value to plan with."""
    high_per_s: float
    limit: str
    """The objective that fails beyond it, or the resource that is used up first."""
    resource: str
    """What the time goes to there: kv, batch limit, compute, bandwidth, host."""
    cause: str
    """The same in words."""
    knee_per_s: float
    """Beyond it first tokens take more than twice as long as at the least rate that the capacity's search tried."""
    simulations: int
    requests: int
    """Simulated, over all rates."""
    tried: tuple[LoadPoint, ...] = ()
    """Latency against load, at the rates that were simulated."""


class Capacity(SparseRecord, kw_only=True):
    """What one replica sustains within the objectives, and what its requests see at the planned load."""

    max_rate_per_s: Quantity
    """Largest stable arrival rate that meets every objective: the lower bound where it was simulated. [1/s]"""
    concurrency: float
    """Requests in flight at the planned load."""
    ttft_s: Quantity
    """At the objectives' percentile and the planned load. [s]"""
    tpot_s: Quantity
    ttft_mean_s: float
    tpot_mean_s: float
    binds: str
    """What stops it from taking more: kv, ttft, tpot, e2e, batch, compute."""
    binds_text: str
    prompt_share: float = 0.0
    """Of the time at work, what prompts take from answers. [-]"""
    simulated: SimulatedCapacity | None = None
    """Absent = the mean field's estimate: its cost cannot be among the least."""

    def stay_s(self, output_tokens: float) -> float:
        """Mean latency of an answer of so many tokens. [s]"""
        return self.ttft_mean_s + max(0.0, output_tokens - 1.0) * self.tpot_mean_s


class Bill(SparseRecord, kw_only=True):
    """What the plan spends per hour: instances of one offer, opened into lines."""

    provider: str
    instance_type: str
    region: str
    term: str
    instances: int
    accelerators_per_instance: float
    usd_per_instance_hour: float
    lines: tuple[Quantity, ...]
    as_of: str
    as_of_kind: str = ""
    stale: bool = False
    """The price is older than 90 days."""
    country: str = ""
    notes: str = ""
    trust: Trust = "primary"
    """Who says the price; what is not primary comes after every option whose price is."""
    kind: OfferKind = "instance"
    stock: int | None = None
    """Accelerators of it that there are, where they are the user's own."""
    commitment: Commitment | None = None
    """Of one instance: the term weighed against on-demand prices that move; absent = nothing is committed."""

    contract: Contract | None = None
    """Of the user's own quote: what it binds to."""

    @property
    def compared_usd_per_hour(self) -> float:
        """What options are compared by: a commitment counts with what prices are expected to do. [USD/h]"""
        return self.usd_per_hour * (self.commitment.times_compared if self.commitment is not None else 1.0)

    @property
    def accelerators(self) -> float:
        """That are rented; a replica of four on a node of eight uses half of them."""
        return self.instances * self.accelerators_per_instance

    @property
    def usd_per_hour(self) -> float:
        """Sum of the lines. [USD/h]"""
        return sum(line.value for line in self.lines)


Arranged = TypeVar("Arranged")


class RankedOption(SparseRecord, Generic[Arranged], kw_only=True):
    """What every option at a price says, whatever it is an option for; a kind adds what it does."""

    configuration: Arranged
    accelerators: int
    """At work, spares aside."""
    memory: Quantity
    """Of the fullest accelerator, the KV pool included. [bytes]"""
    limit_bytes: float | None = None
    """What the memory must stay under: what engine or driver allow of one accelerator. [bytes]"""
    bill: Bill
    """By the hour, while it runs."""
    cost: Quantity
    """What options are ranked by: of a service by the hour, of a job the whole. [USD/h or USD]"""
    basis: str
    verdict: str = ""
    """Why it leads, or why it lost to the option ranked first."""
    chance: float | None = None
    """Of keeping everything that is asked for at once; absent where nothing is. [-]"""
    sure: bool = True
    """The chance is at least the confidence asked for, and where it trains, its architecture was measured."""
    ties: bool = False
    """It may cost no more than the first: the two cannot be told apart within the errors that they do not share."""
    energy: EnergyUse | None = None
    """Mean power while it runs, hosts and cooling included; absent where the accelerator's is not published."""
    needs: tuple[HostNeed, ...] = ()
    """What the machine must bring around the accelerators, beside what the offer lists."""


class ServeOption(RankedOption[Configuration], kw_only=True):
    """One configuration with enough replicas for the load; its cost holds replicas at both ends of its capacity."""

    replicas: int
    capacity: Capacity
    kv_tokens: float
    headroom: float
    """Share of capacity left free at peak load. [-]"""
    usd_per_month: float
    usd_per_million_output_tokens: float
    other_offers: tuple[Bill, ...] = ()
    unit_costs: UnitCosts | None = None
    """The bill per request and per token, and queries per second per dollar."""
    idle_usd_per_month: float | None = None
    """What of the monthly cost pays for capacity that nobody uses at the mean load. [USD/month]"""
    billing: BillingRules | None = None
    """How the provider counts hours and bytes."""
    reuse: PrefixReuse | None = None
    """What its prompts find of their sessions in its cache."""

    @property
    def weight_bytes(self) -> float:
        """Of one replica, over all of its accelerators. [bytes]"""
        return self.memory.weights * self.configuration.layout.ranks


class Rejection(SparseRecord, kw_only=True):
    """A configuration, or a whole accelerator, that cannot serve the workload, and why."""

    what: str
    verdict: Verdict


class Decision(SparseRecord, kw_only=True):
    """One step of the decision trail (C2)."""

    question: str
    answer: str
    because: str


class BreakEven(SparseRecord, kw_only=True):
    """A change of one input at which the first option stops being the first."""

    input: str
    value: float
    unit: str
    becomes: str
    low: float | None = None
    """90 % interval of the value: from where the two cannot be told apart to where the other wins beyond errors."""
    high: float | None = None
    """Absent = open on that side, as far as was looked."""
    now: float | None = None
    """The input's present value."""
    ties: bool = False
    """The two cannot be told apart within error at the present value already."""


ChoiceName = Literal["recommended", "cheapest", "even", "fastest", "resilient", "soonest"]


class Choice(Record, kw_only=True):
    """An option worth choosing, and what speaks for it."""

    name: ChoiceName
    """
    Recommended: the first, where it is not the cheapest. Even: cheaper than that with an even chance. Fastest: within
    10 % of the first's cost. Resilient: carries the peak after a failure.
    """
    option: int
    """Index into the plan's options."""


class Sizing(SparseRecord, kw_only=True):
    """Minimum, recommended and comfortable: the first option with fewer or more replicas."""

    name: str
    replicas: int
    accelerators: int
    usd_per_hour: float
    covers: str


BY_AVERAGES = (
    "not simulated, for numba is not installed: ranked by averages, as --quick does; pip install 'tonnage[simulate]'"
)
"""Assumed of a plan that would have been simulated in another installation."""


class Provenance(SparseRecord, kw_only=True):
    """What is needed to make the same plan again."""

    version: str
    catalogue: dict[str, str]
    """Date of each part of the catalogue."""
    made: str
    seed: int = 0
    assumed: tuple[str, ...] = ()


class ConfidencePrice(Record, kw_only=True):
    """What the cheapest option costs that meets every objective with at least this chance."""

    confidence: float
    usd_per_hour: float
    accelerator: str
    accelerators: int


class SeparatePools(SparseRecord, kw_only=True):
    """Disaggregated serving: prefill on some workers, decode on others; the cheapest such fleet, simulated."""

    configuration: Configuration
    """Of every worker."""
    prefill_workers: int
    decode_workers: int
    """Of one unit; units are alike."""
    units: int
    accelerators: int
    rate_per_s: float
    """What a unit takes within the objectives, by the lower bound of its simulations. [1/s]"""
    together_per_s: float
    """What as many workers take behind one router when each does both. [1/s]"""
    limit: str
    """The objective that fails beyond `rate_per_s`."""
    ttft_s: float
    """At the planned load and the objectives' percentile. [s]"""
    tpot_s: float
    transfer_s: float
    """Moving the cache of a mean prompt. [s]"""
    leaves_node: bool
    """A unit is larger than an instance, so that caches move over the network."""
    bill: Bill
    saves: float
    """Of what the first option costs; negative = dearer. [-]"""
    simulations: int
    sentence: str


class RejectionCount(Record, kw_only=True):
    """How many of the rejected fail for one reason."""

    reason: str
    """too small, too slow, too expensive, no offer, …"""
    count: int
    example: str
    """The one of them that came closest."""


Request = TypeVar("Request")
Option = TypeVar("Option")


class PlanHeader(SparseRecord, Generic[Request], kw_only=True):
    """What every plan says, whatever it is a plan for; a kind adds its own fields."""

    schema: str
    feasible: bool
    sentence: str
    request: Request
    rejected: tuple[Rejection, ...] = ()
    """What cannot do it, and why: one line for each accelerator, the nearest first."""
    rejected_by_reason: tuple[RejectionCount, ...] = ()
    """The same counted, the most frequent reason first."""
    binding: Verdict | None = None
    """When nothing works: the limit that binds, by how much, and the nearest thing that works."""
    relaxing: tuple[str, ...] = ()
    """When nothing works: what dropping one constraint at a time buys."""
    evaluated: int = 0
    """Configurations looked at."""
    simulated: int = 0
    """Of them, those whose capacity was simulated."""
    unfinished: str = ""
    """Why the search ended before its end: the answer is the best found by then; empty = it did not."""
    measure_first: FirstMeasurement | None = None
    """The five-minute measurement most likely to overturn the plan; absent when nothing works."""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved numbers of its options: the user's own, or published ones that were asked for."""
    provenance: Provenance


class RankedPlan(PlanHeader[Request], Generic[Request, Option], kw_only=True):
    """A plan that ranks options for one model: the first is the answer."""

    model: dict[str, Any]
    options: tuple[Option, ...] = ()
    choices: tuple[Choice, ...] = ()
    """Options that differ, the first of the ranking among them."""
    cheaper_at_risk: str = ""
    """A cheaper option that may miss an objective within error, or whose speed nobody has published."""
    trail: tuple[Decision, ...] = ()
    break_even: tuple[BreakEven, ...] = ()
    """What would change this: values of an input from which on another option is the first."""
    quality: tuple[QualityChange, ...] = ()
    """What the formats of the options keep of the score as released, as published."""


class ServePlan(RankedPlan[Serve, ServeOption], kw_only=True, tag_field="kind", tag="serve"):
    """The answer to a serving request."""

    frontier: tuple[int, ...] = ()
    """Indices of options that no other beats in cost and latency at once."""
    confidence_prices: tuple[ConfidencePrice, ...] = ()
    """Cost against confidence, among the options looked at; a confidence that none reaches is left out."""
    why_not_fewer: str = ""
    sizes: tuple[Sizing, ...] = ()
    """The first option with less and with more room."""
    roofline: Roofline | None = None
    """Operators of the first option at the planned load; absent when nothing works."""
    day: FleetDay | None = None
    """The first option over a day, a week, or bursts and pauses; absent when the load is not said to vary so."""
    sessions: SessionCosts | None = None
    """Sessions of the first option: what they cost, and what more cache would buy; absent where nothing comes back."""
    images: ImageCosts | None = None
    """Where images may be encoded, and what each place costs; absent where requests have none."""
    pools: SeparatePools | None = None
    """Prefill and decode apart; absent when not asked for, or when no such fleet meets the objectives."""
    tokens: TokensInstead | None = None
    """Buying the tokens instead; absent where no provider states a price of them, or nothing serves the load."""


def option_at_rank(options: Sequence[Option], rank: int) -> Option:
    """
    The option of that rank, counted from one.

    Raises
    ------
    BadRequest
        The plan has no such option.
    """
    if not 0 < rank <= len(options):
        raise BadRequest(f"option {rank}: the plan has {len(options)}; choose 1 to {len(options)}")
    return options[rank - 1]
