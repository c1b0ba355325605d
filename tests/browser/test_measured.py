"""Somebody whose own measurements moved an answer reads so on its page, and looks at the answer without them."""

from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import SLOW_MS
from tests.web.conftest import serving

from tonnage.catalog import Additions
from tonnage.catalog.additions import save_calibration
from tonnage.domain.calibration import Calibration, Stretch
from tonnage.web import jobs
from tonnage.web.records import Limits

MODEL = "meta-llama/Meta-Llama-3.1-8B"
QUESTION = f"/plan/serve?model={MODEL}&rate=4/s&traffic=chat&tpot=50+ms&accelerator=H100&quick=true"


@pytest.mark.parametrize("width", [390, 1280])
def test_an_answer_says_what_moved_it_and_links_to_the_one_without(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(jobs, "NICE", 0)  # beside other tests a polite worker would get no time at all
    own = Calibration(
        accelerator="h100-sxm5-80gb", engine="vllm", stretch=Stretch(memory=1.3), models=(MODEL,), points=3
    )
    save_calibration(own, tmp_path / "own.toml")
    with serving(Limits(question_s=300.0), additions=Additions(paths=(str(tmp_path),))) as address:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(SLOW_MS)
        page.goto(address + QUESTION)
        told = page.locator(".answer .measured")
        assert told.inner_text().startswith("Your measurements: TPOT x1.")
        assert "(H100 SXM5 80 GB, vLLM, 3 points)" in told.inner_text() and "--" not in told.inner_text()
        box = told.bounding_box()
        assert box["y"] < 900 and box["x"] + box["width"] <= width
        slow = page.inner_text(".mrow .val b")
        page.get_by_role("link", name="Answer without them").click()
        page.wait_for_selector(".answer .sentence", state="attached")
        assert page.locator(".measured").count() == 0 and "calibration=none" in page.url
        assert float(page.inner_text(".mrow:not(.titles) .val b").split()[0]) < float(slow.split()[0])
        page.close()
