"""The plans of a file ask mostly for the same replicas at other loads: each is built once."""

from collections.abc import Iterator

import pytest

from tonnage.core.kept_replicas import kept_replicas


@pytest.fixture(scope="module", autouse=True)
def kept() -> Iterator[None]:
    """Kept replicas move no number: `tests/core/test_replica.py` asks with and without."""
    with kept_replicas(512):
        yield
