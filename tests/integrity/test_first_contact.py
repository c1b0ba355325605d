"""First predictions are kept as they were said: the errors follow from them, and no line is rewritten."""

import hashlib

from tonnage.web.pages import FIRST_CONTACT, front_page
from tonnage_accuracy.first_contact import LINES, PREDICTIONS, means, scored, shown, wave_of
from tonnage_accuracy.rows import usable_rows
from tonnage_accuracy.tables import read_table

KEPT = {
    111: "59f5f0fde46adafbb8671e727ba6ef5d50e148ac34211f18980ba6268589caad",
    130: "90e5d8211bedabd96cf608234cb2d955424358c2626105bf8efa3fa2d0e97cfe",
    186: "2e7cc132879face658274ec8b3299242290b179ee108c399016abac1ed10eab8",
    261: "0a4cd743460de8ff837725db044057bd2c56660903d7022cf306e1c209ff1cc7",
}
"""Lines of the file, its header among them -> SHA-256 of them all. A release adds lines, and a line here."""


def test_no_line_of_a_first_prediction_was_rewritten() -> None:
    lines = LINES.read_text(encoding="utf-8").splitlines(keepends=True)
    for count, digest in KEPT.items():
        assert hashlib.sha256("".join(lines[:count]).encode()).hexdigest() == digest, f"the first {count} lines"
    assert len(lines) == max(KEPT), "new lines need their digest here"


def test_errors_are_those_of_the_predictions_that_are_kept() -> None:
    rows = usable_rows(LINES.parents[1], "inference_3", "serving_silicon_3", "training_3")
    said = {(line["release"], line["wave"], line["source"], line["quantity"]): line for line in read_table(LINES)}
    found = [line for path in sorted(PREDICTIONS.glob("*.csv.gz")) for line in scored(path, rows)]
    assert found
    for line in found:
        kept = said[str(line["release"]), str(line["wave"]), str(line["source"]), str(line["quantity"])]
        for name in ("rows", "median_error", "bias", "covered"):
            assert str(line[name]) == kept[name], (line["source"], line["quantity"], name)


def test_predictions_hold_nothing_that_was_measured() -> None:
    for path in PREDICTIONS.glob("*.csv.gz"):
        assert set(next(read_table(path))) == {"id", "quantity", "predicted", "low", "high", "reason"}


def test_waves_are_whole_sources_and_equal() -> None:
    found = wave_of([f"source {place}" for place in range(21)])
    assert sorted(found.values()) == [1] * 7 + [2] * 7 + [3] * 7


def test_the_readme_says_what_the_last_whole_first_contact_was() -> None:
    found = dict(means(read_table(LINES)))["3", "", "8156d57e"]
    told = " ".join((LINES.parents[1] / "README.md").read_text(encoding="utf-8").split())
    errors = [round(100 * found[name].error) for name in ("TPOT", "TTFT", "step", "memory")]
    held = [round(100 * (found[name].covered or 0.0)) for name in ("TPOT", "TTFT", "step", "memory")]
    assert (
        "TPOT was off by {} %, TTFT by {} %, training steps by {} % and their peak memory by {} %".format(*errors)
        in told
    )
    assert "the 90 % intervals held {}, {}, {} and {} % of them".format(*held) in told


def test_the_page_shows_the_figures_of_the_readme() -> None:
    root = LINES.parents[1]
    every = read_table(root / "src/tonnage/catalog/data/accuracy.csv")
    kept = [line for line in every if line["left out"] == "first contact"]
    assert [tuple(line.values()) for line in kept] == shown(), "run `make accuracy`, which writes both"
    told = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    words = {"TPOT": "TPOT was off by {}", "TTFT": "TTFT by {}", "training step": "training steps by {}",
             "peak memory": "memory by {}"}  # fmt: skip
    error = {line["figure"]: line["mean of medians"] for line in kept}
    assert all(text.format(error[figure]) in told for figure, text in words.items())
    front = front_page()
    assert FIRST_CONTACT in told and FIRST_CONTACT in front
    assert all(f">{text}<" in front for text in error.values())
