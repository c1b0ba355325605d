"""What is fitted about networks that do not decode text, and what a batch through one is.

Three tables of shared numbers: `Runtime` (an engine and its mode), `Silicon` (a generation of accelerators),
`Style` (how a family of networks is built). No number belongs to one model or one card.
"""

from __future__ import annotations

from tonnage.record import SparseRecord


class Runtime(SparseRecord, kw_only=True):
    """An engine in one of its modes: what it adds to the arithmetic of a network."""

    engine: str
    mode: str = ""
    host_s: float = 0.0
    """Host time to issue one operator; hidden behind the accelerator when that is slower. [s]"""
    kernel_s: float = 0.0
    """Start, drain and dependence of one operator on the accelerator. [s]"""
    call_s: float = 0.0
    """Fixed time of one call, never hidden. [s]"""
    fused: bool = False
    """Element-wise passes run inside the products: they start no kernels of their own."""
    passes: float = 2.0
    """Times a convolution's output crosses memory: written, read, and again for each pass that is not fused. [-]"""
    touch: float = 1.0
    """Traffic of a transformer's element-wise passes over what the work list counts. [-]"""
    scores: float = 0.0
    """Times the attention scores cross memory; 0 = they stay on chip. [-]"""
    fused_tokens: float = 0.0
    """Longest sequence whose attention in 16 bits or fewer keeps its scores on chip all the same. [tokens]"""
    products: float = 1.0
    """Efficiency of matrix products and convolutions beside that of a tuned library. [-]"""
    narrow: float = 1.0
    """The same for 8-bit products. [-]"""
    half_sums: bool = False
    """Products of 16 bits are summed in 16 bits, which GeForce cards do at twice the rate."""
    tf32: bool = False
    """Convolutions in fp32 run as TF32 where the part has it."""
    source: str = ""


class Silicon(SparseRecord, kw_only=True):
    """A generation of accelerators: what its arithmetic costs in energy and reaches in efficiency."""

    architecture: str
    """Compute capability ("8.6"), the whole or first word of the catalogue's architecture, a segment, or a vendor."""
    cache_s: float = 0.0
    """Last-level cache over memory bandwidth: what an operator touches beyond it crosses memory. [s]"""
    picojoule_per_flop: float | None = None
    """Energy of one 16-bit tensor FLOP at work, its share of on-chip traffic included. [pJ/FLOP]"""
    start: float = 1.0
    """Time of a kernel's start and drain beside an A100's; follows the clock. [-]"""
    efficiency: float = 1.0
    """Share of the listed peak beside the common efficiency of a style. [-]"""
    fitted: bool = True
    """Some accelerator of this generation was measured."""
    on_chip: bool = False
    """Weights and activations stay in on-chip memory."""
    host: bool = False
    """A processor that issues its own operators: no launches."""
    source: str = ""


class Style(SparseRecord, kw_only=True):
    """How networks of one kind use an accelerator."""

    name: str
    compute: float
    """Share of the peak that its products reach, at a large batch. [-]"""
    passes: float = 1.0
    """Traffic beside a plain convolution-norm-activation network. [-]"""
    source: str = ""


class Shape(SparseRecord, kw_only=True):
    """What is known of a family of networks beside its totals."""

    pattern: str
    """Regular expression over "family id", lower case; a group in it is the depth."""
    style: str = "convolution"
    kernels: float | None = None
    """Layers with weights; absent = `kernels_per_depth` times the depth in the name."""
    kernels_per_depth: float | None = None
    flop: float | None = None
    """Of one sample, for models whose catalogue row gives none. [FLOP]"""
    input_px: int | None = None
    activation_values: float | None = None
    activations_per_flop: float | None = None
    """Outputs of layers with weights per FLOP, when a row gives none. [1/FLOP]"""
    source: str = ""


class Unet(SparseRecord, kw_only=True):
    """The shape of a denoising U-Net, in the field names of diffusers' config.json."""

    family: str
    block_out_channels: tuple[int, ...]
    transformer_layers_per_block: tuple[int, ...]
    """Transformer layers beside each residual block, by level; 0 = none."""
    cross_attention_dim: int
    layers_per_block: int = 2
    latent_channels: int = 4
    text_tokens: int = 77
    control: bool = False
    """A second encoder half runs in every step (ControlNet)."""
    source: str = ""


class Offline(SparseRecord, kw_only=True):
    """Everything fitted about networks that do not decode text."""

    runtimes: tuple[Runtime, ...]
    silicon: tuple[Silicon, ...]
    styles: tuple[Style, ...]
    shapes: tuple[Shape, ...]
    unets: tuple[Unet, ...]
    aliases: dict[str, str]
    """Other names of engines and modes."""
    memory: float
    """Share of the peak memory bandwidth that long passes reach. [-]"""
    tile: float
    """Outputs of a product, for each multiprocessor, at which half of the peak is reached: a tile's share. [-]"""
    energy: dict[str, float]
    """Energy of a FLOP in a format over that of a 16-bit tensor FLOP. [-]"""
    picojoule_per_byte: float
    """Energy of one byte of device memory traffic. [pJ/byte]"""
    idle: float
    """Share of the power limit that is spent before any work. [-]"""
    long_attention: float = 1.0
    """Factor on the share of the peak that attention reaches over the sequences of a video. [-]"""
    source: str = ""
