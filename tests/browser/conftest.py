"""A real browser for tests: Debian's Chromium, driven by Playwright; skipped, saying why, where either is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from tests.web.conftest import page_address

__all__ = ["page_address"]

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SLOW_MS = 300_000
"""A busy machine is no fault of the page."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine")
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any, page_address: str) -> Iterator[Any]:
    """
    `visit(path, width=…, dark=…)` opens a page; at the end nothing may have left the machine or complained.

    `refused`: an answer with status 400 is expected. `held`: takes what the page asks about the progress of an answer,
    which stays as it is until each is let go.
    """
    seen: list[Any] = []
    troubles: list[str] = []

    def visit(
        path: str,
        *,
        width: int = 1280,
        dark: bool = False,
        scripts: bool = True,
        refused: bool = False,
        held: list[Any] | None = None,
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        context.set_default_timeout(SLOW_MS)
        page = context.new_page()
        page.on(
            "console",
            lambda message: (
                troubles.append(f"{message.type}: {message.text}")
                if message.type in ("error", "warning") and not (refused and "status of 400" in message.text)
                else None
            ),
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                troubles.append(f"left the machine: {asked.url}")
                if not asked.url.startswith((page_address, "data:", "blob:"))
                else None
            ),
        )
        if held is not None:

            def hold(asked: Any) -> None:
                held.append(asked)

            page.route("**/progress/**", hold)
        page.goto(page_address + path)
        seen.append(page)
        return page

    yield visit
    for page in seen:
        page.context.close()
    assert not troubles
