"""
How good does a model get with so many parameters and tokens, and which pair is best for so much arithmetic?

The loss of a dense decoder is a constant and two power laws, one of its size and one of the data. Five numbers that a
source fitted give the loss, and with C = 6 N D the pair that reaches the least loss for C. Smaller models trained on
more tokens than that pair are worse for the same arithmetic and cheaper for ever after.

Left out: mixtures of experts, repeated data, and what a loss means for any task.
"""

from __future__ import annotations


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
