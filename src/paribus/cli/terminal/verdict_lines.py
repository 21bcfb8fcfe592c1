"""The verdicts of a study, one line per arm."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from paribus.report.contrasts import contrast_texts
from paribus.report.positive_control import describe_control, describe_refused_margin
from paribus.report.report_data import ReportData
from paribus.report.series import describe_series
from paribus.report.text_read import describe_text_differences
from paribus.report.trust import allowed_confounds
from paribus.report.verdict_notes import check_notes, match_notes
from paribus.report.verdicts import (
    VerdictText,
    describe_fresh_seeds,
    undertrained_advice,
    verdict_texts,
)

STYLES = {
    "better": "bold green",
    "worse": "bold red",
    "equivalent": "bold blue",
    "not worse": "bold blue",
    "inconclusive": "bold yellow",
    "at floor": "bold yellow",
    "at ceiling": "bold yellow",
    "manipulation not shown": "bold yellow",
    "bimodal": "bold yellow",
}


def print_verdicts(report: ReportData, page: Console) -> None:
    """Print the verdict of each arm, with advice if it is inconclusive; then the notes on the
    study.
    """
    verdicts, contrasts = verdict_texts(report), contrast_texts(report)
    labels = [*(one.label for one in verdicts), *(one.word for one in contrasts)]
    width = max(map(len, labels))
    if report.findings.look_description:
        page.print(f"{report.findings.look_description}.", soft_wrap=True, markup=False)
    for line in describe_series(report):
        page.print(line, soft_wrap=True, markup=False)
    for one in contrasts:
        line = _with_numbers(one.headline, one.numbers)
        page.print(
            Text.assemble((f"{one.word:{width}}  ", STYLES.get(one.word, "bold")), line),
            soft_wrap=True,
        )
        for more in filter(None, (one.meaning, one.compound, one.advice)):
            page.print(f"{'':{width}}  {more}", style="dim", soft_wrap=True, markup=False)
    for one in verdicts:
        page.print(
            Text.assemble(
                (f"{one.label:{width}}  ", STYLES.get(one.word, "bold")), _verdict_line(one)
            ),
            soft_wrap=True,
        )
        if one.compound:
            page.print(f"{'':{width}}  {one.compound}", style="dim", soft_wrap=True, markup=False)
        if one.advice and not one.is_control:
            page.print(f"{'':{width}}  {one.advice}", style="dim", soft_wrap=True)
    control = describe_control(report)
    if control:
        page.print(control, soft_wrap=True, markup=False)
    for note in (*check_notes(report), *match_notes(report)):
        page.print(note, soft_wrap=True, markup=False)
    refused = describe_refused_margin(report)
    if refused:
        page.print(Text(refused, "yellow"), soft_wrap=True)
    text = describe_text_differences(report)
    if text:
        page.print(Text(text, "yellow"), soft_wrap=True)
    short = undertrained_advice(report.findings.reported_rows)
    if short:
        page.print(Text(short, "yellow"), soft_wrap=True)
    fresh = describe_fresh_seeds(report)
    if fresh:
        page.print(fresh, style="dim", soft_wrap=True, markup=False)
    for one in allowed_confounds(report):
        page.print(Text(f"allowed to differ: {one}", "yellow"), soft_wrap=True)
    if report.findings.agreement.faults:
        page.print(
            Text(f"no verdict: {report.findings.agreement.description}", "red"), soft_wrap=True
        )
    lock = report.findings.lock
    if lock is not None and not lock.as_planned:
        page.print(Text(f"not as planned: {lock.description}", "yellow"), soft_wrap=True)


def _verdict_line(verdict: VerdictText) -> str:
    headline = verdict.headline
    if verdict.is_control:
        headline += " (the positive control)"
    return _with_numbers(headline, verdict.numbers)


def _with_numbers(headline: str, numbers: str) -> str:
    if not numbers:
        return headline
    return f"{headline}: {numbers}"
