"""The release of this code: printed by every answer, kept in every file."""

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0"
