"""
What does a traced module compute for a batch, and what does a training step of it hold? A profile -> operators, bytes.

A profile counts values per sample; here they become bytes in a format, times the batch. Weights are read once whatever
the batch. Element-wise passes are listed one by one, as an eager framework runs them; what an engine fuses away is for
`tonnage.simulation.offline` to say.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.profile import Profile, TracedOperator
from tonnage.domain.training import TrainSetup
from tonnage.physics.network import element_bytes
from tonnage.physics.unet import GROUP_NORM
from tonnage.physics.work import Kind, Operator, Work

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
    Every moment of the traced step that can be its peak; gradients that are there already (`stay`) count with it.
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
