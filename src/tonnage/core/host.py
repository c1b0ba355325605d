"""
What a machine brings around its accelerators: processors and memory for serving (C7), and the power it draws.

An engine is several processes: one that takes requests, tokenises and detokenises, one that schedules, for each
data-parallel rank; one worker for each accelerator. They poll, so that each keeps a virtual core busy. How much memory
a process takes is assumed, and says so. The most a machine draws is a row of the ownership table where somebody
published it; elsewhere the board's own limit is multiplied by what whole machines draw over their boards, the median
of the published ones.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import median
from typing import Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.cold_start import STARTS, TIMED_WEIGHT_BYTES
from tonnage.domain.accelerator import Accelerator, HostNeed
from tonnage.domain.cost import EnergyUse
from tonnage.domain.infer_plan import Infer
from tonnage.domain.layout import Layout
from tonnage.domain.money import Offer
from tonnage.domain.plan import Bill
from tonnage.errors import Unmeasured
from tonnage.pricing.energy import IDLE_DRAW, WORKING_DRAW, carbon_kg, energy_kwh, tokens_per_joule
from tonnage.record import Record
from tonnage.units import GiB, percent, show


class MachinePower(Record, kw_only=True):
    """What a machine is rated for, and what it draws with its boards at their limit. [W]"""

    watts: float
    """Rating: what its supply must bring."""
    low: float
    high: float
    board_watts: float
    """The boards' limits."""
    work_watts: float
    """At the plug with the boards at their limit: what stands around them draws less than its rating."""
    work_low: float
    work_high: float
    source: str


class LoadShare(Record, kw_only=True):
    """Mean draw of a working board over its limit; what stands around it is taken to follow. [-]"""

    value: float
    low: float
    high: float
    source: str


USUAL_LOAD: Final = LoadShare(
    value=(WORKING_DRAW + 1.0) / 2.0,
    low=WORKING_DRAW,
    high=1.0,
    source="no workload is stated: the middle between a board that works on next to nothing and its limit",
)
"""Of accelerators that are at work on nobody knows what."""


@cache
def host_factor() -> tuple[float, float, float]:
    """What whole machines draw over their boards' limits: median, least and most of the published ones. [-]"""
    parts = catalog.accelerators()
    ratios = []
    for server in catalog.servers().values():
        board = parts[server.accelerator].power_w
        if server.power and board:
            ratios.append(catalog.parameter("server_power_max", server.power).value / (server.count * board))
    return median(ratios), min(ratios), max(ratios)


def machine_power(accelerator: Accelerator, *, count: float) -> MachinePower:
    """
    The most that `count` accelerators and their hosts draw: their part of a published machine, else by `host_factor`.

    A published machine does not count where the user has changed the accelerator's power.

    Raises
    ------
    Unmeasured
        Nobody published the accelerator's power.
    """
    board = accelerator.power_w
    if board is None:
        raise Unmeasured(
            f"the power of {accelerator.id} is not published; give it with --set {accelerator.id}.power='300 W'"
        )
    middle, least, most = host_factor()
    known = next((s for s in catalog.servers().values() if s.accelerator == accelerator.id and s.power), None)
    unchanged = catalog.accelerators().get(accelerator.id)
    if known is not None and unchanged is not None and unchanged.power_w == board:
        row = catalog.parameter("server_power_max", known.power)
        watts = row.value / known.count * count
        return _machine((watts, watts, watts), boards=board * count, source=f"{known.power}: {row.source}")
    source = (
        f"{count:g} x {board:g} W board limit x {middle:.2f} for the host: median of published machines "
        f"({least:.2f} to {most:.2f})"
    )
    boards = board * count
    return _machine((boards * middle, boards * least, boards * most), boards=boards, source=source)


def _machine(rated: tuple[float, float, float], *, boards: float, source: str) -> MachinePower:
    """
    A machine rated for so much (middle, low, high), whose boards' limits together are `boards`. [W]

    With the boards at their limit, what stands around them draws a share of the rest of the rating.
    """
    host = catalog.parameter("server_power", "host_draw_over_rating")
    shares = (host.value, host.low or host.value, host.high or host.value)
    work, low, high = (boards + share * max(0.0, watts - boards) for watts, share in zip(rated, shares, strict=True))
    return MachinePower(
        watts=rated[0],
        low=rated[1],
        high=rated[2],
        board_watts=boards,
        work_watts=work,
        work_low=low,
        work_high=high,
        source=source,
    )


class Draw(Record, kw_only=True):
    """Mean power of machines under a load, cooling not counted. [W]"""

    watts: float
    low: float
    high: float
    board_watts: float


def machine_draw(machine: MachinePower, *, load: LoadShare, busy: float = 1.0) -> Draw:
    """
    What machines draw that work part of the time: the one way from a state to watts, whatever asks.

    Parameters
    ----------
    load : LoadShare
        What the boards draw of their limit while they work.
    busy : float, optional
        Share of time at work. [-]
    """
    idle = catalog.parameter("server_power", "idle_share_of_max")
    rest = (1.0 - busy) * machine.watts
    watts = busy * machine.work_watts * load.value + rest * idle.value
    down = math.hypot(math.log(load.value / load.low), math.log(machine.work_watts / machine.work_low))
    up = math.hypot(math.log(load.high / load.value), math.log(machine.work_high / machine.work_watts))
    return Draw(
        watts=watts,
        low=watts * math.exp(-down),
        high=watts * math.exp(up),
        board_watts=machine.board_watts * (busy * load.value + (1.0 - busy) * IDLE_DRAW),
    )


TOKENS: Final = 1e6
SECONDS_PER_HOUR: Final = 3600.0


def energy_use(
    accelerator: Accelerator,
    *,
    count: float,
    busy: float,
    bill: Bill,
    output_tokens_per_s: float | None = None,
    load: LoadShare = USUAL_LOAD,
) -> EnergyUse | None:
    """
    Mean power, cooling included, and what follows from it; absent where the accelerator's power is not published.

    Parameters
    ----------
    count : float
        Accelerators that are rented or owned, at work or not.
    busy : float
        Share of time at work. [-]
    bill : Bill
        Where they stand: provider, region, country.
    output_tokens_per_s : float, optional
        Of all together, on average. [tokens/s]
    load : LoadShare, optional
        What the boards draw of their limit while they work.
    """
    if accelerator.power_w is None:
        return None
    machine = machine_power(accelerator, count=count)
    drawn = machine_draw(machine, load=load, busy=busy)
    idle = catalog.parameter("server_power", "idle_share_of_max")
    host = catalog.parameter("server_power", "host_draw_over_rating")
    pue, pue_low, pue_high, pue_source = _pue(bill.provider)
    watts = drawn.watts * pue
    down = math.hypot(math.log(drawn.watts / drawn.low), math.log(pue / pue_low))
    up = math.hypot(math.log(drawn.high / drawn.watts), math.log(pue_high / pue))
    grid = catalog.carbon_of(country=bill.country, provider=bill.provider, region=bill.region)
    kwh = energy_kwh(power_w=watts)
    per_million = None
    if output_tokens_per_s:
        per_million = energy_kwh(power_w=watts, hours=TOKENS / output_tokens_per_s / SECONDS_PER_HOUR)
    return EnergyUse(
        power_w=watts,
        power_w_low=watts * math.exp(-down),
        power_w_high=watts * math.exp(up),
        board_w=drawn.board_watts,
        host_w=drawn.watts - drawn.board_watts,
        pue=pue,
        kwh_per_month=kwh,
        kwh_per_million_tokens=per_million,
        tokens_per_joule=tokens_per_joule(tokens_per_s=output_tokens_per_s, power_w=watts)
        if output_tokens_per_s
        else None,
        kg_co2_per_month=carbon_kg(kwh=kwh, grams_per_kwh=grid.grams_per_kwh) if grid else None,
        g_co2_per_million_tokens=per_million * grid.grams_per_kwh if grid and per_million else None,
        grams_per_kwh=grid.grams_per_kwh if grid else None,
        grid=f"{grid.name} ({grid.id})" if grid else "",
        sources=(
            machine.source,
            f"accelerators at {percent(load.value)} of their limit while they work ({percent(load.low)} to "
            f"{percent(load.high)}): "
            f"{load.source}",
            f"around them {percent(host.value)} of what is rated: {host.source}",
            f"working {percent(busy)} of the time, else {percent(idle.value)} of the rating: {idle.source}",
            pue_source,
            *((f"{grid.grams_per_kwh:g} g/kWh: {grid.source}, {grid.as_of or 'no date'}",) if grid else ()),
        ),
    )


def energy_of_run(use: EnergyUse, *, seconds: float) -> tuple[float, float | None]:
    """Electricity of a run that is paid for so long, and its carbon where the grid is known. [kWh], [kg]"""
    kwh = energy_kwh(power_w=use.power_w, hours=seconds / 3600.0)
    return kwh, None if use.grams_per_kwh is None else carbon_kg(kwh=kwh, grams_per_kwh=use.grams_per_kwh)


def _pue(provider: str) -> tuple[float, float, float, str]:
    """
    Power of the building over that of the machines in it: value, low, high [-], and its source.

    Hyperscalers publish theirs; of any other provider nothing is known but how data centres are built today.
    """
    known = catalog.providers().get(provider)
    best, common = catalog.parameter("pue", "hyperscaler_best"), catalog.parameter("pue", "modern_ai_dc")
    worst = catalog.parameter("pue", "industry_average_uptime")
    row = best if known is not None and known.kind == "hyperscaler" else common
    low, high = best.low or best.value, worst.value if row is common else best.high or best.value
    return row.value, low, high, f"PUE {row.value:g}: {row.source}"


SHARD_BYTES: Final = 5e9
"""Largest file that Hugging Face's `save_pretrained` writes by default: what loading holds at once. [bytes]"""
IMAGES_PER_CORE: Final = 100.0
"""Decoded and resized per second by one core. Assumed: 10 ms each. [1/s]"""
PIXEL_BYTES: Final = 3.0
"""Of a picture as it is sent to an accelerator: three channels of a byte. [bytes]"""
PROCESS_BYTES: Final = 2 * GiB
"""Interpreter, libraries and driver context of one process. Assumed. [bytes]"""


def host_need(name: str, wanted: float, *, unit: str, has: float | None, why: str) -> HostNeed:
    """A need beside what an offer lists; 0 and absent = not listed."""
    known = has if has else None
    return HostNeed(
        name=name, need=wanted, unit=unit, has=known, enough=None if known is None else known >= wanted, why=why
    )


def offer_of(bill: Bill, *, additions: Additions = catalog.NOTHING) -> Offer | None:
    """The offer of the catalogue behind a bill; None where it has none, as of prices and quotes of the user's own."""
    for offer in catalog.offers(additions=additions):
        same = (offer.provider, offer.instance_type, offer.region) == (bill.provider, bill.instance_type, bill.region)
        if same and not offer.history:
            return offer
    return None


def serving_processes(layout: Layout) -> int:
    """
    Processes of one replica, after the architecture overview of vLLM's documentation.

    Examples
    --------
    >>> serving_processes(Layout())
    3
    >>> serving_processes(Layout(tp=8))
    10
    """
    coordinator = 1 if layout.dp > 1 else 0
    return 2 * layout.dp + layout.ranks + coordinator


def serving_needs(layout: Layout, *, weight_bytes: float, offer: Offer | None) -> tuple[HostNeed, ...]:
    """
    What one instance of an offer needs when as many replicas run on it as it holds.

    Parameters
    ----------
    weight_bytes : number
        Of one replica, as stored. [bytes]
    offer : Offer, optional
        None = an instance that holds just one replica, of which nothing is listed.
    """
    count = offer.count if offer is not None else float(layout.ranks)
    # A replica of several instances has a part of its processes, and all of its weights to read, on each.
    replicas = max(1.0, count // layout.ranks)
    part = min(1.0, count / layout.ranks)
    processes = serving_processes(layout) * replicas * part
    download = TIMED_WEIGHT_BYTES / STARTS["network"].download_s
    return (
        host_need(
            "virtual cores per instance",
            processes,
            unit="count",
            has=offer.vcpus if offer else None,
            why="one for each process of the engine: requests and tokens, scheduler, a worker for each accelerator",
        ),
        host_need(
            "RAM per instance",
            processes * PROCESS_BYTES + min(weight_bytes, SHARD_BYTES),
            unit="bytes",
            has=offer.ram_bytes if offer else None,
            why="processes (2 GiB each, assumed) and the file being loaded",
        ),
        host_need(
            "disk for weights per instance",
            weight_bytes,
            unit="bytes",
            has=offer.local_nvme_bytes if offer else None,
            why="kept on the machine, so that a restart need not fetch them",
        ),
        host_need(
            "network per instance",
            download,
            unit="bytes/s",
            has=offer.network_bytes_per_s if offer else None,
            why="weights fetched as fast as the timed start that cold starts are computed from",
        ),
    )


def sampling_needs(
    request: Infer,
    *,
    per: float,
    rate_per_s: float,
    weight_bytes: float,
    link_bytes_per_s: float | None,
    offer: Offer | None,
) -> tuple[HostNeed, ...]:
    """
    What one instance needs whose accelerators look at samples: pictures it decodes and sends, memory for its processes.

    Without pictures of a stated size, or where accelerators decode their own video, the host decodes and sends none.

    Parameters
    ----------
    per : number
        Accelerators of the instance that are used. [accelerators]
    rate_per_s : number
        Samples that the network looks at there. [1/s]
    link_bytes_per_s : number
        From the host to one accelerator; absent = not published. [bytes/s]
    """
    video, side = request.video, request.resolution
    # An accelerator that decodes its own video is sent what the cameras send.
    pictures = side is not None and (video is None or video.decode == "host")
    decoded = rate_per_s * (video.every if video is not None else 1) if pictures else 0.0
    found = [
        host_need(
            "virtual cores per instance",
            per + decoded / IMAGES_PER_CORE,
            unit="count",
            has=offer.vcpus if offer else None,
            why="a server for each accelerator" + (", decoding pictures (10 ms each, assumed)" if decoded else ""),
        ),
        host_need(
            "RAM per instance",
            per * PROCESS_BYTES + weight_bytes,
            unit="bytes",
            has=offer.ram_bytes if offer else None,
            why="servers (2 GiB each, assumed) and the weights being loaded",
        ),
    ]
    if pictures and side is not None:
        found.append(
            host_need(
                "to the accelerators per instance",
                rate_per_s * side * side * PIXEL_BYTES,
                unit="bytes/s",
                has=link_bytes_per_s * per if link_bytes_per_s else None,
                why=f"pictures of {side} x {side}, three bytes a pixel",
            )
        )
    return tuple(found)


def offload_needs(*, bytes_each: float, ranks: int, sequence_bytes: float, link_bytes_per_s: float | None) -> str:
    """
    What cache in host memory asks of the host, in a sentence.

    Parameters
    ----------
    bytes_each : number
        Of cache kept for one accelerator. [bytes]
    sequence_bytes : number
        One accelerator's part of the longest sequence's cache: what comes back at most. [bytes]
    link_bytes_per_s : number
        From the host to one accelerator; absent = not published. [bytes/s]

    Examples
    --------
    >>> offload_needs(bytes_each=20 * GiB, ranks=2, sequence_bytes=8e9, link_bytes_per_s=64e9)
    'cache in host memory takes 40 GiB of RAM; a whole sequence comes back in 125 ms at the rate of the bus, 64 GB/s'
    """
    told = f"cache in host memory takes {show(bytes_each * ranks, 'bytes')} of RAM"
    if link_bytes_per_s is None:
        return told
    back = min(sequence_bytes, bytes_each) / link_bytes_per_s
    bus = show(link_bytes_per_s, "bytes/s")
    return f"{told}; a whole sequence comes back in {show(back, 's')} at the rate of the bus, {bus}"
