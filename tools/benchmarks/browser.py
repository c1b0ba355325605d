"""
The page in a real browser: layout shift, time to the first answer and to a changed one, findings of axe, width.

    python -m tools.benchmarks.browser

Needs Playwright, axe and Chromium (the `dev` environment, Debian's chromium). One line for each width and ground; wall
times, so on a quiet machine only.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

QUESTION = (
    "/plan/serve?model=meta-llama/Llama-3.1-8B-Instruct&rate={rate}/s&traffic=chat&ttft=1+s&tpot=50+ms&quick=true"
)
WIDTHS = (390, 1280, 1440)
HEIGHT = 900
SLOW_MS = 120_000
WATCH = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@contextmanager
def server(*options: str) -> Iterator[str]:
    """The address of a server of its own, with those options of `tonnage web`."""
    command = [sys.executable, "-m", "tonnage", "web", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        line = next(line for line in process.stdout if "http://" in line)
        yield "http://" + line.split("http://")[1].split()[0]
    finally:
        process.terminate()
        process.wait()


def measured(browser: Any, base: str, *, width: int, dark: bool, rates: Iterator[int]) -> tuple[float, ...]:
    """Shift of the front page and an answer [-], seconds to the first and to a changed answer, findings, width."""
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    context.add_init_script(WATCH)
    context.set_default_timeout(SLOW_MS)
    page = context.new_page()
    page.goto(base + "/")
    page.wait_for_selector("#example-answer .answer")
    page.wait_for_timeout(500)
    front = page.evaluate("shifted")
    found = len(Axe().run(page).response["violations"])
    began = time.perf_counter()
    page.goto(base + QUESTION.format(rate=next(rates)))
    page.wait_for_selector("main .answer .facts")
    first = time.perf_counter() - began
    page.wait_for_timeout(3000)
    answer = page.evaluate("shifted")
    found += len(Axe().run(page).response["violations"])
    page.click(".chip:has(#f-rate) summary")
    changed_to = next(rates)  # no answer is asked twice: a kept one would come at once
    page.fill("#f-rate", f"{changed_to}/s")
    began = time.perf_counter()
    page.keyboard.press("Tab")
    page.wait_for_selector(f"main:not([aria-busy]) .asked:has-text('{changed_to} req/s')")
    changed = time.perf_counter() - began
    wide = page.evaluate("document.documentElement.scrollWidth") - width
    context.close()
    return front, answer, first, changed, found, wide


def main() -> None:
    """Print the table."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("no Chromium on this machine")
    rates = count(2)
    print("width ground  shift front  shift answer  first answer  changed  axe  runs off the side")
    with server() as base, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        browser.new_page().goto(
            base + QUESTION.format(rate=1), timeout=SLOW_MS
        )  # workers, byte code and fonts are warm from here on
        for width in WIDTHS:
            for dark in (False, True):
                front, answer, first, changed, found, wide = measured(
                    browser, base, width=width, dark=dark, rates=rates
                )
                ground = "dark" if dark else "light"
                times = f"{first:11.2f} s {changed:6.2f} s"
                print(f"{width:5} {ground:6} {front:12.3f} {answer:13.3f} {times} {found:4.0f} {wide:5.0f} px")


if __name__ == "__main__":
    main()
