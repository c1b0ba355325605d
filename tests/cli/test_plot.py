"""`--plot`: the answer as a picture, whatever it is asked of."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli import root

pytest.importorskip("vl_convert")

ASKED = {
    "fit": ["fit", "8B", "-a", "H100"],
    "cost": ["cost", "rent-or-buy", "H100"],
}


@pytest.mark.parametrize("command", ASKED)
@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_a_picture_is_written_beside_the_answer(tmp_path: Path, command: str, suffix: str) -> None:
    path = tmp_path / f"answer{suffix}"
    done = CliRunner().invoke(root, [*ASKED[command], "--plot", str(path)])
    assert done.exit_code == 0 and done.output
    assert path.stat().st_size > 1000
    if suffix == ".html":
        page = path.read_text()
        sentence = done.output.splitlines()[0].split(":")[0]
        assert sentence.split(" (")[0][:40] in page and "http" not in page.replace("http-equiv", "")


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(root, [*ASKED["fit"], "--plot", str(tmp_path / "a.gif")])
    assert done.exit_code == 2
