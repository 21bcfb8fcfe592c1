"""Are these the runs that were planned? Those that failed, the machine, and the locked plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from paribus.analyse.undertrained import UNDERTRAINED
from paribus.report.numbers import format_plural, join_words, quote_arm
from paribus.report.report_data import ReportData
from paribus.report.trust_check import TrustCheck
from paribus.report.verdicts import undertrained_advice

MACHINE = "Machine and code"
AS_PLANNED = "As planned"
NO_KEY = (
    "The checksums have no key: they tell accidents, not intent; a seal or runs that are made again"
    " do (--seal, --verify)."
)


def failure_checks(report: ReportData) -> Iterator[TrustCheck]:
    """Runs that did not train, or not for long enough."""
    rows = report.findings.reported_rows
    failed: list[str] = []
    short: Counter[str] = Counter()
    for row in rows:
        if row["outcome"] == UNDERTRAINED:
            short[row["arm"]] += 1
        elif row["outcome"] != "finished":
            failed.append(f"{quote_arm(row['arm'])}, seed {row['seed']}")
    if failed:
        runs = f"{len(failed)} of {len(rows)} runs"
        text = f"{runs} did not train ({join_words(failed)}); none is dropped."
        yield TrustCheck("Failed runs", "mind", text)
    if short:
        counts = join_words([f"{n} of {quote_arm(arm)}" for arm, n in short.items()])
        text = f"{undertrained_advice(rows)} Pairs with these arms get no verdict ({counts})."
        yield TrustCheck("Length of training", "no", text)


def machine_check(report: ReportData) -> TrustCheck:
    """Were all runs made by one code under one environment?"""
    if report.environment_differences:
        differences = join_words(list(report.environment_differences))
        return TrustCheck(MACHINE, "mind", f"Runs were made under different {differences}.")
    match report.environments[0]:
        case {"torch": str(torch)} if report.anonymous:
            return TrustCheck(MACHINE, "yes", f"One code, one environment: torch {torch}.")
        case {"device": str(device), "n_threads": int(n_threads), "torch": str(torch)}:
            threads = format_plural(n_threads, "thread")
            text = f"One code, one environment: torch {torch}, {device}, {threads} per run."
            return TrustCheck(MACHINE, "yes", text)
    return TrustCheck(MACHINE, "mind", "Under what the runs were made is not known.")


def plan_check(report: ReportData) -> TrustCheck:
    """Are plan and files what they were when the plan was locked?"""
    lock, files = report.findings.lock, report.findings.agreement
    if files.faults:
        text = f"Not what was written: {files.description}. No verdict is read from it."
        return TrustCheck(AS_PLANNED, "no", text)
    if lock is None:
        return TrustCheck(AS_PLANNED, "mind", "The plan was not locked before the runs.")
    if not lock.as_planned:
        return TrustCheck(AS_PLANNED, "no", f"Not as planned: {lock.description}.")
    if lock.n_older:
        text = (
            f"{lock.n_older} of {format_plural(_n_ended_runs(report), 'run')} had been made for"
            " another study before this plan was locked; whoever planned this one could know them."
        )
        return TrustCheck(AS_PLANNED, "mind", text)
    text = "The plan was locked before the first result, and has not changed since."
    if files.unchecked_description:
        text += f" {files.unchecked_description}"
    else:
        text += f" {NO_KEY}"
    return TrustCheck(AS_PLANNED, "yes", text)


def _n_ended_runs(report: ReportData) -> int:
    outcomes = Counter(row["outcome"] for row in report.findings.reported_rows)
    return outcomes.total() - outcomes["open"]
