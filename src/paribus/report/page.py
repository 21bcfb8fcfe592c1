"""One self-contained page: nothing is fetched, nothing runs but what its policy names, all text
is escaped.
"""

from __future__ import annotations

from typing import Any

from paribus.analyse import column_of
from paribus.report.arm_costs import cost_lines, cost_table
from paribus.report.charts import N_COLOURS, Plot, parts_unvalidated
from paribus.report.contrasts import (
    HEADING,
    contrast_lines,
    contrast_texts,
    describe_effect_scale,
)
from paribus.report.control_plot import control_plot
from paribus.report.csv_tables import (
    clock_rows,
    curve_rows,
    document_rows,
    run_rows,
    verdict_rows,
)
from paribus.report.curve_plots import difference_plots, learning_plot
from paribus.report.details import detail_lines, details_heading
from paribus.report.early_order import TITLE as EARLY
from paribus.report.early_order import describe_early_order
from paribus.report.effect_plot import effect_plots
from paribus.report.inside_figures import study_figures
from paribus.report.item_examples import item_examples
from paribus.report.ladder_gains import GAINS_TITLE, ladder_gain_heading
from paribus.report.ladder_rates import RATES_TITLE, ladder_rate_heading
from paribus.report.law_plots import law_plots
from paribus.report.laws import (
    EXPONENT_HEADING,
    EXPONENTS_TITLE,
    LAW_HEADING,
    LAWS_TITLE,
    PREDICTION_HEADING,
    PREDICTIONS_TITLE,
    READING_HEADING,
    READINGS_NOTE,
    READINGS_TITLE,
    SHARED_HEADING,
    SHARED_TITLE,
    law_section,
)
from paribus.report.limits import describe_yardstick, limitations
from paribus.report.mask_gallery import SIDE, mask_gallery
from paribus.report.noise import METHOD, noise_heading, noise_lines
from paribus.report.noise import TITLE as NOISE
from paribus.report.numbers import true_minus
from paribus.report.overview import comparison_headings, comparison_lines, describe_tally
from paribus.report.page_frame import csv_data_url, render_template
from paribus.report.parent_kl import KL_HEADING, KL_NOTE, KL_TITLE, kl_lines
from paribus.report.positive_control import describe_control
from paribus.report.prediction_plot import prediction_plot
from paribus.report.probe_charts import figure_plots
from paribus.report.rank_effect import RANK_TITLE, rank_note, rank_sentences
from paribus.report.rate_gains import describe_sweep_cost, rate_table
from paribus.report.rate_plot import rate_plot
from paribus.report.report_data import ReportData
from paribus.report.sensitivity import sensitivity_lines
from paribus.report.series import describe_series
from paribus.report.size_trends import TREND_HEADING, TRENDS_NOTE, TRENDS_TITLE
from paribus.report.tables import (
    INSIDE_HEADING,
    INSIDE_NOTE,
    SECONDARY_HEADING,
    control_rows,
    gain_moments,
    inside_tables,
    score_summary,
    secondary_tables,
    seed_lines,
    seed_table,
)
from paribus.report.text_read import describe_text_differences
from paribus.report.times import time_block
from paribus.report.toml_text import design_toml
from paribus.report.trend_plots import trend_plots
from paribus.report.trust import trust_checks
from paribus.report.verdict_notes import verdict_notes
from paribus.report.verdicts import describe_fresh_seeds, quote_comparison, verdict_texts

MAX_ROWS = 10_000  # of a table that lies in the page: about a megabyte


def render_page(report: ReportData) -> str:
    """The page as text."""
    plots, figures = _own_plots(report), study_figures(report.probes)
    return render_template(
        "page.html.jinja",
        {**plots, **figure_plots(figures)},
        plots=plots,
        inside_figures=figures,
        **_template_values(report),
    )


def study_plots(report: ReportData) -> dict[str, Plot]:
    """Every plot of a study by its key, with those of what probes found."""
    return {**_own_plots(report), **figure_plots(study_figures(report.probes))}


@parts_unvalidated()
def _own_plots(report: ReportData) -> dict[str, Plot]:
    plots = [
        *effect_plots(report),
        *control_plot(report),
        learning_plot(report),
        *difference_plots(report),
        *law_plots(report),
        *trend_plots(report),
        *prediction_plot(report),
        rate_plot(report),
    ]
    return {plot.key: plot for plot in plots if plot is not None}


def _template_values(report: ReportData) -> dict[str, Any]:
    return {
        "plan": report.plan,
        "found": report.findings,
        "order": report.order,
        "many": report.has_many_columns,
        "unit": report.measure.unit,
        "direction": report.measure.direction,
        "side": SIDE,
        "gallery": mask_gallery(report),
        "shade": {arm: place % N_COLOURS for place, arm in enumerate(report.order)},
        "true_minus": true_minus,
        "quote_comparison": quote_comparison,
        **_verdict_values(report),
        **_detail_values(report),
        **_table_values(report),
        **_record_values(report),
    }


def _verdict_values(report: ReportData) -> dict[str, Any]:
    """What the first screen shows."""
    findings, lines = report.findings, comparison_lines(report)
    return {
        "early": findings.look is not None and len(findings.seeds) < findings.look.n_planned_seeds,
        "series": describe_series(report),
        "text_words": describe_text_differences(report),
        "contrasts": contrast_texts(report),
        "briefs": lines,
        "brief_headings": comparison_headings(lines, report),
        "tally": describe_tally(lines, report),
        "verdicts": verdict_texts(report),
        "control": report.first_edition_control_arm,
        "control_sentence": describe_control(report),
        "notes": verdict_notes(report),
        "fresh_seeds": describe_fresh_seeds(report),
        "measured": describe_yardstick(report),
        "grounds": trust_checks(report),
        "otherwise": sensitivity_lines(report),
        "costs": cost_lines(report),
        "costs_by_arm": cost_table(report),
        "limits": limitations(report),
    }


def _detail_values(report: ReportData) -> dict[str, Any]:
    """What stands beside curves, the control table and samples."""
    differing, equal = control_rows(report)
    return {
        "early_title": EARLY,
        "early_words": describe_early_order(report),
        "by_rate": rate_table(report),
        "sweep": describe_sweep_cost(report),
        "differing": differing,
        "equal": equal,
        "samples": report.samples,
        "telling": item_examples(report),
    }


def _table_values(report: ReportData) -> dict[str, Any]:
    """Tables of seeds, details, other yardsticks, noise and contrasts."""
    column = column_of(report.plan.design.primary.measure.table)
    return {
        "seeds": seed_lines(report),
        "seeds_by_arm": seed_table(report, column),
        "summary": score_summary(report, column),
        "gain_summary": list(map(gain_moments, report.findings.arms)),
        "behind": detail_lines(report),
        "behind_heading": details_heading(report),
        "other_heading": SECONDARY_HEADING,
        "others": secondary_tables(report),
        "laws_title": LAWS_TITLE,
        "laws": law_section(report),
        "law_headings": (
            LAW_HEADING,
            EXPONENT_HEADING,
            PREDICTION_HEADING,
            READING_HEADING,
            ladder_rate_heading(report),
            SHARED_HEADING,
            ladder_gain_heading(report),
        ),
        "law_titles": (
            LAWS_TITLE,
            EXPONENTS_TITLE,
            PREDICTIONS_TITLE,
            READINGS_TITLE,
            RATES_TITLE,
            SHARED_TITLE,
            GAINS_TITLE,
        ),
        "readings_note": READINGS_NOTE,
        "trends_title": TRENDS_TITLE,
        "trends_note": TRENDS_NOTE,
        "trend_heading": TREND_HEADING,
        "inside_heading": INSIDE_HEADING,
        "inside_note": INSIDE_NOTE,
        "inside_tables": inside_tables(report),
        "rank_title": RANK_TITLE,
        "rank_note": rank_note(report.findings),
        "rank_sentences": rank_sentences(report.findings),
        "kl_title": KL_TITLE,
        "kl_note": KL_NOTE,
        "kl_heading": KL_HEADING,
        "kl_lines": kl_lines(report),
        "noise": noise_lines(report),
        "noise_heading": noise_heading(report),
        "noise_title": NOISE,
        "noise_method": METHOD,
        "contrast_scale": describe_effect_scale(report),
        "contrast_heading": HEADING,
        "contrast_lines": contrast_lines(report),
    }


def _record_values(report: ReportData) -> dict[str, Any]:
    """The design, the environment, the clock, and tables to download."""
    return {
        "design": design_toml(report.plan.design.table),
        "environments": report.environments,
        "times": time_block(report),
        "rows": csv_data_url(run_rows(report)),
        "clock": csv_data_url(clock_rows(report)),
        "curve_rows": csv_data_url(curve_rows(report)),
        "verdict_rows": csv_data_url(verdict_rows(report)),
        "document_rows": _csv_data_url_if_small(document_rows(report)),
    }


def _csv_data_url_if_small(rows: list[dict[str, Any]]) -> str:
    """A table as a link for downloads, if it is small enough for a page; else empty."""
    if len(rows) <= MAX_ROWS:
        return csv_data_url(rows)
    return ""
