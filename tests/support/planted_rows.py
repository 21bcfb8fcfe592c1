"""Studies whose scores are planted: as rows of runs, in a millisecond or two, and as the same
study on disk.

Scores are bits per byte by arm and by place of the seed. A score above that of the unigram model
is of a run that was not trained long enough, None of one that diverged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from handmade_study import GAINS, N_BYTES, N_STEPS, make_study, plan_table

from paribus.analyse import column_of
from paribus.analyse.judgement import Judgement
from paribus.analyse.run_table import Row
from paribus.analyse.study_findings import TableVerdicts, judge_table
from paribus.record import Study, evaluation_path, read_evaluations, write_evaluation
from paribus.record.plan import EDITION, PlanRecord, parse_plan

UNIGRAM = 5.0  # bits per byte
BASELINE, ARM, CONTROL = GAINS  # the arms of the study made by hand
Planted = Mapping[str, Sequence[float | None]]  # arm → by seed, what it scored
Margin = float | str | None


@lru_cache(maxsize=256)
def planted_plan(
    n_seeds: int, margin: Margin, *, has_control: bool = True, edition: int = EDITION
) -> PlanRecord:
    """A baseline and one arm under so many seeds, and a control, whose input is hidden."""
    table = plan_table("small")
    _plant_design(table, margin, has_control)
    table["design"]["seeds"] = list(range(1, n_seeds + 1))
    if not has_control:
        table["order"] = [BASELINE, ARM]
        del table["arms"][CONTROL]
    return parse_plan({**table, "edition": edition}, Path("plan.json"))


def planted_rows(plan: PlanRecord, scores: Planted) -> list[Row]:
    """The rows of the reported runs."""
    column = column_of(plan.design.primary.measure.table)
    rows: list[Row] = []
    for arm in plan.order:
        for seed, score in enumerate(scores[arm], 1):
            row: Row = {"arm": arm, "purpose": "reported", "seed": seed, "n_steps": N_STEPS}
            row |= {"rate": 0.004, "run": f"{arm}-{seed}", "outcome": "finished"}
            row |= {"reason": "", column: score, "unigram": UNIGRAM}
            if score is None:
                row["outcome"] = "diverged"
            elif score > UNIGRAM:
                row["outcome"] = "undertrained"
            rows.append(row)
    return rows


def judge_planted(plan: PlanRecord, scores: Planted) -> TableVerdicts:
    """What the rows say: the path of a report, without its files."""
    return judge_table(plan, planted_rows(plan, scores), plan.design.declared_seeds)


def planted_judgement(plan: PlanRecord, scores: Planted) -> Judgement:
    """The judgement of the arm against the baseline."""
    return judge_planted(plan, scores).verdicts.pairs[ARM, BASELINE]


def planted_study(root: Path, scores: Planted, margin: Margin, *, edition: int = EDITION) -> Study:
    """The same study on disk, with its control: every item costs what its run scored."""
    seeds = range(1, len(next(iter(scores.values()))) + 1)
    failed = []
    for arm, own in scores.items():
        failed += [(arm, seed) for seed, score in zip(seeds, own, strict=True) if score is None]
    study = make_study(root, seeds=seeds, failed=failed)
    plan = study.read_plan()
    _plant_design(plan, margin, True)
    study.write_plan({**plan, "edition": edition})
    for cell in study.read_cells():
        score = scores[cell.arm][cell.seed - 1]
        if score is None:
            continue
        (found,) = read_evaluations(study.root / cell.run)
        head = replace(
            found.head, unigram_nats=UNIGRAM * math.log(2) * N_BYTES * len(found.answers)
        )
        answers = tuple(replace(one, nats=score * math.log(2) * N_BYTES) for one in found.answers)
        path = evaluation_path(study.root / cell.run, head.yardstick, head.items)
        write_evaluation(path, replace(found, head=head, answers=answers))
    return study


def _plant_design(plan: dict[str, Any], margin: Margin, has_control: bool) -> None:
    plan["design"]["primary"]["margin"] = margin
    plan["design"]["control"] = CONTROL if has_control else None
