"""What a machine must bring around its accelerators so that they do not starve while they serve (C7).

An engine is several processes: one that takes requests, tokenises and detokenises, one that schedules, for each
data-parallel rank; one worker for each accelerator. They poll, so that each keeps a virtual core busy. How much memory
a process takes is assumed, and says so.
"""

from __future__ import annotations

from typing import Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.accelerator import HostNeed
from tonnage.domain.infer_plan import Infer
from tonnage.domain.layout import Layout
from tonnage.domain.money import Offer
from tonnage.domain.plan import Bill
from tonnage.planning.cold_start import STARTS, TIMED_WEIGHT_BYTES
from tonnage.units import GiB, show

__all__ = [
    "IMAGES_PER_CORE",
    "host_need",
    "offer_of",
    "offload_needs",
    "sampling_needs",
    "serving_needs",
    "serving_processes",
]

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
    """The offer behind a bill."""
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
    request: Infer, *, per: float, rate_per_s: float, weight_bytes: float, link_bytes_per_s: float | None,
    offer: Offer | None,
) -> tuple[HostNeed, ...]:  # fmt: skip
    """
    What one instance needs whose accelerators look at samples: pictures it decodes and sends, memory for its processes.

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
        host_need("virtual cores per instance", per + decoded / IMAGES_PER_CORE, unit="count",
             has=offer.vcpus if offer else None,
             why="a server for each accelerator" + (", decoding pictures (10 ms each, assumed)" if decoded else "")),
        host_need("RAM per instance", per * PROCESS_BYTES + weight_bytes, unit="bytes",
             has=offer.ram_bytes if offer else None, why="servers (2 GiB each, assumed) and the weights being loaded"),
    ]  # fmt: skip
    if pictures and side is not None:
        found.append(
            host_need("to the accelerators per instance", rate_per_s * side * side * PIXEL_BYTES, unit="bytes/s",
                 has=link_bytes_per_s * per if link_bytes_per_s else None,
                 why=f"pictures of {side} x {side}, three bytes a pixel")
        )  # fmt: skip
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
