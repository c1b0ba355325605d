"""
Dashboards read by Grafana's own foundation SDK: every field that was written is one that its types know.

    python tools/export-validators/grafana.py DASHBOARD...

The SDK's readers pass over fields that they do not know, so each file is read into its types, written again, and held
against the original: what is not there any more was not understood.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(given: Any, read: Any, *, where: str = "") -> list[str]:
    """Places of the original that the types did not keep."""
    if isinstance(given, dict):
        if not isinstance(read, dict):
            return [where]
        return [
            name
            for key, value in given.items()
            for name in (
                []
                if value is None or value == []
                else [f"{where}.{key}"]
                if key not in read
                else lost(value, read[key], where=f"{where}.{key}")
            )
        ]
    if isinstance(given, list):
        if not isinstance(read, list) or len(given) != len(read):
            return [where]
        pairs = enumerate(zip(given, read, strict=True))
        return [name for place, (one, other) in pairs for name in lost(one, other, where=f"{where}[{place}]")]
    return [] if given == read else [f"{where}: {given!r} became {read!r}"]


def main(paths: list[Path]) -> int:
    """How many files hold something that the types do not know."""
    register_default_plugins()
    bad = 0
    for path in paths:
        given = json.loads(path.read_text(encoding="utf-8"))
        read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(given)))
        found = lost(given, read)
        bad += bool(found)
        print(f"{path.parent.name}/{path.name}: " + (", ".join(found) or f"{len(given['panels'])} panels understood"))
    return bad


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
