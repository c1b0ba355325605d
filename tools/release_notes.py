"""
Notes of a release: its section of the changelog, accuracy before and after, and names that go.

    python -m tools.release_notes --since v0.1.0 [--section 0.2.0]

Prints Markdown. `--since` is the tag or commit of the release before; figures of accuracy are those that each of the
two shipped (`catalog/data/accuracy.csv`, written by `make accuracy`), so that nothing is predicted here. After
is what lies here. Without `--section` the notes are what is under Unreleased.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.stable import listed

ROOT: Final = Path(__file__).resolve().parents[1]
FIGURES: Final = "src/tonnage/catalog/data/accuracy.csv"
LEFT_OUT: Final = ("its source", "its family")
"""Figures on what no fit had seen; those in sample say less and stand in docs/accuracy.md."""
Key = tuple[str, str]


def text_of(path: str, *, at: str) -> str | None:
    """A file of the repository as of a commit; None where it was not there."""
    done = subprocess.run(
        ["git", "show", f"{at}:{path}"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
    return done.stdout if done.returncode == 0 else None


def section_of(changelog: str, name: str) -> str:
    """
    What the changelog says of a release, without its heading.

    Raises
    ------
    SystemExit
        It has no such section, or an empty one.
    """
    for part in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        if heading.strip("[] ").split("]")[0].split(" ")[0] == name and body.strip():
            return body.strip()
    sys.exit(f"release_notes: CHANGELOG.md says nothing under '{name}'")


def figures_of(table: str | None) -> dict[Key, dict[str, str]]:
    """Rows of the table of accuracy by figure and what was left out."""
    rows = csv.DictReader(io.StringIO(table or ""))
    return {(row["figure"], row["left out"]): row for row in rows if row["left out"] in LEFT_OUT}


def accuracy(before: dict[Key, dict[str, str]], after: dict[Key, dict[str, str]]) -> list[str]:
    """A row a figure: error and coverage of both releases; a dash where one had none."""
    lines = [
        "| figure | without | error before | error now | covered before | covered now | rows |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key in [*after, *(key for key in before if key not in after)]:
        then, now = before.get(key, {}), after.get(key, {})
        cells = [
            *key,
            *(one.get("mean of medians", "-") for one in (then, now)),
            *(one.get("covered, mean", "-") for one in (then, now)),
            (now or then)["numbers"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def notes(*, since: str, section: str = "Unreleased") -> str:
    """The notes as Markdown."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    before, after = figures_of(text_of(FIGURES, at=since)), figures_of((ROOT / FIGURES).read_text(encoding="utf-8"))
    lines = [section_of(changelog, section), "", "### Accuracy", ""]
    if before:
        lines += [
            f"Median errors on published measurements that no fit had seen, mean over groups; before is {since}.",
            "",
        ]
    else:
        lines += [f"{since} kept no such table, so that there is nothing to compare with.", ""]
    lines += [*accuracy(before, after), ""]
    going = listed()
    lines += [
        "### Names that go",
        "",
        *(f"- `{name}` in {one['removed']}: {one['instead']}" for name, one in going.items()),
    ]
    return "\n".join([*lines, *([] if going else ["None."]), ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", required=True)
    parser.add_argument("--section", default="Unreleased")
    print(notes(**vars(parser.parse_args())), end="")
