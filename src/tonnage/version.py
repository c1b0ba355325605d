"""The release of this code: printed by every answer, kept in every file; and what it was installed with."""

from typing import Final

__version__: Final = "0.1.0"


def can_simulate() -> bool:
    """Whether numba, which compiles the simulator, is installed; nothing is loaded to find out."""
    from importlib.util import find_spec

    return find_spec("numba") is not None
