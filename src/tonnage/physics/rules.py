"""
What do rules of thumb and scaling laws say, beside the real number?

Each rule of thumb is what articles and forums repeat, under its own name, with nothing added: no cache in "2 bytes per
parameter", no activations in "16 bytes per parameter". How far off a rule is for one model is computed by the planner.

The loss of a dense decoder is a constant and two power laws, one of its size and one of the data. Five numbers that a
source fitted give the loss, and with C = 6 N D the pair that reaches the least loss for C. Smaller models trained on
more tokens than that pair are worse for the same arithmetic and cheaper for ever after.

Left out: mixtures of experts, repeated data, and what a loss means for any task.
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


def loss_of(
    *,
    parameters: float,
    tokens: float,
    irreducible: float,
    parameter_factor: float,
    parameter_exponent: float,
    token_factor: float,
    token_exponent: float,
) -> float:
    """
    Loss of a model after its training.

    L = E + A / N^a + B / D^b

    Parameters
    ----------
    parameters : number
        N. [parameters]
    tokens : number
        D, each seen once. [tokens]
    irreducible : number
        E, entropy of the text. [nats/token]
    parameter_factor : number
        A. [-]
    parameter_exponent : number
        a. [-]
    token_factor : number
        B. [-]
    token_exponent : number
        b. [-]

    Returns
    -------
    number
        Cross-entropy on held-out text of the corpus that the law was fitted on. [nats/token]

    Valid
    -----
    Fitted on 70 M to 16 B parameters at about 1 to 100 tokens a parameter; beyond it is extrapolated.

    Source
    ------
    Hoffmann et al. 2022 (arXiv:2203.15556), equation 10; refitted by Besiroglu et al. 2024 (arXiv:2404.10102).

    Examples
    --------
    >>> law = dict(irreducible=1.69, parameter_factor=406.4, parameter_exponent=0.34, token_factor=410.7)
    >>> round(loss_of(parameters=70e9, tokens=1.4e12, token_exponent=0.28, **law), 3)
    1.937
    """
    return float(
        irreducible + parameter_factor / parameters**parameter_exponent + token_factor / tokens**token_exponent
    )


def compute_optimal_parameters(
    *,
    compute_flop: float,
    parameter_factor: float,
    parameter_exponent: float,
    token_factor: float,
    token_exponent: float,
) -> float:
    """
    The size that reaches the least loss for so much arithmetic.

    N = (a A / (b B))^(1 / (a + b)) (C / 6)^(b / (a + b)): the minimum of the loss along 6 N D = C.

    Parameters
    ----------
    compute_flop : number
        C, of the whole training. [FLOP]
    parameter_factor : number
        A. [-]
    parameter_exponent : number
        a. [-]
    token_factor : number
        B. [-]
    token_exponent : number
        b. [-]

    Returns
    -------
    number
        Parameters of the model; its tokens are C / (6 N). [parameters]

    Valid
    -----
    Dense decoders whose embeddings are a small part.

    Source
    ------
    Hoffmann et al. 2022 (arXiv:2203.15556), equation 4.

    Examples
    --------
    >>> refit = dict(parameter_factor=482.01, parameter_exponent=0.3478, token_factor=2085.43, token_exponent=0.3658)
    >>> size = compute_optimal_parameters(compute_flop=5.76e23, **refit)
    >>> print(f"{size / 1e9:.0f}B, {5.76e23 / 6 / size / size:.0f} tokens a parameter")
    72B, 18 tokens a parameter
    """
    both = parameter_exponent + token_exponent
    ratio = parameter_exponent * parameter_factor / (token_exponent * token_factor)
    return float(ratio ** (1.0 / both) * (compute_flop / 6.0) ** (token_exponent / both))
