"""`--plot`: the answer as a picture, whatever it is asked of."""

from pathlib import Path

import pytest
from tests.command import told

pytest.importorskip("vl_convert")

ASKED = {
    "fit": ["fit", "8B", "-a", "H100"],
    "cost": ["cost", "rent-or-buy", "H100"],
    "serve": ["plan", "serve", "8B", "--rate", "2/s", "--traffic", "chat", "--accelerator", "L40S", "--quick"],
    "finetune": ["plan", "finetune", "8B", "--tokens", "4M", "--accelerator", "L40S"],
    "infer": ["plan", "infer", "ultralytics/yolov8m", "--streams", "20", "--fps", "25"],
}


@pytest.mark.parametrize(
    ("command", "suffix"), [*((command, ".html") for command in ASKED), ("fit", ".png"), ("finetune", ".svg")]
)
def test_a_picture_is_written_beside_the_answer(tmp_path: Path, command: str, suffix: str) -> None:
    path = tmp_path / f"answer{suffix}"
    done = told(*ASKED[command], "--plot", str(path))
    assert done.exit_code == 0 and done.output
    assert path.stat().st_size > 1000
    if suffix == ".html":
        page = path.read_text()
        sentence = done.output.splitlines()[0].split(":")[0]
        assert sentence.split(" (")[0][:40] in page and "http" not in page.replace("http-equiv", "")


def test_the_schema_of_request_files_is_the_published_one() -> None:
    done = told("plan", "--schema")
    assert done.exit_code == 0
    assert done.output == (Path(__file__).parents[2] / "docs" / "request.schema.json").read_text()


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    done = told(*ASKED["fit"], "--plot", str(tmp_path / "a.gif"))
    assert done.exit_code == 2
