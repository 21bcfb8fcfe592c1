"""Findings without a verdict, where a file that they rest on is not what was written, or the
control table is not the one that the runs give.
"""

from __future__ import annotations

from dataclasses import replace

from paribus.analyse.control_faults import control_faults
from paribus.analyse.findings import ArmFinding, Findings
from paribus.analyse.run_table import ENDED_OUTCOMES
from paribus.analyse.verdict import Verdict
from paribus.record import Study, check_integrity


def withhold_if_changed(findings: Findings, study: Study) -> Findings:
    """The findings without any verdict, where a file they rest on is not what was written."""
    ended_runs, other_runs = [], []
    for row in findings.table:
        if row["outcome"] in ENDED_OUTCOMES:
            ended_runs.append(row["run"])
        else:
            other_runs.append(row["run"])
    integrity = check_integrity(study, findings.plan, ended_runs, other_runs)
    if not integrity.predates_checksums and not integrity.faults:
        own = control_faults(findings.plan)
        integrity = replace(integrity, faults=own, control_faults=own)
    findings = replace(findings, agreement=integrity)
    if not integrity.faults:
        return findings
    arms = tuple(_withhold_verdict(arm, integrity.description) for arm in findings.arms)
    against = dict.fromkeys(findings.margins.against)
    margins = replace(findings.margins, against=against, refusal="")
    return replace(
        findings,
        arms=arms,
        margins=margins,
        factorial=None,
        contrasts=(),
        pooled_noise=None,
        control=None,
        checks=(),
        noise=None,
    )


def _withhold_verdict(arm: ArmFinding, why: str) -> ArmFinding:
    judgement = arm.judgement
    seeds = tuple(replace(one, gain=None) for one in judgement.seeds)
    silent = replace(
        judgement, seeds=seeds, mcnemar=None, comparison=None, verdict=Verdict("withheld", why)
    )
    return replace(
        arm,
        judgement=silent,
        multiplier=None,
        new_documents=None,
        pairing=None,
        gain_curve=(),
        gains_by_rate={},
        tuning_uncertainty=None,
        brackets={},
    )
