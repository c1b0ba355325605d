"""
An answer that is kept for the pictures, comparisons and files that ask for it again.

It travels as the bytes of its record, which only the server's own processes write and read; the server itself never
looks inside, so that no answer, however large, holds up others.
"""

from __future__ import annotations

import pickle
from typing import Any

import msgspec

__all__ = ["Kept"]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer, for the pictures and comparisons that ask for it again."""

    path: str
    request: dict[str, Any]
    document: bytes
    """As JSON, the same bytes as the command line's `--json`."""
    sentence: str
    record: bytes
    """The answer itself, for another worker."""

    @property
    def answer(self) -> Any:
        """The answer as its noun."""
        return pickle.loads(self.record)

    @property
    def size_bytes(self) -> int:
        """What keeping it takes. [bytes]"""
        return len(self.document) + len(self.record)
