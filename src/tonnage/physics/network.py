"""
What does a network compute that is known by its totals, or a traced module by its profile? FLOP, values -> operators.

Tables of vision models publish three totals: parameters, multiply-adds, and the outputs of layers with weights
("activations", as timm counts them). `network_work` spreads them over the layers: each is one product whose weights
are its share of the parameters, with as many rows as make up the FLOP. Both totals scale with the pixels.

Vision transformers have layers, so their work is a transformer's over `patch_tokens`.

A profile counts values per sample; here they become bytes in a format, times the batch. Weights are read once whatever
the batch. Element-wise passes are listed one by one, as an eager framework runs them; what an engine fuses away is for
`tonnage.simulation.offline` to say.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.profile import Profile, TracedOperator
from tonnage.domain.training import TrainSetup
from tonnage.errors import BadRequest, Unmeasured
from tonnage.physics.diffusion import GROUP_NORM
from tonnage.physics.work import Kind, Operator, Work

_FLOP_PER_VALUE: Final = 1300.0
"""Forward FLOP per activation value: ResNet-50 740, SSD300 1,290, nnU-Net 1,380 to 2,120 (training/networks.toml)."""


def network_totals(model: Model, *, image_px: int | None = None) -> tuple[float, float]:
    """
    Forward FLOP and activation values of one sample at an input size.

    Both grow with the input's area. Activation values that nobody counted follow from the FLOP at the
    ratio of ordinary convolutional networks.

    Raises
    ------
    Unmeasured
        The model has neither layers nor a published FLOP count.
    """
    network = model.network
    if network is None or not network.flop:
        raise Unmeasured(f"model: {model.id} has no layers and no published FLOP; give its FLOP per sample")
    values = network.activation_values or network.flop / _FLOP_PER_VALUE
    scale = (image_px / network.input_px) ** 2 if image_px and network.input_px else 1.0
    return network.flop * scale, values * scale


def scaled_to(*, total: float, input_px: float, resolution: float) -> float:
    """
    A total of a convolutional network at another resolution.

    total x (resolution / input_px)^2: every layer's output has pixels in proportion.

    Parameters
    ----------
    total : number
        FLOP or activation values of one sample at `input_px`. [-]
    input_px : number
        Side of the square input they were counted at. [px]
    resolution : number
        Side of the input wanted. [px]

    Returns
    -------
    number
        The same total at `resolution`. [-]

    Valid
    -----
    Convolutions and windowed attention. Full attention grows with the square of the pixels: use the layers.

    Source
    ------
    timm benchmark tables: ResNet-50 4.11 GMAC at 224 px, 6.80 at 288 px.

    Examples
    --------
    >>> round(scaled_to(total=4.11, input_px=224, resolution=288), 2)
    6.79
    """
    return total * (resolution / input_px) ** 2


def patch_tokens(*, resolution: float, patch_px: float, extra: float = 1.0) -> float:
    """
    Tokens a vision transformer makes of a square image.

    Parameters
    ----------
    resolution : number
        Side of the image. [px]
    patch_px : number
        Side of a patch. [px]
    extra : number, optional
        Class and register tokens. [tokens]

    Returns
    -------
    number
        Tokens of one image. [tokens]

    Valid
    -----
    Square images cut into whole patches; a rest at the border is dropped.

    Source
    ------
    arXiv 2010.11929, section 3.1.

    Examples
    --------
    >>> patch_tokens(resolution=224, patch_px=16)
    197.0
    """
    return float(resolution // patch_px) ** 2 + extra


def element_bytes(precision: str) -> float:
    """
    Bytes of one activation value.

    Parameters
    ----------
    precision : str
        A number format by name.

    Returns
    -------
    number
        Bytes that an activation of that format takes in memory. [bytes]

    Valid
    -----
    Formats of `domain.precision`.

    Source
    ------
    IEEE 754; weight-only formats keep activations at 16 bits.

    Examples
    --------
    >>> element_bytes("fp16"), element_bytes("int8")
    (2.0, 1.0)
    """
    stored = number_format(precision)
    return 2.0 if stored.weight_only else max(stored.bytes, 1.0)


def network_work(
    *,
    flop: float,
    activation_values: float,
    parameters: float,
    kernels: float,
    batch: float,
    precision: str,
    style: str = "convolution",
) -> Work:
    """
    One forward pass of a batch through a network known by its totals: one operator that runs `kernels` times.

    FLOP and bytes of the operator are those of one run for all samples; of a denoiser, of one step.

    Parameters
    ----------
    flop : number
        Of one sample. [FLOP]
    activation_values : number
        Outputs of layers with weights, of one sample. [values]
    parameters : number
        Weights that every batch reads. [parameters]
    kernels : number
        Layers with weights. [-]
    batch : number
        Samples that run together. [samples]
    precision : str
        Format of weights and activations.
    style : str, optional
        How the layers are built: the name under which efficiencies are known.

    Returns
    -------
    tuple of Operator
        One operator that runs `kernels` times.

    Raises
    ------
    BadRequest
        A total is not positive.

    Valid
    -----
    Batches that fill the accelerator; at batch 1 the layers' spread of shapes matters and efficiency is lower.

    Source
    ------
    docs/physics.md 7; timm's definition of activations.

    Examples
    --------
    >>> (op,) = network_work(flop=8.22e9, activation_values=11.1e6, parameters=25.6e6, kernels=53, batch=1,
    ...                      precision="fp16")
    >>> round(op.flop * op.count / 1e9, 2)
    8.22
    """
    if min(flop, activation_values, parameters, kernels, batch) <= 0:
        raise BadRequest(
            f"network: FLOP, activations, parameters, layers and batch must be positive, got {flop:g} FLOP"
        )
    stored = number_format(precision)
    weights, wide = parameters / kernels, element_bytes(precision)
    side = sqrt(weights)
    moved = activation_values * batch * wide / kernels
    return (
        Operator(
            kind="convolution",
            name=style,
            count=kernels,
            weights=stored.name,
            compute=stored.compute,
            flop=flop * batch / kernels,
            read_bytes=weights * stored.bytes + moved,
            write_bytes=moved,
            m=flop * batch / (2.0 * parameters),
            n=side,
            k=side,
        ),
    )


LAYER: Final = "layer: "
"""How names of traced products and convolutions begin."""
PIXELS: Final = "pixels: "
"""How names of traced element-wise passes over feature maps begin."""
TOKENS: Final = "tokens: "
"""How names of all other traced element-wise passes begin."""
_KINDS: Final[dict[str, Kind]] = {
    "gemm": "gemm",
    "convolution": "convolution",
    "attention": "attention_prefill",
    "elementwise": "elementwise",
    "embedding": "embedding",
}


def profile_work(profile: Profile, *, batch: float, precision: Precision) -> Work:
    """Operators of one forward pass of `batch` samples."""
    return tuple(_operator(op, batch, precision) for op in profile.forward)


def traced_moments(
    profile: Profile, setup: TrainSetup, *, gradients: float, stay: bool
) -> tuple[tuple[Quantity, ...], ...]:
    """
    Every moment of the traced step that can be its peak: its gradients and its activations. [bytes]

    `gradients` are those of all trained parameters; where they `stay`, each moment has them whole. [bytes]
    """
    each = gradients / max(profile.trainable_parameters, 1.0)
    least = gradients if stay else 0.0
    return tuple(
        (
            Quantity(name="gradients", value=max(least, each * moment.gradient_values)),
            Quantity(
                name="activations",
                value=setup.micro_batch * (setup.value_bytes * moment.activation_values + moment.activation_bytes),
                basis=Basis.CALIBRATED,
                source="traced: what is alive",
            ),
        )
        for moment in profile.moments
    )


def _operator(op: TracedOperator, batch: float, precision: Precision) -> Operator:
    """A traced operator, whose values are of one sample, for a batch in these formats; weights are read once."""
    stored = number_format(precision.weights)
    wide = element_bytes(precision.activations)
    sixteen = precision.kv if op.kind == "attention" else precision.activations
    weights = op.weight_values * (stored.bytes if op.flop else max(wide, 2.0))
    held = op.kind in {"gemm", "convolution"} and op.weight_values > 0
    attention = op.kind == "attention"
    return Operator(
        kind=_KINDS[op.kind],
        name=_name(op),
        count=op.count,
        weights=stored.name if held else sixteen,
        compute=stored.compute if held else number_format(sixteen).compute,
        flop=op.flop * batch,
        read_bytes=op.read_values * batch * wide + weights,
        write_bytes=op.write_values * batch * wide,
        m=op.m * batch if held or attention else op.m,
        n=op.n * (op.groups if op.kind == "convolution" else 1.0),
        k=op.k,
        groups=op.groups if op.kind == "convolution" else op.groups * batch if not held and op.flop else 1.0,
        batch=op.groups * batch if attention else 0.0,
        context=op.keys,
        heads=op.heads,
        kv_heads=op.heads,
        head_dim=op.head_dim,
    )


def _name(op: TracedOperator) -> str:
    if op.kind != "elementwise":
        return f"{LAYER}{op.name}"
    if op.name == GROUP_NORM:
        return f"{GROUP_NORM}, traced"
    return f"{PIXELS if op.pixels else TOKENS}{op.name}"


def inference_peak_bytes(profile: Profile, *, batch: float, value_bytes: float) -> float:
    """
    Most that one inference pass holds beside the weights.

    Parameters
    ----------
    profile : Profile
        The module.
    batch : number
        Samples of a pass. [samples]
    value_bytes : number
        One activation value. [bytes]

    Returns
    -------
    number
        Activations at the worst moment. [bytes]

    Valid
    -----
    Frameworks that free an activation after its last use.

    Source
    ------
    docs/physics.md 7.

    Examples
    --------
    >>> net = Profile(schema="tonnage.profile/1", name="net", inputs=(), samples=1, parameters=1e6,
    ...               trainable_parameters=1e6, largest_parameter=1e6, forward=(), peak_values=1e6)
    >>> inference_peak_bytes(net, batch=8, value_bytes=2)
    16000000.0
    """
    return float(batch * (profile.peak_values * value_bytes + profile.peak_bytes))
