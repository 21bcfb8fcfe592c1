"""The chat in a real browser: two models side by side, streaming, silent and inert."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from running_server import RunningServer, running_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIET = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
EVIL = "</script><script>window.planted = 1</script><img src=x onerror='window.planted = 2'>"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
KEY = "the-key"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pair(served_runs: Path) -> Iterator[RunningServer]:
    with running_server(served_runs, ("causal", "encoder-decoder", "base")) as running:
        yield running


@pytest.fixture
def complaints() -> list[str]:
    return []


def open_page(
    browser: Browser, server: RunningServer, complaints: list[str], **settings: Any
) -> Page:
    page = browser.new_context(**settings).new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda fault: complaints.append(str(fault)))

    def note(request: Any) -> None:
        if not request.url.startswith((server.url, "data:")):
            complaints.append(request.url)

    page.on("request", note)
    page.goto(server.url)
    page.wait_for_selector(".card")
    page.fill("#tokens", "8")
    return page


def send(page: Page, text: str) -> None:
    page.fill("#message", text)
    page.press("#message", "Enter")
    page.wait_for_selector("#stop", state="hidden")
    page.wait_for_selector(".turn:last-child .cost >> nth=-1")


def test_two_models_answer_the_same_message_side_by_side(
    browser: Browser, pair: RunningServer, complaints: list[str]
) -> None:
    page = open_page(browser, pair, complaints, viewport=WIDE)
    send(page, "a b c d e")
    send(page, "e d")
    boxes = [box.bounding_box() for box in page.query_selector_all(".turn:last-child .answer")]
    assert len(boxes) == 2
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    costs = page.locator(".turn:last-child .cost").all_inner_texts()
    assert all("from the cache" in text and "first token after" in text for text in costs)
    assert not costs[0].startswith("0 from the cache")
    assert page.locator("#turns-body tr").count() == 2
    assert page.evaluate("document.querySelector('.scroll').scrollWidth") <= WIDE["width"] - 40
    assert page.locator("#offers button").count() >= 3
    assert complaints == []


def test_what_is_said_stays_text(
    browser: Browser, pair: RunningServer, complaints: list[str]
) -> None:
    page = open_page(browser, pair, complaints, viewport=WIDE)
    page.fill("#tokens", "4")
    page.select_option("#model-0", "base")
    page.select_option("#model-1", "")
    send(page, EVIL)
    assert page.locator(".user").inner_text() == EVIL
    assert page.evaluate("window.planted") is None
    assert page.locator("#log script, #log img").count() == 0
    assert complaints == []


def test_a_full_window_drops_the_oldest_turns_and_says_so(
    browser: Browser, pair: RunningServer, complaints: list[str]
) -> None:
    page = open_page(browser, pair, complaints, viewport=WIDE)
    page.select_option("#model-1", "")
    for _ in range(4):
        send(page, "a message of some length")
    assert "the oldest 2 turns were dropped" in page.locator(".note").first.inner_text()
    faults = [text for text in complaints if "400" not in text]  # what the server refused
    assert faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_has_one_column_and_nothing_beside_it(
    browser: Browser, pair: RunningServer, complaints: list[str], scheme: str
) -> None:
    page = open_page(browser, pair, complaints, viewport=NARROW, color_scheme=scheme)
    send(page, "long" * 6)
    boxes = [box.bounding_box() for box in page.query_selector_all(".answer")]
    assert boxes[0]["x"] == boxes[1]["x"]
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(15, 19, 23)" if scheme == "dark" else "rgb(255, 255, 255)")


def test_a_browser_is_asked_for_the_key(
    browser: Browser, served_runs: Path, complaints: list[str]
) -> None:
    with running_server(served_runs, ("causal",), (KEY,)) as server:
        credentials = {"username": "me", "password": KEY}
        page = open_page(browser, server, complaints, http_credentials=credentials)
        send(page, "a b")
        assert page.locator(".answer").count() == 1
        with pytest.raises(Exception, match="ERR_INVALID_AUTH_CREDENTIALS"):
            browser.new_context().new_page().goto(server.url)
    assert complaints == []
