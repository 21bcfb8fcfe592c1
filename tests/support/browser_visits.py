"""Pages that a real browser opens, with all they say and all they ask for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIET = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
DRAWN = "[...document.querySelectorAll('.plot')].every(plot => plot.dataset.drawn === 'yes')"


def opened_browser() -> Iterator[Browser]:
    """A browser, closed afterwards; the test is skipped where playwright is not installed."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


class Visit:
    """A page that was opened, all it said and all it asked for."""

    def __init__(self, browser: Browser, path: Path, width: int = 1280, scheme: Any = "light"):
        self.page: Page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda fault: self.said.append(str(fault)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function(DRAWN)

    def hover(self, marks: str) -> str:
        """What is shown over the last of some marks."""
        self.page.locator(marks).last.hover(force=True)
        tooltip = self.page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for(state="visible")
        return tooltip.inner_text()
