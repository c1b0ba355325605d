"""A plan of older data is made again from that data byte for byte, and says what the data in use would change."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.shipped import DATA
from tests.sweeps import FULL
from tools.data_release import build, public_key

EXAMPLES = Path(__file__).parents[2] / "examples"
SEED, SOON = bytes(range(32)), "2099.01.01"
FEW = ["lora-7b.yaml", "video-streams.yaml"]
EVERY = [path.name for path in EXAMPLES.glob("*.yaml") if "plan" in yaml.safe_load(path.read_text("utf-8"))]
REQUESTS = sorted(EVERY) if FULL else FEW


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Surroundings in which data is installed whose prices are a tenth less, and pinned to what ships."""
    place = tmp_path_factory.mktemp("data")
    shipped = Path(str(DATA))
    for file in (shipped / "offers").rglob("*.csv"):
        path, data = place / "tables" / file.relative_to(shipped), file.read_bytes()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_cheaper(data) if path.name == "prices.csv" else data)
    release = build(place / "tables", out=place / "www", seed=SEED, version=SOON)
    own = {**os.environ, "TONNAGE_DATA_FOLDER": str(place), "TONNAGE_DATA_KEY": public_key(SEED).hex(),
           "XDG_CONFIG_HOME": str(place), "XDG_DATA_HOME": str(place)}  # fmt: skip
    assert ask("data", "update", "--from", str(release), own=own)[0] == 0
    return own


def _cheaper(data: bytes) -> bytes:
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    for row in rows:
        row["on_demand_usd_per_hour"] = f"{float(row['on_demand_usd_per_hour'] or 0) * 0.9:.6g}"
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        row | {"on_demand_usd_per_hour": ""} if row["on_demand_usd_per_hour"] == "0" else row for row in rows
    )
    return out.getvalue().encode()


def ask(*arguments: str, own: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tonnage", *arguments],
        env=own,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout or done.stderr


@pytest.mark.parametrize("name", REQUESTS)
def test_the_same_bytes_from_its_data_and_a_readable_difference_from_newer(
    name: str, own: dict[str, str], tmp_path: Path
) -> None:
    path = str(tmp_path / "plan.json")
    ask("plan", str(EXAMPLES / name), "-o", path, "--today", "2026-11-01", own={**own, "TONNAGE_DATA": "shipped"})
    pinned, said = ask("verify", path, own={**own, "TONNAGE_DATA": "shipped"})
    assert pinned == 0 and "Verified: the same plan, byte for byte." in said and "For the record: Tonnage" in said
    code, text = ask("verify", path, "--json", "--badge", str(tmp_path / "badge.svg"), own=own)
    found = json.loads(text)
    assert code == 0 and found["same"] and found["release"] == "shipped"
    assert "byte for byte, from data shipped" in found["sentence"] and "values differ" in found["sentence"]
    assert found["differences"] > 0 and found["first"] and found["data_before"] != found["data_now"]
    assert "verified" in (tmp_path / "badge.svg").read_text(encoding="utf-8")


def test_data_that_is_not_there_any_more_is_said(own: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    ask("plan", str(EXAMPLES / FEW[0]), "-o", str(path), "--today", "2026-11-01", own=own)
    plan = json.loads(path.read_text(encoding="utf-8"))
    plan["provenance"]["catalogue"]["data"] = "0" * 12
    path.write_text(json.dumps(plan), encoding="utf-8")
    code, said = ask("verify", str(path), own=own)
    assert code == 1 and "from data 000000000000, this has" in " ".join(said.split())
