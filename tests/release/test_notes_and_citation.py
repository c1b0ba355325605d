"""Release notes hold what the changelog says and accuracy before and after; the citation names this release."""

from pathlib import Path

import pytest
import yaml
from tools import release_notes

from tonnage import __version__

ROOT = Path(__file__).parents[2]
LOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- This.\n\n## [0.1.0] - 2026-11-21\n\n- That.\n\n## 0.0.9\n\n"
HEAD = (
    "figure,left out,groups,numbers,mean of medians,median of medians,worst group,"
    '"covered, mean","covered, least",± width\n'
)
THEN = HEAD + "TTFT,its source,7,90,40.6 %,-,-,86.3 %,-,-\nTTFT,nothing (in sample),7,90,9 %,-,-,99 %,-,-\n"
NOW = HEAD + 'TTFT,its source,7,"2,851",35.1 %,-,-,85.6 %,-,-\nTPOT,its family,7,12,13.2 %,-,-,91.1 %,-,-\n'


def test_a_section_is_found_by_its_name_and_an_empty_one_is_refused() -> None:
    assert release_notes.section_of(LOG, "Unreleased") == "### Added\n\n- This."
    assert release_notes.section_of(LOG, "0.1.0") == "- That."
    for name in ("0.0.9", "0.3.0"):
        with pytest.raises(SystemExit, match=f"says nothing under '{name}'"):
            release_notes.section_of(LOG, name)


def test_accuracy_stands_beside_that_of_the_release_before() -> None:
    lines = release_notes.accuracy(release_notes.figures_of(THEN), release_notes.figures_of(NOW))
    assert lines[2:] == [
        "| TTFT | its source | 40.6 % | 35.1 % | 86.3 % | 85.6 % | 2,851 |",
        "| TPOT | its family | - | 13.2 % | - | 91.1 % | 12 |",
    ]
    assert release_notes.figures_of(None) == {}


def test_notes_of_this_checkout_name_every_figure_and_say_what_cannot_be_compared() -> None:
    said = release_notes.notes(since="no-such-tag")
    assert "no-such-tag kept no such table" in said and "### Names that go" in said
    kept = release_notes.figures_of((ROOT / release_notes.FIGURES).read_text(encoding="utf-8"))
    assert kept and all(f"| {figure} | {left_out} |" in said for figure, left_out in kept)


def test_the_citation_names_this_release() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (str(cited["version"]), cited["license"]) == (__version__, "Apache-2.0")
    assert {"cff-version", "message", "title", "authors", "abstract"} <= set(cited)
