"""The search of the documents' site, in a browser: a word that somebody meets leads to what it means."""

import functools
import http.server
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import SLOW_MS
from tests.docs.test_site import site

__all__ = ["site"]
WORDS = ("goodput", "TP", "QLoRA", "break-even")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing: a test's output holds no log of requests."""


@pytest.mark.slow
def test_search_leads_to_the_glossary(browser: Any, site: Path) -> None:
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.set_default_timeout(SLOW_MS)
        for word in WORDS:
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
            page.click(".md-search__input")
            page.keyboard.type(word)
            first = page.wait_for_selector(".md-search-result__item a")
            assert "glossary" in first.get_attribute("href"), word
        page.close()
        server.shutdown()
