"""What is offered for an option starts it: the same files on the page, over HTTP, on the command line and over MCP."""

import html
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command import told
from tests.sweeps import FULL

from tonnage.catalog import NOTHING
from tonnage.web.tool_results import call

httpx = pytest.importorskip("httpx")

EXAMPLES = Path(__file__).parents[2] / "examples"
STARTED = {"serve", "batch", "train", "finetune", "rl"}
"""Kinds of plan that have targets."""
SAMPLE = ("finetune-13b", "grpo-30b", "nightly-batch", "pretrain-8b")
FIRST = 10
ASKED = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(EXAMPLES.glob("*.yaml"))}
TRIED = [name for name, asked in ASKED.items() if asked.get("plan") in STARTED and (FULL or name in SAMPLE)]


def folder_of(path: Path) -> dict[str, str]:
    """The texts below it, by their names."""
    found = (file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.read_bytes().decode() for file in found}


@pytest.mark.parametrize("name", TRIED)
def test_every_offered_target_gives_its_files_on_every_face(name: str, page_address: str, tmp_path: Path) -> None:
    fields = {key: value for key, value in ASKED[name].items() if key != "plan"}
    with httpx.Client(base_url=page_address, timeout=600.0) as client:
        asked = client.post(f"/plan/{ASKED[name]['plan']}", json=fields)
        assert asked.status_code == 200, asked.text
        key, plan = asked.headers["content-location"].rpartition("/")[2].removesuffix(".json"), tmp_path / "plan.json"
        plan.write_bytes(asked.content)
        ranks = range(1, min(FIRST, len(asked.json()["options"])) + 1)
        for rank in ranks if FULL else {ranks[0], ranks[-1]}:
            _same_files(client, key, plan, rank=rank, folder=tmp_path / str(rank))


def _same_files(client: Any, key: str, plan: Path, *, rank: int, folder: Path) -> None:
    """Of one option: what is offered, as JSON, archive, folder of the command line, MCP's result and pages."""
    address, json = f"/export/{key}", {"accept": "application/json"}
    found = client.get(address, params={"option": rank}, headers=json).json()
    listed = {"plan_file": str(plan), "target": "list", "option": rank}
    assert call("export_plan", listed, additions=NOTHING).data == {
        "files": {}, **found, "ready": tuple(found["ready"])
    }  # fmt: skip
    lines = told("export", plan, "--to", "list", "--rank", rank).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*found["ready"], *found["lacking"], *found["refused"]]
    for target, why in found["refused"].items():
        assert any(line.startswith(target) and line.endswith(why) for line in lines), target
    if found["lacking"] or not found["ready"]:
        refused = told("export", plan, "--to", "all", "--rank", rank)
        assert refused.exit_code == 2 and found["refused"] | found["lacking"], found
        return
    packed = client.get(address, params={"option": rank, "archive": "true"})
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        every = {file: archive.read(file).decode() for file in archive.namelist()}
    assert {file.partition("/")[0] for file in every} == {*found["ready"], "README.txt"}
    assert client.get(address, params={"option": rank, "to": "all"}, headers=json).json()["files"] == every
    assert told("export", plan, "--to", "all", "--rank", rank, "-o", folder).exit_code == 0
    assert folder_of(folder) == every
    assert call("export_plan", {"plan_file": str(plan), "target": "all", "option": rank}, additions=NOTHING).data == {
        "files": every
    }
    for target in found["ready"]:
        shown = client.get(address, params={"option": rank, "to": target}, headers={"accept": "text/html"})
        written = [text for file, text in every.items() if file.startswith(f"{target}/")]
        assert shown.status_code == 200 and all(text.strip() in html.unescape(shown.text) for text in written), target


def test_an_archive_is_the_same_for_the_same_plan_and_never_overwrites(tmp_path: Path) -> None:
    plan, first, second = (tmp_path / name for name in ("plan.json", "first.zip", "second.zip"))
    asked = ("meta-llama/Llama-3.1-8B", "--method", "lora", "--tokens", "4M", "-a", "L40S", "-o", plan)
    assert told("plan", "finetune", *asked).exit_code == 0
    for path in (first, second):
        assert told("export", plan, "--to", "all", "-o", path).exit_code == 0
    assert first.read_bytes() == second.read_bytes()
    refused = told("export", plan, "--to", "all", "-o", first)
    assert refused.exit_code == 2 and "--force" in refused.stderr
    assert told("export", plan, "--to", "trl", "-o", first, "--force").exit_code == 0
    with zipfile.ZipFile(first) as archive:
        assert set(archive.namelist()) == {"sft.yaml", "accelerate.yaml", "launch.sh"}
