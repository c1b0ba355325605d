"""An accuracy report as a table and as a page."""

from tonnage_accuracy.page import Page, as_markdown, as_text, page_tables, sentence, worst_first
from tonnage_accuracy.records import AccuracyReport, BlockErrors, PeerErrors, SkippedRow


def line(block: str, median: float | None, **more: object) -> BlockErrors:
    facts: dict[str, object] = {
        "kind": "serve",
        "quantity": "tpot_ms",
        "rows": 1200,
        "predicted": 1100,
        "skipped": {"bad request": 100},
        "mean_ape": median,
        "p90_ape": median,
        "bias": -0.05,
        "coverage_90": 0.9,
        "half_width": 0.2,
        **more,
    }
    return BlockErrors(block=block, median_ape=median, **facts)  # type: ignore[arg-type]


REPORT = AccuracyReport(blocks=(line("A", 0.1), line("B", 0.5), line("C", None)), rows=3600, predicted=3300, unusable=7)


def test_the_sentence_counts_what_was_predicted_and_shouts_about_crashes() -> None:
    assert sentence(REPORT) == "3,300 of 3,600 usable rows predicted, 91.7% (7 more are marked not comparable)."
    crashed = AccuracyReport(
        blocks=(), rows=1, predicted=0, crashes=(SkippedRow(id="A-1", reason="internal error: x"),)
    )
    assert "1 predictions CRASHED" in sentence(crashed)
    assert "1 x internal error: x (first A-1)" in as_text(crashed)


def test_the_worst_comes_first_and_what_was_never_predicted_before_it() -> None:
    assert [found.block for found in worst_first(REPORT.blocks)] == ["C", "B", "A"]


def test_the_table_shows_shares_as_percentages_and_absent_as_a_dash() -> None:
    text = as_text(REPORT)
    row = next(found for found in text.splitlines() if found.strip().startswith("A "))
    assert row.split() == [
        "A",
        "serve",
        "tpot_ms",
        "1,200",
        "1,100",
        "10.0",
        "%",
        "10.0",
        "%",
        "10.0",
        "%",
        "-5.0",
        "%",
        "90.0",
        "%",
        "20.0",
        "%",
    ]
    assert "100  bad request" in text
    assert next(found for found in text.splitlines() if found.strip().startswith("C ")).split()[5] == "-"


def test_latencies_below_the_knee_have_their_own_table_only_where_they_differ() -> None:
    assert "below the knee" not in as_text(
        AccuracyReport(blocks=(line("A", 0.1, below_knee=1100),), rows=1, predicted=1)
    )
    calm = line("A", 0.1, below_knee=900, below_knee_median_ape=0.04)
    text = as_text(AccuracyReport(blocks=(calm,), rows=1, predicted=1))
    assert "below the knee" in text
    assert "4.0 %" in text


def test_a_group_has_its_own_column() -> None:
    text = as_text(AccuracyReport(blocks=(line("A", 0.1, group="vllm"),), rows=1, predicted=1))
    assert "group" in text
    assert "vllm" in text


def test_tables_beside_the_page_explain_what_is_far_off_and_only_that() -> None:
    page = Page(
        overall=(line("all", 0.2),),
        baselines=(("raw roofline", (line("all", 0.4),)), ("constant", (line("all", 0.3),))),
        explanations={("A", "*"): "fine as it is", ("B", "tpot_ms"): "pipes | bubbles"},
        left_out={("B", "serve", "tpot_ms"): {"family": 0.61}, ("all", "serve", "tpot_ms"): {"family": 0.33}},
        unseen=(line("all", 0.3, coverage_90=0.88),),
        peers=(
            PeerErrors(
                engine="vllm",
                model="m",
                mode="agg",
                quantity="tpot_ms",
                rows=9,
                ours_median=0.1,
                theirs_median=0.2,
                ours_mean=0.3,
                theirs_mean=0.4,
            ),
        ),
    )
    found = page_tables(REPORT, page)
    assert found["all-blocks"][1][-2:] == ("40.0 %", "30.0 %")
    assert found["without-groups"][1][:5] == ("serve", "tpot_ms", "20.0 %", "33.0 %", "88.0 %")
    assert found["aiconfigurator"][1][-5:] == ("10.0 %", "20.0 %", "30.0 %", "40.0 %", "-")
    assert [row[0] for row in found["blocks"][1:]] == ["C", "B", "A"]
    assert [row[-2:] for row in found["blocks"][1:]] == [("-", ""), ("61.0 %", "pipes | bubbles"), ("-", "")]


def test_the_page_tells_sources_left_out_in_words() -> None:
    header = tuple("abcdefghij")
    line = ("TPOT", "its source", "14", "3,771", "11.3 %", "11.4 %", "PREM 20.3 %, 1 over 40 %", "91.2 %", "-", "34 %")
    found = {"standings": [header, line, ("TPOT", "its family", *line[2:])]}
    text = as_markdown(sentence(REPORT), found, names={"PREM": "premAI benchmarks"})
    assert "| time per output token | 14 | 3,771 | 11.3 % | 91.2 % | premAI benchmarks: 20.3 % |" in text
    assert text.count("11.3 %") == 1
