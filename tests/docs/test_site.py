"""The site of documents builds without a warning, asks no other host, and its references name what there is."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.patience import PATIENCE_S

import tonnage
from tonnage.cli import root

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs", reason="the site is built with the docs extra")

LOADED = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="(?!data:)([^"]+)"|<link[^>]*\shref="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=offline(),
    )
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    return folder


def offline() -> dict[str, str]:
    """Nothing but what building needs; a proxy that nobody answers stands in the way of every fetch."""
    import os

    nowhere = "http://127.0.0.1:9"
    return {**os.environ, "NO_MKDOCS_2_WARNING": "1", "http_proxy": nowhere, "https_proxy": nowhere}


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        for found in LOADED.finditer(page.read_text(encoding="utf-8")):
            address = found[1] or found[2]
            assert not re.match(r"(https?:)?//", address), f"{page.relative_to(site)} loads {address}"


@pytest.mark.parametrize("word", ["goodput", "TP", "QLoRA", "break-even", "KV cache", "spot", "MFU"])
def test_search_finds_a_word_in_a_title_of_the_glossary(site: Path, word: str) -> None:
    """Titles weigh a thousand times as much as texts: the glossary's entry is among the first hits."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    titles = [one["title"] for one in index if one["location"].startswith("glossary/#")]
    assert any(re.search(rf"\b{word}\b", title, re.IGNORECASE) for title in titles)


def test_reference_names_every_command(site: Path) -> None:
    text = (site / "reference" / "cli" / "index.html").read_text(encoding="utf-8")
    assert all(
        f'id="tonnage-{name}"' in text or f">{name}<" in text for name in root.list_commands(click.Context(root))
    )
    assert "Sentinel" not in text


def test_reference_holds_every_question_of_the_api(site: Path) -> None:
    pytest.importorskip("litestar")
    plans = [f"plan/{name.removeprefix('plan_')}" for name in tonnage.__all__ if name.startswith("plan_")]
    others = ("fit", "local", "simulate", "advise", "explain", "diagnose", "trace")
    asked = {*plans, *(name for name in others if name in tonnage.__all__)} - {"plan/from_file"}
    text = (site / "reference" / "http" / "index.html").read_text(encoding="utf-8")
    assert all(f"POST /{path}" in text for path in asked)


def test_every_page_is_in_the_contents() -> None:
    import yaml

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text.partition("\nnav:\n")[2])))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages == set(nav)
