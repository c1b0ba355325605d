"""What tests expect of the clock: that work ends, and that it takes no more than some order of magnitude."""

PATIENCE_S = 600.0
"""How long what does come is waited for: far beyond what a busy machine takes. [s]"""
times = 20.0
"""The stated CPU seconds that a test may take: caches shared with other work make it two, a wrong order of growth a
hundred. Under `--wall` (tests/conftest.py) the stated ones are held."""


def assert_quick(spent_s: float, most_s: float) -> None:
    """Fail where CPU seconds are beyond those stated: by far, or at all under `--wall`."""
    assert spent_s <= most_s * times, f"{spent_s:.3g} s of CPU, stated are {most_s:g} s"
