"""What a machine holds, and what runs on it: nouns of inventories and of `tonnage local`."""

from __future__ import annotations

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.precision import Precision
from tonnage.domain.published import QualityChange, Standing
from tonnage.record import Record, SparseRecord


class DeviceGroup(SparseRecord, kw_only=True):
    """Equal accelerators of one source, as it names them."""

    name: str
    count: int = 1
    memory_bytes: float | None = None
    """Of one, as the source states it; absent = it does not. [bytes]"""
    node: str = ""
    """The machine or node pool they sit in, where the source names several."""


class Inventory(SparseRecord, kw_only=True):
    """What a tool's output says is there. Absent = the output does not say."""

    evidence: str
    """Which output said so, in a few words."""
    devices: tuple[DeviceGroup, ...] = ()
    cpu: str = ""
    cores: int | None = None
    """Physical cores of all sockets."""
    peaks: dict[str, float] = {}
    """Of the processor by number format, from its cores, clock and instructions; empty = not told. [FLOP/s]"""
    host_memory_bytes: float | None = None
    """Of one machine. [bytes]"""
    host_bytes_per_s: float | None = None
    """Bandwidth of host memory where channels and rate are readable. [bytes/s]"""
    unified: bool = False
    """Processor and accelerator share one memory."""
    notes: tuple[str, ...] = ()


class Host(Record, kw_only=True):
    """The processor's side of a machine."""

    part: Accelerator
    """The processor as an accelerator: its bandwidth and peaks are what runs there at."""
    memory_bytes: float
    """What weights may take of host memory. [bytes]"""
    assumed: tuple[str, ...] = ()


class Owned(Record):
    """So many of one part; no part is the processor alone."""

    count: int
    part: Accelerator | None
    assumed: str = ""
    """What of the part was not said; empty = nothing."""
    taken: str = ""
    """As which part its name was taken, where it is that of several."""


class Machine(Record, kw_only=True):
    """One machine that runs models."""

    title: str
    host: Host
    device: Accelerator | None = None
    """Absent = the processor alone."""
    count: int = 1
    others: tuple[Owned, ...] = ()
    """Accelerators of other kinds in it: models are spread over all of them by layers."""
    network_bytes_per_s: float | None = None
    """Between the devices, where each sits in a machine of its own; absent = all in one. [bytes/s]"""
    evidence: str = ""
    engines: tuple[str, ...] = ()
    """Programs found on it."""


class Download(SparseRecord, kw_only=True):
    """Where files of one model come from, by what reads them."""

    model: str
    released: str
    gguf: str = ""
    """Repository with GGUF files (llama.cpp)."""
    native: str = ""
    """Weight format of those files where it is the checkpoint's own and the only one."""
    ollama: str = ""
    mlx: str = ""
    """Repository with 4-bit MLX weights."""
    awq: str = ""
    """Repository with 4-bit weights for vLLM."""
    source: str = ""


class Offload(SparseRecord, kw_only=True):
    """What lies in host memory."""

    layers: int = 0
    """Whole layers, with their cache (`-ngl` is the rest)."""
    expert_layers: int = 0
    """Layers whose experts alone lie there (`-ncmoe`)."""
    moved_bytes: float = 0.0
    """Weights and cache in host memory. [bytes]"""
    streamed_bytes: float = 0.0
    """Weights that a prompt brings to the device. [bytes]"""
    read_share: float = 0.0
    """Share of the bytes a token reads that lies in host memory. [-]"""


class LocalRow(SparseRecord, kw_only=True):
    """One model in one format on one machine."""

    model: str
    precision: Precision
    engine: str
    weight_bytes: float
    memory_bytes: float
    """Needed with the asked context, in all memories. [bytes]"""
    context: int
    """That was asked for, or the model's own where that is less. [tokens]"""
    most_context: int
    """Largest that fits as the weights lie now. [tokens]"""
    decode_per_s: Quantity
    """One request. [tokens/s]"""
    prompt_per_s: Quantity
    piece: int | None = None
    """Of a prompt that is computed at once (`-ub`); absent = the engine's own. [tokens]"""
    board_w: Quantity | None = None
    """Mean draw of one device while it writes an answer; absent = its limit is not published. [W]"""
    offload: Offload = Offload()
    split: tuple[int, ...] = ()
    """Layers of each device where they, or its layers, are unlike, in the order of the machine; empty = alike."""
    quality: float | None = None
    """Published score of the released weights; absent = none in the catalogue."""
    stands: Standing | None = None
    """By which score it is ranked; absent = none places it."""
    change: QualityChange | None = None
    """What the format keeps of it by published figures; absent = the weights are as released."""
    parameters: float = 0.0
    level: str = ""
    notes: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    """Engine and what starts it."""

    @property
    def format(self) -> str:
        """Of its weights, in a word, and of its cache where that has fewer than 16 bits: q4_k_m, q8_0 cache."""
        weights, cache = (name.removeprefix("gguf-") for name in (self.precision.stored, self.precision.kv))
        return weights if self.precision.kv == cache else f"{weights}, {cache} cache"


class MachineRow(SparseRecord, kw_only=True):
    """One of several machines that are put side by side."""

    machine: str
    row: LocalRow | None = None
    """The model in the format chosen; absent = it does not fit."""
    why: str = ""
    """Why not, in a sentence."""
    price_usd: float | None = None
    """Estimated street price of its accelerators; absent = not known. [USD]"""
    whole: bool = False
    """The price is that of the whole machine."""
    watts: float | None = None
    """Of machine and cooling while it answers one request; absent = a limit is not published. [W]"""
    usd_per_million: float | None = None
    """Electricity of a million output tokens. [USD]"""


class LocalAnswer(Record, kw_only=True):
    """What runs on a machine, best first."""

    sentence: str
    feasible: bool
    machine: str
    device: str
    count: int
    host: str
    evidence: str
    benchmark: str
    """That `quality` is a score of."""
    rows: tuple[LocalRow, ...]
    """One for each model: its best format."""
    others: tuple[str, ...] = ()
    """Accelerators of other kinds in it: "1 x rtx-4090"."""
    all_rows: tuple[LocalRow, ...] = ()
    """Every format, where that was asked for."""
    frontier: tuple[LocalRow, ...] = ()
    """Formats of the first model, the chosen one first: none has another that is as fine and as fast."""
    beside: tuple[MachineRow, ...] = ()
    """This machine and those that it is compared with; empty = none was named."""
    behind_per_s: float | None = None
    """Output of the first row with its whole context behind it; absent where that is hardly more. [tokens/s]"""
    infeasible: tuple[tuple[str, str], ...] = ()
    """Models that do not fit, and what they lack."""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
