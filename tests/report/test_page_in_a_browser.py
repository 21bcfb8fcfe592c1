"""The page in a real browser: drawn under its policy, silent, inert, and within reach of a
keyboard.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser_visits import Visit, opened_browser
from handmade_study import GAINS, MANY_ARMS, make_study, sweep_record

from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
EVIL = "</script><script>window.planted = 1</script><img src=x onerror='window.planted = 2'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from opened_browser()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("plain")
    return written(root, make_study(root / "runs", rates=sweep_record(list(GAINS))))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    return written(
        root, make_study(root / "runs", gains=MANY_ARMS, rates=sweep_record(list(MANY_ARMS)))
    )


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("planted")
    gains = {"causal": 0.0, f"prefix {EVIL}": 0.004, f"hidden {EVIL}": -0.5}
    study = make_study(
        root / "runs",
        gains=gains,
        prompt=f"prompt {EVIL}",
        text=f"text {EVIL}",
        changes={"name": EVIL},
    )
    return written(root, study)


def written(root: Path, study: Any) -> Path:
    path = root / "report.html"
    path.write_text(render_page(gather_report_data(study)), "utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_plot_is_drawn_and_nothing_is_said_or_asked(browser, plain, width, scheme):
    visit = Visit(browser, plain, width, scheme)
    assert visit.said == []
    assert visit.asked == [plain.as_uri()]
    assert visit.page.locator(".plot svg").count() == visit.page.locator(".plot").count() == 6
    assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("width", [1280, 390])
def test_many_arms_are_named_in_full_and_their_verdicts_are_not_cut(browser, many, width):
    visit = Visit(browser, many, width)
    assert visit.said == []
    assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    table = "document.querySelector('.glance').getBoundingClientRect()"
    assert visit.page.evaluate(f"{table}.left >= 0 && {table}.right <= window.innerWidth")
    assert visit.page.get_by_role("rowheader", name="prefix against causal").count() == 1
    for plot in ("learning", "rates"):
        names = visit.page.locator(f"#plot-{plot} .role-legend-label text")
        assert names.all_text_contents() == list(MANY_ARMS)
        boxes = [names.nth(place).bounding_box() for place in range(names.count())]
        room = visit.page.locator(f"#plot-{plot} svg").bounding_box()
        assert room is not None
        for box in boxes:
            assert box is not None
            assert box["x"] + box["width"] <= room["x"] + room["width"]
            assert box["y"] >= room["y"]


def test_planted_scripts_stay_text(browser, planted):
    visit = Visit(browser, planted)
    assert visit.said == []
    assert visit.asked == [planted.as_uri()]
    assert visit.page.evaluate("window.planted === undefined")
    assert visit.page.locator("img").count() == 0
    assert visit.page.locator("dd", has_text=EVIL).count() > 0
    assert EVIL in visit.page.title()


def test_hovering_shows_the_run_as_text(browser, planted):
    visit = Visit(browser, planted)
    point = visit.page.locator("#plot-effect .mark-symbol path").last
    point.hover(force=True)
    tooltip = visit.page.locator("#vg-tooltip-element")
    tooltip.wait_for(state="visible")
    assert "baseline run" in tooltip.inner_text()
    assert EVIL in tooltip.inner_text()
    assert visit.page.evaluate("window.planted === undefined")
    assert visit.said == []


def test_a_script_from_elsewhere_is_not_run(browser, plain):
    visit = Visit(browser, plain)
    visit.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.planted = 3';"
        " document.body.append(s); }"
    )
    assert visit.page.evaluate("window.planted === undefined")
    assert "Content Security Policy" in visit.said[0]


def test_everything_has_a_name_for_screen_readers(browser, plain):
    visit = Visit(browser, plain)
    nameless = visit.page.evaluate(
        """() => [
            ...document.querySelectorAll('.plot, [role=region], [role=img], section, nav')
        ].filter(one => !one.getAttribute('aria-label') && !one.getAttribute('aria-labelledby')
        ).map(one => one.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    assert "interval" in (visit.page.locator("#plot-effect").get_attribute("aria-label") or "")
    assert visit.page.evaluate("document.documentElement.lang") == "en"
    headings = visit.page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3')].map(one => one.tagName)"
    )
    assert headings.count("H1") == 1
    assert headings[0] == "H1"


def test_the_keyboard_reaches_everything(browser, plain):
    visit = Visit(browser, plain)
    wanted = visit.page.evaluate(
        """() => {
            const all = [...document.querySelectorAll('a[href], summary, [tabindex="0"]')]
                .filter(one => one.checkVisibility());
            all.forEach((one, place) => { one.dataset.place = place; });
            return all.length; }"""
    )
    reached = set()
    for _ in range(wanted + 20):
        visit.page.keyboard.press("Tab")
        reached.add(visit.page.evaluate("document.activeElement.dataset.place"))
    assert len(reached - {None}) == wanted


def test_colours_follow_the_scheme(browser, plain):
    shades = [
        Visit(browser, plain, scheme=scheme).page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for scheme in ("light", "dark")
    ]
    assert shades[0] != shades[1]


def test_paper_gets_what_is_folded_away_but_for_bulk(browser, plain):
    visit = Visit(browser, plain)
    visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert visit.page.locator("details:not(.bulk):not([open])").count() == 0
    visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert visit.page.locator("details:not(.bulk):not([open])").count() > 0
    assert len(visit.page.pdf(format="A4")) > 10_000
