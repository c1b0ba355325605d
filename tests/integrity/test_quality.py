"""Every row of the quality tables: known formats, plausible scores, a source with an address, a reference beside it."""

from tests.every_row import every_row
from tests.shipped import table

METHODS = {"full", "lora", "dora", "qlora"}
ROWS = table("quality/scores.csv")
SOURCES = {row["source"]: row for row in table("quality/sources.csv")}
FORMATS = {"bf16", "fp8", "mxfp8", "nvfp4", "int8", "int8_weight", "awq", "gptq"}
QUANTS = "q2_k q3_k_s q3_k_m q4_0 q4_1 q4_k_s q4_k_m q5_0 q5_k_s q5_k_m q6_k q8_0"
FORMATS |= {f"gguf-{name}" for name in QUANTS.split()}


@every_row(ROWS, name=lambda s: f"{s['model']} {s['variant']} {s['benchmark']}")
def test_a_score_is_plausible(row: dict[str, str]) -> None:
    variant = row["variant"].removeprefix("kv ")
    assert variant in FORMATS or variant in METHODS
    assert 0 < float(row["score"]) <= 100
    assert row["better"] == "higher" or "erplexity" in row["benchmark"]
    assert not row["standard_error"] or 0 < float(row["standard_error"]) < 10
    source = SOURCES[row["source"]]
    assert source["text"] and source["url"].startswith("https://") and source["published"].startswith("20")
    assert source["checked"]


def test_every_variant_stands_beside_its_reference() -> None:
    known = {(row["source"], row["benchmark"], row["model"], row["variant"]) for row in ROWS}
    for row in ROWS:
        variant = row["variant"]
        reference = "kv bf16" if variant.startswith("kv ") else "full" if variant in METHODS else "bf16"
        assert (row["source"], row["benchmark"], row["model"], reference) in known, row


def test_every_source_is_used() -> None:
    assert {row["source"] for row in ROWS} == set(SOURCES)


def test_no_format_gains_more_than_noise_explains() -> None:
    before = {
        (row["source"], row["benchmark"], row["model"]): float(row["score"]) for row in ROWS if row["variant"] == "bf16"
    }
    for row in ROWS:
        reference = before.get((row["source"], row["benchmark"], row["model"]))
        if row["variant"] in FORMATS - {"bf16"} and reference and row["better"] == "higher":
            assert 0.8 < float(row["score"]) / reference < 1.05, row
