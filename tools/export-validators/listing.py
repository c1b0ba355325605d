"""Options of a program as `src/tonnage/export/data/options` keeps them."""

import argparse
import json
from pathlib import Path


def of_parser(parser: argparse.ArgumentParser) -> dict[str, list[str] | None]:
    """Long options and their choices."""
    return {
        name: sorted(map(str, action.choices)) if action.choices else None
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--")
    }


def write(target: str, *, engine: str, version: str, how: str, options: dict, **more: object) -> None:
    """The file; `how` says which script read what."""
    listed = {"engine": engine, "version": version, "source": f"tools/export-validators/{how}", "options": options}
    Path(target).write_text(json.dumps(listed | more, indent=0, separators=(",", ":")) + "\n", encoding="utf-8")
