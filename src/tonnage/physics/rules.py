"""What do the rules of thumb say, so that they can be shown beside the real number?

Each rule is what articles and forums repeat, under its own name, with nothing added: no cache in "2 bytes per
parameter", no activations in "16 bytes per parameter". How far off a rule is for one model is computed by the planner.
"""

from __future__ import annotations

from typing import Final

INFERENCE_RULE_BYTES: Final = {32: 4.0, 16: 2.0, 8: 1.0, 4: 0.5}
"""Bytes per parameter by bits of the weights, as the rule gives them. [bytes/parameter]"""


def inference_rule_bytes(*, parameters: float, bits: float) -> float:
    """
    The rule "2 bytes per parameter for FP16, 1 for INT8, half a byte for INT4".

    M = P x bytes, with bits rounded to 32, 16, 8 or 4.

    Parameters
    ----------
    parameters : number
        P, parameters of the model. [parameters]
    bits : number
        Bits of a stored weight, scales included. [-]

    Returns
    -------
    number
        What the rule says is needed to serve. [bytes]

    Valid
    -----
    A floor for the weights; cache and buffers are missing from it.

    Source
    ------
    Rule of thumb, repeated by the published guides this catalogue was checked against.

    Examples
    --------
    >>> inference_rule_bytes(parameters=70e9, bits=16) / 1e9, inference_rule_bytes(parameters=70e9, bits=4.25) / 1e9
    (140.0, 35.0)
    """
    nearest = min(INFERENCE_RULE_BYTES, key=lambda known: abs(known - bits))
    return parameters * INFERENCE_RULE_BYTES[nearest]


def training_rule_bytes(*, parameters: float, fp32_gradients: bool | int = 0) -> float:
    """
    The rule "16 bytes per parameter for mixed-precision Adam", or 18 where gradients are kept in 32 bits.

    M = P (2 + 2 + 4 + 8), or P (2 + 4 + 4 + 8).

    Parameters
    ----------
    parameters : number
        P, parameters of the model. [parameters]
    fp32_gradients : number
        1 = gradients accumulate in 32 bits. [-]

    Returns
    -------
    number
        What the rule says is needed to train. [bytes]

    Valid
    -----
    Weights, gradients, master copy and both moments; activations are missing from it.

    Source
    ------
    ZeRO, arXiv 1910.02054, section 3.1.

    Examples
    --------
    >>> training_rule_bytes(parameters=70e9) / 1e12, training_rule_bytes(parameters=70e9, fp32_gradients=1) / 1e12
    (1.12, 1.26)
    """
    return parameters * (18.0 if fp32_gradients else 16.0)


def adapter_rule_bytes(*, base_bytes: float, share: float = 0.15) -> float:
    """
    The rule "LoRA needs the base model and 10 to 20 % more".

    M = W (1 + a)

    Parameters
    ----------
    base_bytes : number
        W, the frozen weights as they are held. [bytes]
    share : number
        a, 0.10 to 0.20. [-]

    Returns
    -------
    number
        What the rule says is needed to fine-tune with adapters. [bytes]

    Valid
    -----
    Short sequences: it ignores activations, which dominate at long ones.

    Source
    ------
    Rule of thumb, repeated by the published guides this catalogue was checked against.

    Examples
    --------
    >>> adapter_rule_bytes(base_bytes=140e9) / 1e9
    161.0
    """
    return base_bytes * (1.0 + share)
