"""
How well do sessions fitted to the first half of a log predict the hits of its second half, over the size of a cache?

python -m tools.sessions.halves FOLDER_OF_TRACES
"""

from __future__ import annotations

import sys
from pathlib import Path

from tonnage.planning.sessions.logs import trace_sessions


def main() -> None:
    """A table for each of Mooncake's two logs."""
    for name in ("conversation", "synthetic"):
        found = trace_sessions(str(Path(sys.argv[1]) / f"mooncake_fast25_{name}.jsonl.gz"))
        print(f"{name}: {found.requests:,} requests, {found.unbounded:.1%} with room for everything; {found.licence}")
        for at in found.curve:
            assert at.predicted is not None
            print(
                f"  {at.tokens:>14,.0f} tokens  {at.hit_rate:6.1%} found  {at.predicted:6.1%} predicted"
                f"  {100 * (at.predicted - at.hit_rate):+5.1f} points"
            )


if __name__ == "__main__":
    main()
