"""The page of probes in a real browser: it loads nothing, draws every figure, shows values, and
fits narrow and dark screens.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_visits import Visit, opened_browser
from handmade_probes import all_probe_rows, causal_maps

from paribus.report.probe_page import render_probe_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
WIDE, NARROW = 1280, 375
EVIL = "</script><script>window.planted = 1</script><img src=x onerror='window.planted = 2'>"
FITS = "document.documentElement.scrollWidth <= window.innerWidth"
CUT = """() => [...document.querySelectorAll('.plot')].filter(plot => {
    const room = plot.getBoundingClientRect();
    const drawing = plot.querySelector('svg').getBoundingClientRect();
    return drawing.width > room.width + 1 || drawing.right > window.innerWidth;
}).map(plot => plot.id)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from opened_browser()


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "probes.html"
    path.write_text(
        render_probe_page({"a run": all_probe_rows(3, 2)}, causal_maps("a run", 3)), "utf-8"
    )
    return path


@pytest.fixture(scope="module")
def several_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several") / "probes.html"
    runs = {f"run {EVIL}": all_probe_rows(3, 2), "another": all_probe_rows(2, 2, 0.5)}
    path.write_text(render_probe_page(runs), "utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("which", ["one_run", "several_runs"])
def test_every_figure_is_drawn_and_nothing_else_is_loaded(browser, which, width, scheme, request):
    path = request.getfixturevalue(which)
    visit = Visit(browser, path, width, scheme)
    assert visit.said == []
    assert visit.asked == [path.as_uri()]
    plots = visit.page.locator(".plot")
    assert plots.count() > 30
    assert visit.page.locator(".plot svg").count() == plots.count()
    assert visit.page.evaluate(FITS)
    assert visit.page.evaluate(CUT) == []


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        ("#plot-attention-maps-1 .mark-rect path", ("query", "key", "weight")),
        ("#plot-flow-attention-distance-map-1 .mark-rect path", ("layer", "head", "tokens")),
        (
            "#plot-collapse-residual-over-norm-by-depth-1 .mark-symbol.role-mark path",
            ("variant", "depth"),
        ),
        (
            "#plot-descent-simaou-by-layer .mark-symbol.role-mark path",
            ("of", "untrained, random update", "SimAOU"),
        ),
        ("#plot-experts-load-1 .mark-rect path", ("expert", "load")),
        (
            "#plot-corruption-loss .mark-symbol.role-mark path",
            ("spans", "plain input", "bits per byte"),
        ),
    ],
)
def test_hovering_shows_values(browser, one_run, marks, words):
    shown = Visit(browser, one_run).hover(marks)
    for word in words:
        assert word in shown


def test_names_of_runs_stay_text(browser, several_runs):
    visit = Visit(browser, several_runs)
    shown = visit.hover("#plot-context-loss-by-tokens-of-context .mark-symbol.role-mark path")
    assert "another" in shown
    assert EVIL in visit.page.locator("h1").inner_text()
    assert visit.page.evaluate("window.planted === undefined")
    assert visit.page.locator("img").count() == 0
    assert EVIL in visit.page.title()


def test_colours_follow_the_scheme(browser, one_run):
    shades = []
    for scheme in ("light", "dark"):
        page = Visit(browser, one_run, scheme=scheme).page
        line = "#plot-context-loss-by-tokens-of-context .mark-line path"
        shades.append(
            page.evaluate(
                "line => [getComputedStyle(document.body).backgroundColor,"
                " getComputedStyle(document.querySelector(line)).stroke]",
                line,
            )
        )
    assert shades[0][0] != shades[1][0]
    assert shades[0][1] != shades[1][1]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_maps_of_attention_are_nearly_square(browser, one_run, width):
    page = Visit(browser, one_run, width).page
    box = page.locator("#plot-attention-maps-1 path.background").first.bounding_box()
    assert box is not None
    assert 0.75 < box["width"] / box["height"] < 1.3


def test_numbers_of_a_figure_are_a_table_that_scrolls_by_itself(browser, one_run):
    visit = Visit(browser, one_run, NARROW)
    section = visit.page.locator("section", has_text="Attention entropy by layer")
    section.locator("summary").click()
    cells = section.locator("tbody tr").first.locator("td")
    assert cells.all_inner_texts() == ["as it is", "0", "0.75", "0.5", "1"]  # 1 and ½
    assert visit.page.evaluate(FITS)
