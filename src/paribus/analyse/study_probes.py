"""What the probes of a study found in its arms, from the rows that runs keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from paribus.analyse.findings import Findings
from paribus.analyse.probe_means import mean_rows
from paribus.analyse.run_answers import YardstickTable, read_answers
from paribus.analyse.run_table import Row
from paribus.record import Study, TaskEvaluation
from paribus.record.plan import PlanRecord
from paribus.record.probe_rows import ProbeRow, probe_rows_path, read_probe_rows
from paribus.spec.yardstick import PROBE

SPLIT = "split"


@dataclass(frozen=True, eq=False)
class StudyProbe:
    """A probe of a study: its settings, and what it found in each arm, means over seeds and seed by
    seed. An arm whose runs keep no rows of it has none.
    """

    settings: Mapping[str, Any]
    rows: Mapping[str, tuple[ProbeRow, ...]]
    rows_by_seed: Mapping[str, Mapping[int, tuple[ProbeRow, ...]]]

    @property
    def has_rows(self) -> bool:
        return any(self.rows.values())


def probe_settings(yardstick: YardstickTable) -> dict[str, Any]:
    """The fields of a yardstick's probe, and the split that it reads. Yardsticks that agree in
    these show quantities of one probe.
    """
    return {**yardstick["probe"], SPLIT: yardstick[SPLIT]}


def distinct_probes(plan: PlanRecord) -> list[list[YardstickTable]]:
    """The yardsticks of each probe of a plan, in the order of first appearance."""
    probes: dict[str, list[YardstickTable]] = {}
    for other in plan.design.others:
        if other.table["kind"] == PROBE:
            key = json.dumps(probe_settings(other.table), sort_keys=True)
            probes.setdefault(key, []).append(other.table)
    return list(probes.values())


def study_probes(study: Study, findings: Findings) -> tuple[StudyProbe, ...]:
    """The probes of which runs keep rows."""
    probes = []
    for yardsticks in distinct_probes(findings.plan):
        by_seed: dict[str, dict[int, tuple[ProbeRow, ...]]]
        by_seed = {arm: {} for arm in findings.plan.order}
        for run in findings.reported_rows:
            own = _run_probe_rows(study.root, findings.plan, run, yardsticks)
            by_seed[run["arm"]][run["seed"]] = tuple(own)
        rows = {arm: tuple(mean_rows(chain(*own.values()))) for arm, own in by_seed.items()}
        probe = StudyProbe(probe_settings(yardsticks[0]), rows, by_seed)
        if probe.has_rows:
            probes.append(probe)
    return tuple(probes)


def _run_probe_rows(
    root: Path, plan: PlanRecord, run: Row, yardsticks: list[YardstickTable]
) -> list[ProbeRow]:
    """The rows that the answers of a run to the yardsticks of one probe were made from."""
    folder, text = root / run["run"], plan.arms[run["arm"]].text
    for answers in read_answers(folder, yardsticks, text, run["n_steps"]).values():
        assert isinstance(answers, TaskEvaluation)
        head = answers.head
        path = probe_rows_path(folder, head.task["probe"], head.items, head.weights)
        if path.exists():
            return read_probe_rows(path)
    return []
