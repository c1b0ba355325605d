"""Predictors that tests inject; importable by name, so that worker processes can have them too."""

from tonnage.domain.answer import Quantity
from tonnage.domain.case import Case, Latency, Result, ServeCase, ServeResult, TrainCase, TrainResult
from tonnage.errors import BadRequest, UnknownName


def fixed(case: Case) -> Result:
    """Always the same answer: 100 ms, 20 ms, 2 s, 1,000 tokens/s; training twice too slow and not fitting."""
    if isinstance(case, TrainCase):
        return TrainResult(fits=False, basis="derived", step_s=Quantity(value=20.0, unit="s"), why="80 GB are too few")
    return ServeResult(
        fits=True,
        basis="calibrated",
        ttft_s=Latency(mean=0.1, low=0.05, high=0.2),
        tpot_s=Latency(mean=0.02, low=0.01, high=0.04),
        e2e_s=Latency(mean=2.0, low=1.0, high=4.0),
        output_tokens_per_s=Quantity(value=1000.0, unit="tokens/s", low=500.0, high=2000.0),
        saturated=isinstance(case, ServeCase) and case.isl > 5000,
    )


def crashing(case: Case) -> Result:
    """A bug on long prompts."""
    if isinstance(case, ServeCase) and case.isl > 1024:
        raise ZeroDivisionError("float division by zero")
    return fixed(case)


def refusing(case: Case) -> Result:
    """What users cause."""
    if isinstance(case, ServeCase) and case.isl > 1024:
        raise UnknownName("accelerator", "h100-smx", known=["h100-sxm5-80gb"])
    raise BadRequest("tp 3 does not divide 32 heads")


def too_big(case: Case) -> Result:
    """Nothing fits."""
    return ServeResult(fits=False, basis="derived", why="short by 4 GiB,\nmostly weights")
