"""Every row that is shipped or scored names its source, and NOTICE knows that source."""

import csv
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from tests.every_row import every_row

ROOT = Path(__file__).parents[2]
TABLES = sorted((ROOT / "measurements").glob("*.csv.gz"))
PROSE = {
    "AMD ROCm developer hub": "AMD ROCm performance pages",
    "Oracle Cloud blog": "Oracle Cloud blog",
    "vLLM production-stack": "vLLM production-stack",
    "TickerTaka backend runbook": "TickerTaka backend runbook",
    'public repo doc page "GPU Test"': '"GPU Test"',
    'public repo comparison note "torchtune': "comparison of torchtune",
}
"""Sources that are no repository and no paper: how their rows begin, and how NOTICE names them."""


def notice() -> str:
    return " ".join((ROOT / "NOTICE").read_text(encoding="utf-8").split())


def rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def named(source: str) -> str:
    """What NOTICE must say for a row of this source."""
    prose = next((known for begin, known in PROSE.items() if source.startswith(begin)), None)
    paper = re.search(r"\b\d{4}\.\d{5}\b", source)
    repository = re.match(r"(?:https?://)?(?:github\.com/)?([\w.-]+/[\w.-]+)", source)
    return prose or (paper[0] if paper else repository[1] if repository else source)


@every_row(TABLES, name=lambda path: path.name)
def test_every_row_names_a_source_that_notice_knows(path: Path) -> None:
    text = notice()
    if "source" not in next(rows(path)):
        assert path.name.startswith("serving_silicon") and "silicon_sample.csv" in text
        return
    unknown = {named(row["source"]) for row in rows(path)} - {""}
    assert all(row["source"].strip() for row in rows(path))
    assert sorted(name for name in unknown if name not in text) == []


def test_mlperf_rows_say_whose_they_are() -> None:
    found = [row for row in rows(ROOT / "measurements" / "inference.csv.gz") if row["source"].startswith("mlcommons/")]
    assert len(found) > 300
    for row in found:
        # repository/division/submitter/results/system/benchmark/scenario
        match = re.match(
            r"mlcommons/inference_results_v([\d.]+) (closed|open)/([^/]+)/results/([^/]+)/([^/]+)/", row["source"]
        )
        assert match is not None, row["source"]
        version, division, submitter, system, benchmark = match.groups()
        stated = f"MLPerf v{version} {division} {submitter} {system} model={benchmark}"
        assert stated in row["notes"], row["id"]
    assert "not verified by MLCommons Association" in notice()


def test_every_dependency_ends_before_the_next_major_release() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name not in {"dev", "all"}}
    listed = [*project["dependencies"], *(one for wanted in extras.values() for one in wanted)]
    assert [one for one in listed if "<" not in one.split(";")[0]] == []
