"""Where the public request logs are that some tests read, if they are anywhere."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def trace_folder() -> Path | None:
    """The folder named by TONNAGE_TRACES, or the one beside the checkout; absent when neither is there."""
    named = os.environ.get("TONNAGE_TRACES")
    places = [Path(named)] if named else [ROOT.parent / "shared" / "data" / "traces"]
    return next((place for place in places if place.is_dir()), None)


def trace_file(name: str) -> Path:
    """A public log by its file's name; the test skips when it is not there."""
    folder = trace_folder()
    if folder is None or not (folder / name).exists():
        pytest.skip(f"{name} is not here: name its folder in TONNAGE_TRACES")
    return folder / name
