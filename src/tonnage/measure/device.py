"""
How fast is the device at hand? Small benchmarks by PyTorch (or numpy) become the user's own accelerator.

Products per number format, convolutions, attention, copies through memory, and the time to start one operation. Each
runs for a share of the time allowed; the best repetition counts, for whatever else runs can only slow it down. On a
processor time is that of its own threads, so that a busy machine measures what an idle one would, caches aside.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import partial
from typing import Any, Final

from tonnage.domain.measurement import DEVICE_SCHEMA, DeviceMeasurement, Rate
from tonnage.errors import BadRequest, echo

Run = Callable[[], Any]
Clock = Callable[[Run, int], float]
"""Seconds of so many runs."""

_PRODUCTS: Final = ("product", "convolution", "depthwise", "attention")
"""Benchmarks whose runs are counted in FLOP; all others in bytes, but for starts."""

_FORMATS: Final = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_SIDES: Final = {True: (256, 512, 1024), False: (2048, 4096, 8192)}
"""Sides of square products, on a processor and on an accelerator."""
_COPIED: Final = {True: (1e6, 4e6, 16e6, 64e6, 256e6), False: (16e6, 64e6, 256e6, 1024e6)}
"""Bytes of the arrays copied. [bytes]"""
_PASSED: Final = (0.125e6, 0.5e6, 2e6, 8e6, 32e6, 128e6)
"""Bytes of the arrays that an element-wise pass reads. [bytes]"""
_NATIVE: Final = 0.9
"""A narrow format slower than this share of fp32 is emulated, and not listed as a peak."""
_CACHED: Final = 1.5
"""Copies so much faster than the largest one stay in a cache."""


def measure_device(device: str = "cpu", *, threads: int | None = None, seconds: float = 20.0) -> DeviceMeasurement:
    """
    Rates of one device by microbenchmarks: FLOP/s, bytes/s, and seconds to start an operation.

    What the device cannot run is left out. Without PyTorch numpy measures products and copies of a processor alone,
    with as many threads as it takes by itself.

    Parameters
    ----------
    device : str
        cpu, cuda, cuda:1, mps, xpu (ROCm is called cuda, as PyTorch does).
    threads : int, optional
        Of a processor; absent = as many as PyTorch takes. Not heeded without PyTorch.
    seconds : float
        About how long it may take in all. [s]

    Raises
    ------
    BadRequest
        There is no such device here, or nothing to measure it with.
    """
    torch = pytorch()
    if torch is None:
        if device != "cpu":
            raise BadRequest(f"device '{echo(device)}' needs PyTorch; install it: pip install 'tonnage[torch]'")
        return _by_numpy(seconds)
    kind = present(torch, device)
    before = torch.get_num_threads()
    if threads is not None and kind == "cpu":
        torch.set_num_threads(threads)
    try:
        used = torch.get_num_threads() if kind == "cpu" else None
        clock = _clock(torch, kind, used or 1)
        with torch.no_grad():
            rates = tuple(_rates(_benches(torch, device, cpu=kind == "cpu"), clock=clock, seconds=seconds))
    finally:
        torch.set_num_threads(before)
    name, memory = _facts(torch, device, kind)
    return DeviceMeasurement(
        schema=DEVICE_SCHEMA,
        id=_id(name, used),
        name=name,
        kind=kind,
        rates=rates,
        memory_bytes=memory,
        threads=used,
        library=f"torch {torch.__version__}",
        date=date.today().isoformat(),
    )


def device_toml(found: DeviceMeasurement) -> str:
    """
    The measurement as a file of additions: `--additions FILE` makes the device an accelerator like any other.

    A peak is the best product of its format; narrow formats slower than fp32 are emulated, and left out. Bandwidth of
    memory is that of the largest copy, uploads give the host's link and copies between two cards the link of the cards.
    What was not measured is left out.
    """
    products = {r.dtype: found.best("product", r.dtype) or 0.0 for r in found.rates if r.name == "product"}
    most = products.get("fp32") or min(products.values())
    copies = sorted((_megabytes(r) * 1e6, r.value) for r in found.rates if r.name == "copy")
    memory = copies[-1][1]
    cached = [size for size, rate in copies if rate > _CACHED * memory]
    passes = [f"{2 * _megabytes(r):.4g} MB at {r.value / 1e9:.3g} GB/s" for r in found.rates if r.name == "pass"]
    functions, pooling = found.best("function"), found.best("pooling")
    lines = [
        f"# Measured by `tonnage measure device` on {found.date} with {found.library}. Peaks are rates that ran, not a",
        "# datasheet's; measured.* say what other operations reach of them. Use it with --additions, or keep it in the",
        "# folder that TONNAGE_CATALOG names.",
        "",
        "[[accelerator]]",
        f'id = "{found.id}"',
        f'name = "{_toml_text(found.name)}"',
        f'segment = "{"cpu" if found.kind == "cpu" else "workstation"}"',
        f'architecture = "{"x86" if found.kind == "cpu" else found.kind}"',
        f'memory = "{found.memory_bytes / 2**30:.4g} GiB"',
        f'memory_bw = "{memory / 1e9:.4g} GB/s"',
    ]
    lines += [
        f'peak.{dtype} = "{rate / 1e12:.4g} TFLOP/s"'
        for dtype, rate in sorted(products.items())
        if dtype == "fp32" or rate >= _NATIVE * most
    ]
    lines.append('measured.product = "100 %"')
    for name in ("convolution", "depthwise", "attention"):
        shares = sorted(r.value / products[r.dtype] for r in found.rates if r.name == name and r.dtype in products)
        if shares:
            lines.append(f'measured.{name} = "{100 * shares[len(shares) // 2]:.3g} %"')
    if passes:
        lines.append(f'measured.passes = "{", ".join(passes)}"')
    if functions:
        lines.append(f'measured.functions = "{functions / 1e9:.3g} GB/s"')
    if pooling:
        lines.append(f'measured.pooling = "{pooling / 1e9:.3g} GB/s"')
    if cached:
        lines.append(f'measured.cache = "{2 * cached[-1] / 1e6:.4g} MB"')
    start, upload, peer = (found.best(name) for name in ("start", "upload", "peer copy"))
    if start:
        lines.append(f'measured.start = "{start * 1e6:.3g} us"')
    if upload:
        lines += ['host_kind = "measured"', f'host_bw = "{upload / 1e9:.4g} GB/s"']
    if peer:
        lines += ['link_kind = "measured"', f'link_bw = "{peer / 1e9:.4g} GB/s"', "link_domain = 2"]
    how = f"{found.threads} threads, " if found.threads else ""
    lines += [f'source = "tonnage measure device, {how}{found.library}"', f'checked = "{found.date}"', ""]
    return "\n".join(lines)


def _megabytes(rate: Rate) -> float:
    return float(rate.shape.split()[0])


def pytorch() -> Any:
    """PyTorch where it is installed, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def present(torch: Any, device: str) -> str:
    """The kind of a device: cpu, cuda, rocm (cuda of a ROCm build), mps or xpu; refused where it is not there."""
    kind = device.partition(":")[0]
    there = {
        "cpu": lambda: True,
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
        "xpu": lambda: hasattr(torch, "xpu") and torch.xpu.is_available(),
    }
    if kind not in there or not there[kind]():
        found = [name for name, check in there.items() if check()]
        raise BadRequest(f"device '{echo(device)}': PyTorch finds none here; there is {', '.join(found)}")
    index = device.partition(":")[2]
    counted = index.isdecimal() and len(index) < 5 and int(index) < torch.cuda.device_count()
    if kind == "cuda" and index and not counted:
        raise BadRequest(f"device '{echo(device)}': there are {torch.cuda.device_count()}, counted from cuda:0")
    return "rocm" if kind == "cuda" and getattr(torch.version, "hip", None) else kind


def _clock(torch: Any, kind: str, threads: int) -> Clock:
    """
    How seconds are taken: on a processor its own CPU time over the threads, or wall time if that is less; elsewhere
    wall time until the device is done.
    """

    def busy(run: Run, count: int) -> float:
        own = time.process_time()
        wall = _wall_s(run, count)
        return min(wall, (time.process_time() - own) / threads)

    def synced(run: Run, count: int) -> float:
        wait = getattr(torch, {"rocm": "cuda"}.get(kind, kind)).synchronize
        wait()
        begun = time.perf_counter()
        _wall_s(run, count)
        wait()
        return time.perf_counter() - begun

    return busy if kind == "cpu" else synced


def _wall_s(run: Run, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        run()
    return time.perf_counter() - begun


def _best(run: Run, clock: Clock, *, seconds: float) -> tuple[float, int]:
    """The shortest time of one run, and how many were made: seven rounds, fewer of a run that outlasts its share."""
    run()
    once = max(clock(run, 1), 1e-7)
    count = max(1, min(10_000, int(seconds / 8 / once)))
    rounds = [clock(run, count) / count for _ in range(min(7, int(5 * seconds / (once * count))))]
    return min([once, *rounds]), 1 + count * len(rounds)


Bench = tuple[str, str, str, float, Callable[[], Run]]
"""Name, format, shape as text, what one run does, and how it is made ready."""


def _rates(benches: Iterable[Bench], *, clock: Clock, seconds: float) -> Iterator[Rate]:
    """The best rate of each benchmark in turn, each with an equal share of the seconds."""
    listed = list(benches)
    for name, dtype, shape, amount, make in listed:
        try:
            took, count = _best(make(), clock, seconds=seconds / len(listed))
        except (RuntimeError, NotImplementedError):
            continue  # a format or an operation the device lacks, or memory that is not free
        unit = "s" if name == "start" else "FLOP/s" if name in _PRODUCTS else "bytes/s"
        value = took / amount if name == "start" else amount / took
        yield Rate(name=name, dtype=dtype, shape=shape, value=value, unit=unit, repetitions=count)


def _benches(torch: Any, device: str, *, cpu: bool) -> Iterator[Bench]:
    """
    Everything that is measured by PyTorch.

    Products in each format; convolutions and attention in fp32 on a processor, in fp16 elsewhere; passes, functions and
    pooling on a processor alone; uploads and copies between cards on cards alone.
    """
    for dtype, known in _FORMATS.items():
        kind = getattr(torch, known)
        for side in _SIDES[cpu]:
            yield "product", dtype, f"{side}^3", 2.0 * side**3, partial(_product, torch, device, kind, side)
    fast = "fp32" if cpu else "fp16"
    kind = getattr(torch, _FORMATS[fast])
    batch = 1 if cpu else 64
    for channels, side in ((32, 112), (64, 56), (128, 28)):
        for name, groups, kernel in (("convolution", 1, 3), ("convolution", 1, 1), ("depthwise", channels, 3)):
            flop = 2.0 * kernel**2 * channels * channels / groups * side**2 * batch
            shape = f"{batch}x{channels}x{side}x{side}, {kernel}x{kernel}"
            yield (
                name,
                fast,
                shape,
                flop,
                partial(_convolution, torch, device, kind, (batch, channels, side, groups, kernel)),
            )
    heads, length = (8, 512) if cpu else (64, 2048)
    yield (
        "attention",
        fast,
        f"{heads} heads, {length} tokens, width 64",
        4.0 * heads * length**2 * 64,
        partial(_attention, torch, device, kind, (heads, length)),
    )
    for size in _PASSED if cpu else ():
        yield "pass", "", f"{size / 1e6:g} MB, x + x", 2.0 * size, partial(_pass, torch, device, int(size / 4), "add")
    for what in ("gelu", "softmax", "layer_norm") if cpu else ():
        yield "function", "", f"1 MB, {what}", 2e6, partial(_pass, torch, device, 250_000, what)
    if cpu:
        shape = "1x64x56x56, 3x3, stride 2"
        yield "pooling", "", shape, 4.0 * 64 * (56**2 + 28**2), partial(_pooling, torch, device)
    for size in _COPIED[cpu]:
        yield "copy", "", f"{size / 1e6:.0f} MB", 2.0 * size, partial(_copy, torch, device, int(size / 4))
    yield "start", "", "100 tiny additions", 100.0, partial(_start, torch, device)
    if device.startswith("cuda"):
        yield "upload", "", "256 MB", 256e6, partial(_upload, torch, device, int(64e6))
        if torch.cuda.device_count() > 1:
            yield "peer copy", "", "256 MB", 256e6, partial(_peer, torch, int(64e6))


def _product(torch: Any, device: str, kind: Any, side: int) -> Run:
    left, right = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
    out = torch.empty(side, side, device=device, dtype=kind)
    return lambda: torch.mm(left, right, out=out)


def _convolution(torch: Any, device: str, kind: Any, shape: tuple[int, ...]) -> Run:
    batch, channels, side, groups, kernel = shape
    net = torch.nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=groups, bias=False).to(device, kind)
    data = torch.randn(batch, channels, side, side, device=device).to(kind)
    if not device.startswith("cpu"):
        net, data = (part.to(memory_format=torch.channels_last) for part in (net, data))
    return lambda: net(data)


def _attention(torch: Any, device: str, kind: Any, shape: tuple[int, int]) -> Run:
    heads, length = shape
    q, k, v = (torch.randn(1, heads, length, 64, device=device).to(kind) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


def _copy(torch: Any, device: str, values: int) -> Run:
    source, target = torch.zeros(values, device=device), torch.zeros(values, device=device)
    return lambda: target.copy_(source)


def _pass(torch: Any, device: str, values: int, what: str) -> Run:
    """One pass into memory that is asked for anew, as every operation of an eager framework does."""
    width = 500
    data = torch.randn(max(values // width, 1), width, device=device)
    functional = torch.nn.functional
    return {
        "add": lambda: torch.add(data, data),
        "gelu": lambda: functional.gelu(data),
        "softmax": lambda: functional.softmax(data, -1),
        "layer_norm": lambda: functional.layer_norm(data, (width,)),
    }[what]


def _pooling(torch: Any, device: str) -> Run:
    data = torch.randn(1, 64, 56, 56, device=device)
    return lambda: torch.nn.functional.max_pool2d(data, 3, 2, 1)


def _start(torch: Any, device: str) -> Run:
    small = torch.zeros(16, device=device)

    def run() -> None:
        for _ in range(100):
            torch.add(small, small)

    return run


def _upload(torch: Any, device: str, values: int) -> Run:
    source, target = torch.zeros(values).pin_memory(), torch.zeros(values, device=device)
    return lambda: target.copy_(source, non_blocking=True)


def _peer(torch: Any, values: int) -> Run:
    source, target = (torch.zeros(values, device=f"cuda:{place}") for place in (0, 1))
    return lambda: target.copy_(source, non_blocking=True)


def _facts(torch: Any, device: str, kind: str) -> tuple[str, float]:
    """Name, and total memory: the host's for a processor and for mps. [bytes]"""
    if kind not in {"cuda", "rocm", "xpu"}:
        return _processor(), _host_memory()
    known = (torch.xpu if kind == "xpu" else torch.cuda).get_device_properties(device)
    return str(known.name), float(known.total_memory)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            named = re.search(r"model name\s*:\s*(.+)", file.read())
    except OSError:
        named = None
    return named.group(1).strip() if named else platform.processor() or platform.machine() or "processor"


def _host_memory() -> float:
    """All memory of this machine. [bytes]"""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        raise BadRequest("this system does not say how much memory it has") from None


def _id(name: str, threads: int | None) -> str:
    """An id for the device: its name as one word, with the number of threads where one is set."""
    word = "-".join(re.findall(r"[a-z0-9]+", name.lower().replace("(r)", "").replace("(tm)", "")))[:40].strip("-")
    return f"own-{word}" + (f"-{threads}t" if threads else "")


def _toml_text(text: str) -> str:
    """What can stand between quotes in TOML as it is."""
    return "".join(c for c in text if c.isprintable() and c not in '"\\')


def _by_numpy(seconds: float) -> DeviceMeasurement:
    """Products in fp32 and copies by wall time, where there is no PyTorch; threads are the library's own."""
    import numpy as np

    def product(side: int) -> Run:
        left = np.ones((side, side), dtype=np.float32)
        return partial(np.matmul, left, left, out=np.empty_like(left))

    def copy(size: float) -> Run:
        source = np.zeros(int(size / 4), dtype=np.float32)
        return partial(np.copyto, np.empty_like(source), source)

    benches: list[Bench] = [
        *(("product", "fp32", f"{n}^3", 2.0 * n**3, partial(product, n)) for n in _SIDES[True]),
        *(("copy", "", f"{size / 1e6:.0f} MB", 2.0 * size, partial(copy, size)) for size in _COPIED[True]),
    ]
    return DeviceMeasurement(
        schema=DEVICE_SCHEMA,
        id=_id(_processor(), None),
        name=_processor(),
        kind="cpu",
        rates=tuple(_rates(benches, clock=_wall_s, seconds=seconds)),
        memory_bytes=_host_memory(),
        library=f"numpy {np.__version__}",
        date=date.today().isoformat(),
    )
