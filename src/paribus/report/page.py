"""One self-contained page: nothing is fetched, nothing runs but what its policy names, all text is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup, escape

from paribus import __version__
from paribus.analyse import name_of
from paribus.analyse.findings import UNIT
from paribus.report.alike import otherwise
from paribus.report.behind import heading, numbers_behind, rate_table, sweep_words
from paribus.report.charts import N_COLOURS, Plot
from paribus.report.contrasts import HEADING, SCALE, contrast_lines, contrasts
from paribus.report.control_plot import control_plot
from paribus.report.curves import differences, learning, rates
from paribus.report.early import TITLE as EARLY
from paribus.report.early import early_words
from paribus.report.effect import effects
from paribus.report.icons import SIDE, gallery
from paribus.report.limits import limits, measured
from paribus.report.material import Material
from paribus.report.noise import HEADING as NOISE_HEADING
from paribus.report.noise import METHOD, noise_lines
from paribus.report.noise import TITLE as NOISE
from paribus.report.numbers import true_minus
from paribus.report.overview import headings, overview, tally
from paribus.report.positive_control import control_sentence
from paribus.report.prices import costs, costs_by_arm
from paribus.report.rows import clock_rows, comma_separated, curve_rows, document_rows, run_rows, verdict_rows
from paribus.report.series import series_words
from paribus.report.tables import OTHER_HEADING, control_lines, others, seed_lines, seeds_by_arm, summary
from paribus.report.telling import telling
from paribus.report.text_read import text_words
from paribus.report.times import times
from paribus.report.toml import designed
from paribus.report.trust import grounds
from paribus.report.verdicts import fresh_seeds, verdicts

HERE = Path(__file__).parent
MAX_ROWS = 10_000  # of a table that lies in the page: about a megabyte


def page(material: Material) -> str:
    """The page as text."""
    styles = (HERE / "page.css").read_text("utf-8")
    scripts = [_bundle(), (HERE / "page.js").read_text("utf-8")]
    plots = drawn(material)
    surroundings = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    surroundings.filters["with_code"] = with_code
    return surroundings.get_template("page.html.jinja").render(
        policy=policy(styles, scripts), styles=Markup(styles), scripts=[Markup(script) for script in scripts],
        specs=Markup(inert({key: plot.spec for key, plot in plots.items()})), plots=plots, **_told(material),
    )  # fmt: skip


def drawn(material: Material) -> dict[str, Plot]:
    """Every plot of a study by its key."""
    found = [*effects(material), *control_plot(material), learning(material), *differences(material), rates(material)]
    return {plot.key: plot for plot in found if plot is not None}


def _told(material: Material) -> dict[str, Any]:
    found, plan = material.found, material.plan
    differing, equal = control_lines(material)
    column = name_of(plan.design.primary.measure.table)
    briefs = overview(material)
    return {
        "briefs": briefs, "brief_headings": headings(briefs, material), "tally": tally(briefs, material),
        "many": material.many, "costs_by_arm": costs_by_arm(material), "seeds_by_arm": seeds_by_arm(material, column),
        "plan": plan, "found": found, "order": material.order, "unit": UNIT, "version": __version__, "side": SIDE,
        "fresh_seeds": fresh_seeds(material), "contrasts": contrasts(material), "contrast_scale": SCALE,
        "contrast_heading": HEADING, "contrast_lines": contrast_lines(material),
        "verdicts": verdicts(material), "grounds": grounds(material), "otherwise": otherwise(material),
        "costs": costs(material), "limits": limits(material), "measured": measured(material),
        "gallery": gallery(material),
        "differing": differing, "equal": equal, "seeds": seed_lines(material), "summary": summary(material, column),
        "behind": numbers_behind(material), "behind_heading": heading(material), "by_rate": rate_table(material),
        "true_minus": true_minus, "sweep": sweep_words(material), "text_words": text_words(material),
        "early": found.look is not None and len(found.seeds) < found.look.planned,
        "early_title": EARLY, "early_words": early_words(material), "other_heading": OTHER_HEADING,
        "others": others(material), "telling": telling(material), "samples": material.samples,
        "noise": noise_lines(material), "noise_heading": NOISE_HEADING, "noise_title": NOISE, "noise_method": METHOD,
        "environments": material.environments, "times": times(material), "control": material.control,
        "control_sentence": control_sentence(material), "series": series_words(material),
        "shade": {arm: place % N_COLOURS for place, arm in enumerate(material.order)},
        "design": designed(plan.design.table),
        "rows": download(run_rows(material)), "clock": download(clock_rows(material)),
        "curve_rows": download(curve_rows(material)), "verdict_rows": download(verdict_rows(material)),
        "document_rows": _small_download(document_rows(material)),
    }  # fmt: skip


def with_code(text: str) -> Markup:
    """A sentence of ours, its commands set as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def inert(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end one, or begin a comment."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def policy(styles: str, scripts: Sequence[str]) -> str:
    """Nothing but these styles and scripts, named by their hashes; no evaluation, no request."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'sha256-{_digest(styles)}'; base-uri 'none'; "
        f"form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=1)  # putting it together takes seconds
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script."""
    made = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return made.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def download(rows: Iterable[dict[str, Any]]) -> str:
    """The address of a table that lies in the page itself."""
    return "data:text/csv;base64," + base64.b64encode(comma_separated(rows).encode()).decode()


def _small_download(rows: list[dict[str, Any]]) -> str:
    """The same of a table that is small enough for a page; empty otherwise."""
    return download(rows) if len(rows) <= MAX_ROWS else ""
