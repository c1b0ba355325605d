"""
The bill of materials of a wheel: what an installation of it holds, with versions, licences and who needs what.

    python tools/sbom.py dist/tonnage-0.1.0-py3-none-any.whl > dist/tonnage-0.1.0.cdx.json

CycloneDX 1.6 (ECMA-424) as JSON. The wheel says what it requires; the versions, licences and requirements below that
are of the environment that runs this, whose tests have passed. What only an extra needs is optional, and an extra that
is not installed here stands without a version. The same wheel and environment give the same text.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ITSELF: Final = "tonnage"
"""Whom an extra's own distribution may need."""
NOT_SHIPPED: Final = {"dev", "docs", "all"}
"""Extras of those who work on Tonnage, and the one that names the others again."""


def bill(wheel: Path) -> dict[str, Any]:
    """The document for one wheel."""
    content = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as packed:
        about = next(name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(packed.read(about).decode())
    name, version = canonicalize_name(fields["Name"]), fields["Version"]
    needed = list(_needed(fields.get_all("Requires-Dist") or []))
    found, edges = _reached(needed)
    digest = hashlib.sha256(content).hexdigest()
    own = f"pkg:pypi/{name}@{version}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": _licences(fields),
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": [_component(one, optional=found[one]) for one in sorted(found)],
        "dependencies": [
            {"ref": own, "dependsOn": sorted({_reference(one) for one, _, _ in needed})},
            *({"ref": _reference(one), "dependsOn": sorted(map(_reference, edges[one]))} for one in sorted(found)),
        ],
    }


def _needed(written: list[str]) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """Package, whether an extra alone asks for it, and its own extras; what another platform needs is left out."""
    for line in written:
        wanted = Requirement(line)
        asking = [part.split("'" if "'" in part else '"')[1] for part in line.split("extra ==")[1:]]
        if _is_here(wanted, asking) and canonicalize_name(wanted.name) != ITSELF and not set(asking) & NOT_SHIPPED:
            yield canonicalize_name(wanted.name), bool(asking), tuple(sorted(wanted.extras))


def _is_here(wanted: Requirement, extras: Iterable[str]) -> bool:
    return wanted.marker is None or any(wanted.marker.evaluate({"extra": one}) for one in ("", *extras))


def _reached(needed: list[tuple[str, bool, tuple[str, ...]]]) -> tuple[dict[str, bool], dict[str, list[str]]]:
    """Every package that an installation brings, whether only extras bring it, and what each one needs."""
    found: dict[str, bool] = {}
    edges: dict[str, set[str]] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = list(needed)
    while waiting:
        # Required ones first: what they bring is required, whoever else asks for it.
        waiting.sort(key=lambda item: item[1])
        name, optional, extras = waiting.pop(0)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.setdefault(name, optional)
        try:
            written = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            written = []
        inner = [one for one in map(Requirement, written) if _is_here(one, extras) and one.name != ITSELF]
        edges.setdefault(name, set()).update(canonicalize_name(one.name) for one in inner)
        waiting += [(canonicalize_name(one.name), optional, tuple(sorted(one.extras))) for one in inner]
    return found, {name: sorted(needs) for name, needs in edges.items()}


def _component(name: str, *, optional: bool) -> dict[str, Any]:
    about: dict[str, Any] = {"type": "library", "bom-ref": _reference(name), "name": name}
    about["scope"] = "optional" if optional else "required"
    try:
        fields = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return about
    return {**about, "version": fields["Version"], "purl": _reference(name), "licenses": _licences(fields)}


def _reference(name: str) -> str:
    try:
        return f"pkg:pypi/{name}@{metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return f"pkg:pypi/{name}"


def _licences(fields: Any) -> list[dict[str, Any]]:
    """An SPDX expression where the package states one; else its classifiers, or the first line of what it writes."""
    if expression := fields["License-Expression"]:
        return [{"expression": expression}]
    listed = [
        line.rpartition(" :: ")[2] for line in fields.get_all("Classifier") or [] if line.startswith("License ::")
    ]
    written = (fields["License"] or "").strip().splitlines()[:1]
    return [{"license": {"name": name[:200]}} for name in (listed or written)]


if __name__ == "__main__":
    print(json.dumps(bill(Path(sys.argv[1])), indent=2))
