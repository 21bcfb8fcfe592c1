"""The chat in a real browser: two models side by side, streaming, silent and inert."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser_visits import opened_browser
from conversation_run import LANGUAGE, conversation_table
from running_server import RunningServer, running_server

import paribus as pb
from paribus.workspace import Workspace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
EVIL = "</script><script>window.planted = 1</script><img src=x onerror='window.planted = 2'>"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
KEY = "the-key"
# Each piece of an answer reaches the page a little later, however fast the machine is.
SLOW_ANSWERS = """() => {
  window.quickFetch = window.fetch;
  window.fetch = async (...request) => {
    const response = await window.quickFetch(...request);
    const pause = new TransformStream({
      async transform(piece, out) {
        await new Promise((resume) => setTimeout(resume, 100));
        out.enqueue(piece);
      },
    }, { highWaterMark: 1 }, { highWaterMark: 0 });
    return new Response(response.body.pipeThrough(pause), response);
  };
}"""
QUICK_ANSWERS = "() => { window.fetch = window.quickFetch; }"
TURNS = {"form": "conversations", "min_turns": 2, "max_turns": 3}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from opened_browser()


@pytest.fixture(scope="module")
def pair(served_runs: Path) -> Iterator[RunningServer]:
    with running_server(served_runs, ("causal", "encoder-decoder", "base")) as running:
        yield running


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of a run that was taught two languages in conversations of several turns."""
    folder = tmp_path_factory.mktemp("chatting")
    table = conversation_table()
    table["architecture"] |= {"max_length": 128}
    languages = [{**LANGUAGE, **TURNS}, {**LANGUAGE, **TURNS, "kind": "recall"}]
    table["stages"]["1"]["corpus"] = {"sources": languages, "test": 0.2}
    workspace = Workspace(folder / "runs", cache=folder / "cache", device="cpu")
    pb.train_run(table, name="chatting", workspace=workspace)
    with running_server(folder / "runs", ("chatting",)) as running:
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


def test_what_was_said_so_far_stays_when_an_answer_is_stopped(
    browser: Browser, pair: RunningServer, complaints: list[str]
) -> None:
    page = open_page(browser, pair, complaints, viewport=WIDE)
    page.fill("#tokens", "2000")
    page.select_option("#model-0", "base")
    page.select_option("#model-1", "")
    page.evaluate(SLOW_ANSWERS)
    page.fill("#message", "abc")
    page.press("#message", "Enter")
    answer = page.locator(".answer .text")
    while len(answer.inner_text()) <= 4:
        page.wait_for_timeout(20)
    assert page.locator("#send").is_hidden()
    page.click("#stop")
    page.wait_for_selector("#stop", state="hidden")
    assert page.locator(".answer .note").inner_text() == "Stopped."
    assert page.locator(".answer.is-open").count() == 0
    said = answer.inner_text()
    assert 4 < len(said) < 200
    assert pair.wait_until_idle()  # the server does not go on alone
    page.evaluate(QUICK_ANSWERS)
    send(page, "and on")
    assert answer.first.inner_text() == said
    assert page.locator(".turn").count() == 2
    assert complaints == []


def test_offers_follow_the_conversation(
    browser: Browser, chatting: RunningServer, complaints: list[str]
) -> None:
    page = open_page(browser, chatting, complaints, viewport=WIDE)
    card = chatting.models[0].card
    openings = page.locator("#offers button").all_inner_texts()
    assert openings == card["prompts"][:8]
    assert page.locator(".card").first.inner_text().count("in conversations of up to 3 questions")
    page.locator("#offers button").first.click()
    page.wait_for_selector(".turn:last-child .cost >> nth=-1")
    assert page.locator(".user").inner_text() == openings[0]
    follow_ups = page.locator("#offers button").all_inner_texts()
    assert follow_ups == [*card["follow_ups"][openings[0]], "New conversation"]
    page.locator("#offers button").first.click()
    page.wait_for_selector(".turn:nth-child(2) .cost >> nth=-1")
    assert page.locator("#offers button").all_inner_texts() == follow_ups
    page.click("#offers .anew")
    assert page.locator(".turn").count() == 0
    assert page.locator("#offers button").all_inner_texts() == openings
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
