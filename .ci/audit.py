"""Which installed packages have known vulnerabilities, and of how many anything was learnt.

`python .ci/audit.py PINS PIP_AUDIT` asks pip-audit, which asks its server. `python .ci/audit.py PINS --advisories
FOLDER` reads a copy of the Python Packaging Advisory Database (OSV entries as YAML or JSON) and asks nobody. A server
that does not know a package says nothing about it, and pip-audit then ends well all the same: here such a package is
counted as not audited, and an audit that covers less than nine packages in ten fails. Silence is no clean bill.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import Version

COVERED = 0.9
"""Least share of the packages."""

Audit = dict[str, list[str] | None]
"""By name==version: identifiers of its vulnerabilities; None where nobody knew the package."""


def asked(pins: list[str], file: Path, pip_audit: str) -> Audit:
    """What pip-audit's server says."""
    options = ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    reply = subprocess.run([pip_audit, "-r", str(file), *options], capture_output=True, text=True, check=False)
    if not reply.stdout.strip():
        sys.exit(f"audit: pip-audit gave no answer: {reply.stderr.strip().splitlines()[-1:]}")
    return learnt(pins, json.loads(reply.stdout))


def learnt(pins: list[str], answer: dict[str, Any]) -> Audit:
    """By package, from pip-audit's answer."""
    known = {
        canonicalize_name(row["name"]): [vulnerability["id"] for vulnerability in row["vulns"]]
        for row in answer["dependencies"]
        if "skip_reason" not in row
    }
    return {pin: known.get(canonicalize_name(pin.partition("==")[0])) for pin in pins}


def looked_up(pins: list[str], folder: Path) -> Audit:
    """What a copy of the advisories says; it is complete, so that a package it does not name has none."""
    found: dict[str, list[str]] = {pin: [] for pin in pins}
    by_name = {canonicalize_name(pin.partition("==")[0]): pin for pin in pins}
    read = 0
    for file in (*folder.rglob("*.yaml"), *folder.rglob("*.json")):
        entry = yaml.safe_load(file.read_text(encoding="utf-8"))
        if not isinstance(entry, dict) or "affected" not in entry:
            continue
        read += 1
        for affected in () if "withdrawn" in entry else entry["affected"]:
            pin = by_name.get(canonicalize_name(affected["package"]["name"]))
            if pin is not None and _hit(Version(pin.partition("==")[2]), affected):
                found[pin].append(str(entry["id"]))
    return dict.fromkeys(pins) if read == 0 else dict(found)


def _hit(version: Version, affected: dict[str, Any]) -> bool:
    if str(version) in affected.get("versions", ()):
        return True
    return any(
        Version(since) <= version and (until is None or version < until)
        for row in affected.get("ranges", ())
        if row["type"] == "ECOSYSTEM"
        for since, until in _spans(row["events"])
    )


def _spans(events: list[dict[str, str]]) -> Iterator[tuple[str, Version | None]]:
    since: str | None = None
    for event in events:
        if "introduced" in event:
            since = event["introduced"]
        elif "fixed" in event and since is not None:
            yield since, Version(event["fixed"])
            since = None
    if since is not None:
        yield since, None


def told(audit: Audit) -> bool:
    """Print what was found; whether all is well."""
    audited = {pin: found for pin, found in audit.items() if found is not None}
    hit = {pin: found for pin, found in audited.items() if found}
    print(f"audited {len(audited)} of {len(audit)} packages; {len(hit)} of them with known vulnerabilities")
    for pin, found in hit.items():
        print(f"  {pin}: {', '.join(found)}")
    unknown = [pin for pin in audit if pin not in audited]
    if unknown:
        print(f"  not audited, for nobody knew them: {', '.join(unknown)}")
    enough = len(audited) >= COVERED * len(audit)
    if not enough:
        print("  that is too few to call it an audit: ask from where pip-audit's server can be reached, or name")
        print("  a copy of the Python Packaging Advisory Database: make audit ADVISORIES=FOLDER")
    return enough and not hit


def main() -> None:
    """Exit code 1: vulnerabilities, or too few packages audited."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pins", type=Path)
    parser.add_argument("pip_audit", nargs="?")
    parser.add_argument("--advisories", type=Path)
    given = parser.parse_args()
    pins = [line for line in given.pins.read_text(encoding="utf-8").split() if "==" in line]
    audit = looked_up(pins, given.advisories) if given.advisories else asked(pins, given.pins, given.pip_audit)
    sys.exit(not told(audit))


if __name__ == "__main__":
    main()
