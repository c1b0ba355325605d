"""Tables that ship with the program, as they stand in its files."""

import csv
from importlib.resources import files

DATA = files("tonnage.catalog") / "data"


def table(name: str) -> list[dict[str, str]]:
    """The rows of one table by column, such as "quality/scores.csv"; as many cells in each as there are columns."""
    rows = list(csv.DictReader(DATA.joinpath(name).read_text(encoding="utf-8").splitlines(keepends=True), strict=True))
    assert rows and all(None not in row and None not in row.values() for row in rows), name
    return rows


def tables(folder: str) -> dict[str, list[dict[str, str]]]:
    """Every table of a folder, by its name."""
    names = sorted(path.name for path in DATA.joinpath(folder).iterdir() if path.name.endswith(".csv"))
    return {name.removesuffix(".csv"): table(f"{folder}/{name}") for name in names}
