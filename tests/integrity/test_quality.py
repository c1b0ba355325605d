"""Every row of the quality tables: known formats, plausible scores, a source with an address, a reference beside it."""

import re

from tests.every_row import every_row

from tonnage.catalog.published import quality_scores
from tonnage.catalog.rows import DATA, table
from tonnage.domain.precision import FORMATS
from tonnage.domain.published import QualityScore

METHODS = {"full", "lora", "dora", "qlora"}
ROWS = quality_scores()


@every_row(ROWS, name=lambda s: f"{s.model} {s.variant} {s.benchmark}")
def test_a_score_is_plausible(score: QualityScore) -> None:
    variant = score.variant.removeprefix("kv ")
    assert variant in FORMATS or variant in METHODS
    assert 0 < score.score <= 100
    assert score.higher_is_better or "erplexity" in score.benchmark
    assert score.standard_error is None or 0 < score.standard_error < 10
    assert re.search(r"https://\S+, \d{4}", score.source)


def test_every_variant_stands_beside_its_reference() -> None:
    known = {(s.source, s.benchmark, s.model, s.variant) for s in ROWS}
    for s in ROWS:
        reference = "kv bf16" if s.variant.startswith("kv ") else "full" if s.variant in METHODS else "bf16"
        assert (s.source, s.benchmark, s.model, reference) in known, s


def test_every_source_is_used_and_dated() -> None:
    sources = list(table(DATA / "quality" / "sources.csv"))
    used = {row["source"] for row in table(DATA / "quality" / "scores.csv")}
    assert used == {row["source"] for row in sources}
    assert all(row["published"] and row["checked"] and row["url"].startswith("https://") for row in sources)


def test_no_format_gains_more_than_noise_explains() -> None:
    before = {(s.source, s.benchmark, s.model): s.score for s in ROWS if s.variant == "bf16"}
    for s in ROWS:
        reference = before.get((s.source, s.benchmark, s.model))
        if s.variant in FORMATS and s.variant != "bf16" and reference and s.higher_is_better:
            assert 0.8 < s.score / reference < 1.05, s
