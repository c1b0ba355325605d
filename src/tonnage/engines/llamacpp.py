"""What llama.cpp's server chooses by itself beyond constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, Starting

_SHARED_SINCE: Final = (7079,)
"""Pull request 16736 (November 2025); this build is the first reported with it (issue 17300)."""


def defaults(at: Starting) -> Iterator[Default]:
    """Slots share one cache where their number is left to the server; a number that is stated divides it."""
    if at.engine.max_num_seqs is None and at.release >= _SHARED_SINCE:
        yield Default(
            field="kv_unified", value=True, source="llama-server: one cache for its slots (pull request 16736)"
        )
