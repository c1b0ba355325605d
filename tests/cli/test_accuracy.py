"""`tonnage accuracy`: the table, the JSON, the rows file, the page; every row accounted for."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.command import told

COLUMNS = ["id", "block", "quantity", "measured", "predicted", "low", "high", "basis", "reason"]
FIELDS = {
    "block", "kind", "quantity", "rows", "predicted", "skipped", "median_ape", "mean_ape", "p90_ape", "bias",
    "coverage_90", "half_width",
}  # fmt: skip

INFERENCE = """\
id,block,kind,model_id,accelerator_id,num_accel,engine,weight_precision,act_precision,kv_precision,load,phase,\
concurrency_or_batch,isl_tokens,osl_tokens,e2e_ms,output_tokens_per_s_total,usable
A-1,A,llm,meta-llama/Meta-Llama-3-8B,a100-sxm4-80gb,1,vllm,fp16,fp16,fp16,static_batch,both,16,1024,128,3000,680,1
A-2,A,llm,meta-llama/Meta-Llama-3-8B,no-such-part,1,vllm,fp16,fp16,fp16,static_batch,both,16,1024,128,3000,680,1
A-3,A,llm,meta-llama/Meta-Llama-3-8B,a100-sxm4-80gb,1,vllm,fp16,fp16,fp16,static_batch,both,16,1024,128,3000,680,0
B-1,B,llm,meta-llama/Meta-Llama-3-8B,h100-sxm5-80gb,1,sglang,fp16,fp16,fp16,closed_loop,both,x,1024,128,3000,680,1
"""
TRAINING = """\
id,block,method,model_id,accelerator_id,num_accel,act_precision,seq_len,micro_batch,global_batch,outcome,usable_for,\
step_time_s_eff,usable
C-1,C,pretrain,meta-llama/Meta-Llama-3-8B,h100-sxm5-80gb,8,bf16,8192,1,128,ok,speed,12,1
C-2,C,full-ft,meta-llama/Llama-2-70b-hf,t4,1,fp16,2048,1,1,oom,,,0
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [tmp_path / "one", tmp_path / "two.csv"]
    for path, content in zip(paths, (INFERENCE, TRAINING), strict=True):
        path.write_text(content, encoding="utf-8")
    return [str(path) for path in paths]


def run(*args: str) -> Result:
    return told("accuracy", *args)


def document(*args: str) -> dict[str, Any]:
    result = run(*args, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_report_has_the_published_names_and_counts_every_row(files: list[str]) -> None:
    found = document(*files)
    assert found["schema"] == "tonnage.accuracy/1"
    lines = {(line["block"], line["quantity"]): line for line in found["blocks"]}
    assert all(set(line) >= FIELDS for line in found["blocks"])
    assert set(lines) == {
        ("A", "e2e_ms"),
        ("A", "output_tokens_per_s"),
        ("B", "e2e_ms"),
        ("B", "output_tokens_per_s"),
        ("C", "step_time_s"),
        ("C", "fits"),
    }
    first = lines["A", "e2e_ms"]
    assert (first["kind"], first["rows"], first["predicted"]) == ("serve", 2, 1)
    assert first["skipped"] == {"not in the catalogue": 1}
    assert first["median_ape"] >= 0
    assert lines["B", "e2e_ms"]["skipped"] == {"bad cell concurrency_or_batch": 1}
    assert lines["B", "e2e_ms"]["median_ape"] is None
    assert lines["C", "fits"]["mean_ape"] == 0.0
    assert (found["rows"], found["predicted"], found["unusable"]) == (4, 2, 2)
    assert (found["out_of_memory"], found["out_of_memory_found"]) == (1, 1)


def test_the_rows_file_has_a_line_for_each_row_and_quantity(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    assert run(*files, "--rows", str(out)).exit_code == 0
    with out.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        assert reader.fieldnames == COLUMNS
    assert [(row["id"], row["quantity"]) for row in rows] == [
        ("A-1", "e2e_ms"),
        ("A-1", "output_tokens_per_s"),
        ("A-2", "e2e_ms"),
        ("A-2", "output_tokens_per_s"),
        ("B-1", "e2e_ms"),
        ("B-1", "output_tokens_per_s"),
        ("C-1", "step_time_s"),
        ("C-1", "fits"),
    ]
    assert float(rows[0]["measured"]) == 3000
    assert float(rows[0]["low"]) < float(rows[0]["predicted"]) < float(rows[0]["high"])
    assert (rows[0]["reason"], rows[2]["predicted"]) == ("", "")
    assert rows[2]["reason"].startswith("not in the catalogue: no accelerator 'no-such-part'")


def test_the_table_says_what_was_not_predicted(files: list[str]) -> None:
    result = run(*files)
    assert result.exit_code == 0
    assert result.stdout.startswith("2 of 4 usable rows predicted, 50.0% (2 more are marked not comparable).")
    assert "not in the catalogue" in result.stdout
    assert "Runs that did not fit: 1 of 1 predicted so." in result.stdout


def test_a_terminal_gets_the_first_screen(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(*files).stdout
    monkeypatch.setattr("tonnage_accuracy.command.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    lines = run(*files).stdout.splitlines()
    assert lines[0] == whole.splitlines()[0]
    assert len(lines) <= 24 and max(map(len, lines)) <= 100 and "--why" in lines[-1]
    assert any("median error" in line for line in lines) and any("not in the catalogue" in line for line in lines)
    assert run(*files, "--why").stdout == whole


def test_blocks_can_be_chosen_split_and_limited(files: list[str]) -> None:
    assert {line["block"] for line in document(*files, "--block", "A", "--block", "C")["blocks"]} == {"A", "C"}
    split = document(*files, "--by", "engine")["blocks"]
    assert {(line["block"], line["group"]) for line in split} == {("A", "vllm"), ("B", "sglang"), ("C", "not stated")}
    assert document(*files, "--limit", "1")["rows"] == 3
    result = run(*files, "--block", "AA")
    assert result.exit_code == 2
    assert "no block 'AA'; did you mean 'A'?" in result.stderr


def test_tables_beside_the_page_rank_the_worst_first_and_explain(files: list[str], tmp_path: Path) -> None:
    page = tmp_path / "accuracy.md"
    (tmp_path / "accuracy.explanations.csv").write_text(
        "block,quantity,explanation\nB,*,Nobody knows the load.\n", encoding="utf-8"
    )
    (tmp_path / "accuracy.left_out.csv").write_text(
        "block,kind,quantity,accelerator,family,engine,source\nA,serve,e2e_ms,0.123,,0.2,0.3\nB,serve,e2e_ms,,0.5,,\n",
        encoding="utf-8",
    )
    assert run(*files, "--markdown", str(page)).exit_code == 0
    assert "2 of 4 usable rows predicted" in page.read_text(encoding="utf-8")
    with (tmp_path / "accuracy" / "blocks.csv").open(encoding="utf-8", newline="") as file:
        blocks = list(csv.DictReader(file))
    assert [line["block"] for line in blocks][:2] == ["B", "B"]
    assert {line["why"] for line in blocks if line["block"] == "B"} == {"Nobody knows the load."}
    first = next(line for line in blocks if (line["block"], line["quantity"]) == ("A", "e2e_ms"))
    left = [first[f"without its {kind}"] for kind in ("accelerator", "family", "engine", "source")]
    assert left == ["12.3 %", "-", "20.0 %", "30.0 %"]
    with (tmp_path / "accuracy" / "all-blocks.csv").open(encoding="utf-8", newline="") as file:
        assert "raw roofline" in file.readline()


def test_left_out_scores_need_their_table(files: list[str]) -> None:
    result = run(*files, "--leave-out", "family")
    assert result.exit_code == 2
    assert "tools/calibration/left_out.py" in result.stderr


def test_a_bad_file_ends_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    for args in ([str(path)], [str(tmp_path / "none.csv")], [str(tmp_path)]):
        result = run(*args)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("tonnage: ")
        assert result.stderr.count("\n") == 1


@pytest.mark.measured
def test_the_shipped_measurements_are_nearly_all_predicted() -> None:
    found = document("--limit", "12")
    assert found["predicted"] / found["rows"] >= 0.92
    assert found["crashes"] == []
    assert len({line["block"] for line in found["blocks"]}) > 30


def test_another_program_is_scored_on_the_same_rows(files: list[str]) -> None:
    peer = Path(__file__).parents[2] / "tools" / "peers" / "roofline.py"
    found = document(files[0], "--predictor", f"{sys.executable} {peer}")
    assert found["predictor"] == "raw roofline"
    lines = {(line["block"], line["quantity"]): line for line in found["blocks"]}
    assert (lines["A", "e2e_ms"]["rows"], lines["A", "e2e_ms"]["predicted"]) == (2, 1)
    assert lines["A", "e2e_ms"]["skipped"] == {"refused": 1}
    assert lines["A", "e2e_ms"]["median_ape"] > 0.3, "nobody reaches the data sheet"


@pytest.mark.parametrize("more", [("--leave-out", "source"), ("--layouts",), ("--markdown", "x.md")])
def test_another_program_has_no_left_out_fits_of_ours(files: list[str], more: tuple[str, ...]) -> None:
    result = run(*files, "--predictor", "cat", *more)
    assert result.exit_code == 2
    assert "--predictor goes with neither" in result.stderr


def test_a_program_that_repeats_its_questions_is_told_so_in_one_sentence(files: list[str]) -> None:
    result = run(*files, "--predictor", "cat")
    assert result.exit_code == 2
    assert "line 1 of the predictor's output has neither answers nor refused" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_entrant_of_kept_answers_says_what_it_has_read(tmp_path: Path, files: list[str]) -> None:
    kept = tmp_path / "tool.csv"
    kept.write_text("id,e2e_ms,note\nA-1,3000,\nA-2,,cannot\n", encoding="utf-8")
    peer = Path(__file__).parents[2] / "tools" / "peers" / "kept.py"
    found = document(files[0], "--predictor", f"{sys.executable} {peer} {kept}")
    lines = {(line["block"], line["quantity"]): line for line in found["blocks"]}
    assert found["predictor"] == "tool"
    assert lines["A", "e2e_ms"]["median_ape"] == 0.0
    assert lines["A", "e2e_ms"]["skipped"] == {"refused": 1}


class Hidden:
    """An installation without the scoring package."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "tonnage_accuracy":
            raise ModuleNotFoundError(name=name)


def test_without_the_scoring_package_one_sentence_says_how_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tonnage.cli.accuracy", "tonnage_accuracy", "tonnage_accuracy.command"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    result = run("--help")
    assert result.exit_code == 2
    assert "pip install 'tonnage[accuracy]'" in result.stderr and result.stderr.count("\n") == 1
    assert "accuracy" in told("--help").stdout
