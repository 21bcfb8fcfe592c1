"""A ladder climbed by hand: the handmade study with runs at several sizes, whose losses follow
planted laws.
"""

import random
from dataclasses import dataclass, replace
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

from handmade_study import make_study

from paribus.analyse.run_table import RowTable, column_of
from paribus.analyse.study_laws import prediction_tables
from paribus.record.plan import PlanRecord, RungRecord
from paribus.report.report_data import ReportData, gather_report_data

SEEDS = (1, 2, 3)
NOISE = 0.001  # standard deviation of ln loss between seeds
PARAMETERS = {64: 60_000, 96: 130_000, 128: 230_000, 192: 500_000}
LARGEST, LARGEST_PARAMETERS = 352, 1_700_000  # of the run that is predicted
RATIOS = (2, 8, 32)  # tokens for each parameter
LADDER_TABLE = {  # as the design has it
    "sizes": [*PARAMETERS],
    "tokens_per_parameter": [*RATIOS],
    "max_tokens": None,
    "d_head": None,
    "depth": "fixed",
    "rate_power": 0.0,
    "rate_sizes": None,
    "n_seeds": len(SEEDS),
}
TOKENS_A_STEP = 512


@dataclass(frozen=True)
class PlantedLaw:
    """L = E + A/N^α + B/D^β."""

    a: float
    b: float
    alpha: float = 0.4
    beta: float = 0.4
    floor: float = 0.8

    def loss(self, n_parameters: float, n_tokens: float) -> float:
        return self.floor + self.a / n_parameters**self.alpha + self.b / n_tokens**self.beta


BASELINE = PlantedLaw(140.0, 280.0)
# With equal exponents, N ∝ √C and D ∝ √C, losses above E go with C^-0.2. An arm whose A and B are
# smaller by a factor f reaches the same loss with compute smaller by f^5, wherever that is.
SAVED = 1.1**5
MIDDLE = PARAMETERS[128]  # where the law of the last arm crosses that of the baseline
LAWS = {
    "causal": BASELINE,
    "prefix": PlantedLaw(140.0 / 1.1, 280.0 / 1.1),
    "same side": PlantedLaw(140.0 * MIDDLE**0.15, 280.0, alpha=0.55),
}
WORSE = {"same side": 1.02}  # by which factor the largest runs come out, against their law
GAINS = {"causal": 0.0, "prefix": 0.004, "same side": -0.02}  # of the study's own runs


def planted_flops(n_parameters: float, n_tokens: float) -> float:
    return 6.0 * n_parameters * n_tokens


def make_ladder_report(root: Path) -> ReportData:
    """The report data of a study of three arms, none of them a control, with a ladder that was
    climbed, and a largest run that was predicted first.
    """
    report = gather_report_data(make_study(root, gains=GAINS))
    sizes = {**PARAMETERS, LARGEST: LARGEST_PARAMETERS}
    rungs = [_rung(report.plan, size, n_parameters) for size, n_parameters in sizes.items()]
    table = {**report.plan.design.table, "ladder": LADDER_TABLE}
    design = report.plan.design.model_copy(update={"control": None, "table": table})
    plan = report.plan.model_copy(update={"rungs": rungs, "design": design})
    rows = (*report.findings.table.rows, *_ladder_rows(report, plan))
    findings = replace(report.findings, plan=plan, table=RowTable(rows))
    predictions = prediction_tables(plan, rows, len(SEEDS))
    return replace(report, findings=findings, predictions=tuple(predictions))


def _rung(plan: PlanRecord, size: int, n_parameters: int) -> RungRecord:
    flops = planted_flops(n_parameters, TOKENS_A_STEP)
    arms = {}
    for name in LAWS:
        arm = plan.arms[name]
        price = arm.price.model_copy(
            update={"parameters": n_parameters, "non_embedding_parameters": n_parameters // 2}
        )
        work = arm.work.model_copy(update={"tokens_read": TOKENS_A_STEP, "training_flops": flops})
        arms[name] = arm.model_copy(update={"price": price, "work": work})
    is_predicted = size == LARGEST
    ratios = RATIOS[-1:] if is_predicted else RATIOS
    tokens = [ratio * n_parameters for ratio in ratios]
    return RungRecord(size=size, tokens=tokens, arms=arms, is_predicted=is_predicted)


def _ladder_rows(report: ReportData, plan: PlanRecord) -> list[dict[str, Any]]:
    """A row for each run of the ladder, with the loss of its arm's law and a little noise."""
    first, draws = report.findings.table.rows[0], random.Random(11)
    column = column_of(plan.design.primary.measure.table)
    rows: list[dict[str, Any]] = []
    for rung in plan.rungs:
        for n_tokens, (arm, law), seed in product(rung.tokens, LAWS.items(), SEEDS):
            n_parameters = rung.arms[arm].price.parameters
            loss = law.loss(n_parameters, n_tokens) * exp(draws.gauss(0, NOISE))
            if rung.is_predicted:
                loss *= WORSE.get(arm, 1.0)
            row = {
                **first,
                "arm": arm,
                "seed": seed,
                "purpose": "predicted" if rung.is_predicted else "ladder",
                "outcome": "finished",
                "size": rung.size,
                "parameters": n_parameters,
                "planned_tokens": n_tokens,
                "planned_flops": planted_flops(n_parameters, n_tokens),
                column: loss,
            }
            rows.append(row)
    return rows
