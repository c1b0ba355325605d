"""A model that lies partly in host memory: how long a token and a prompt take when two memories share the weights.

Ideas needed to read this file:
- a token reads every active weight once, wherever it lies; the parts run one after the other, so their times add;
- a prompt is computed on the device whatever lies in the host: moved weights are streamed over the link once for each
  piece of the prompt, and the pieces are what the engine takes at a time (llama.cpp `n_ubatch`);
- whole layers move with their cache (`-ngl`), experts alone move without it (`-ncmoe`), and of moved experts a
  token reads only the active ones: that is why moving experts costs little and frees much.

Left out: copies that overlap with work, experts that stay on the device because they are used often, and reads from a
disk when host memory is short too.
"""

from __future__ import annotations

from typing import Final

from tonnage.errors import BadRequest

CROSSING_S: Final = 1e-4
"""
Hand-over of one layer between device and host: two copies of one hidden state, the waits around them, and kernels of
the layer launched one by one, for no captured graph spans both sides. [s]
"""
LINK_SHARE: Final = 0.76
"""Share of a PCIe link's listed rate that copies from host memory reach. [-]"""
STAGED_SHARE: Final = 0.62
"""
Share of host memory's listed rate at which a driver moves mapped weights into memory that the device may read: 28 GiB
in 470 ms beside 102.4 GB/s (Ollama issue 16221 and its change 16222). [-]
"""


def offloaded_token_s(
    *, device_s: float, host_s: float, host_share: float, crossings: float, crossing_s: float
) -> float:
    """
    Time of one output token when a share of what it reads lies in host memory.

    t = (1 - h) t_d + h t_h + n c: each memory takes its share of the time it would need for all of it, and every layer
    that changes sides costs a hand-over.

    Parameters
    ----------
    device_s : number
        t_d, a token with everything in device memory, as if there were room. [s]
    host_s : number
        t_h, a token with everything in host memory, on the host's processor. [s]
    host_share : number
        h, share of the bytes a token reads that lies in host memory, 0 <= h <= 1. [-]
    crossings : number
        n, layers whose work changes sides. [layers]
    crossing_s : number
        c, one hand-over. [s]

    Returns
    -------
    number
        Time between tokens; device_s when nothing is moved, host_s when everything is. [s]

    Raises
    ------
    BadRequest
        If host_share is outside [0, 1].

    Valid
    -----
    One sequence at a time, when both sides are limited by memory traffic; nothing is prefetched.

    Source
    ------
    docs/how-to/my-machine.md; points in measurements/local.csv, `python -m tools.local_points`.

    Examples
    --------
    >>> token = offloaded_token_s(device_s=0.01, host_s=0.10, host_share=0.5, crossings=20, crossing_s=1e-4)
    >>> print(f"{token * 1e3:.1f} ms")
    57.0 ms
    """
    if not 0.0 <= host_share <= 1.0:
        raise BadRequest(f"host_share: {host_share:g} must be a share between 0 and 1")
    between = crossings * crossing_s if 0.0 < host_share < 1.0 else 0.0
    return (1.0 - host_share) * device_s + host_share * host_s + between


def offloaded_prefill_s(
    *,
    device_s: float,
    moved_bytes: float,
    pieces: float,
    link_bytes_per_s: float,
    link_share: float,
    staged_bytes_per_s: float,
) -> float:
    """
    Time of a prompt whose moved weights are streamed to the device.

    t = t_d + p M (1 / (u b) + 1 / s): all work is done on the device, and each piece of the prompt brings the moved
    weights over the link once, after a copy within the host: a file that is mapped into memory is not pinned there.

    Parameters
    ----------
    device_s : number
        t_d, the prompt with everything in device memory, as if there were room. [s]
    moved_bytes : number
        M, weights in host memory that a piece of the prompt needs. [bytes]
    pieces : number
        p, pieces that the engine cuts the prompt into. [-]
    link_bytes_per_s : number
        b, listed rate of the link between host and device, one direction. [bytes/s]
    link_share : number
        u, achieved share of it, 0 < u <= 1. [-]
    staged_bytes_per_s : number
        s, rate of the copy within the host; infinite where the weights lie pinned (llama.cpp `--no-mmap`). [bytes/s]

    Returns
    -------
    number
        Time to the first token of one prompt; device_s when nothing is moved. [s]

    Raises
    ------
    BadRequest
        If link_share is outside (0, 1] while something is moved.

    Valid
    -----
    Engines that stream weights for batches of 32 tokens and more (llama.cpp with CUDA, HIP or Vulkan).

    Source
    ------
    llama.cpp pull requests 6083 (large batches go to the device) and 20978 (what is mapped is not pinned: prompts of
    gpt-oss-20b at 0.55 of their rate); points in measurements/local.csv.

    Examples
    --------
    >>> prompt = offloaded_prefill_s(
    ...     device_s=0.4, moved_bytes=40e9, pieces=2, link_bytes_per_s=31.5e9, link_share=0.76, staged_bytes_per_s=50e9
    ... )
    >>> print(f"{prompt:.1f} s")
    5.3 s
    """
    if moved_bytes <= 0.0:
        return device_s
    if not 0.0 < link_share <= 1.0:
        raise BadRequest(f"link_share: {link_share:g} must be a share above 0, at most 1")
    return device_s + pieces * moved_bytes * (1.0 / (link_share * link_bytes_per_s) + 1.0 / staged_bytes_per_s)
