"""A study's runs as tidy rows: one a run, all that was measured of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from typing import Any

from paribus.analyse.run_answers import column_of, read_answers
from paribus.analyse.run_scores import (
    Answers,
    floor_of,
    parent_score,
    raw_score,
    resolution_of,
    score_of,
    unigram_bits,
)
from paribus.analyse.undertrained import UNDERTRAINED, UNDERTRAINED_REASON, has_risen
from paribus.errors import UnsupportedError
from paribus.record import CellRecord, Study, TaskEvaluation, last_row, read_rows
from paribus.record.file_names import ROWS_FILE, SPEC_FILE
from paribus.record.folder import read_stages
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan
from paribus.record.rows import NONFINITE
from paribus.spec.yardstick import PROBE, tuning_table

Row = dict[str, Any]
WORSE_THAN_UNIGRAM = "worse than the unigram model"
ENDED_OUTCOMES = ("finished", "diverged", UNDERTRAINED)  # outcomes that are results
COUNTER_COLUMNS = (
    "tokens_read",
    "positions_computed",
    "tokens_scored",
    "bytes_scored",
    "dense_flops",
    "seconds",
    "nats",
    "valid_nats",
)
# of runs that compile, and of runs that end with preferences, on held-out pairs
OPTIONAL_COLUMNS = (
    "compile_seconds",
    "compile_wait_seconds",
    "valid_reward_margin",
    "valid_preferred",
    "valid_kl",
)


@dataclass(frozen=True)
class RowTable(Sequence[Row]):
    """Rows with the same columns; a notebook shows them as a table."""

    rows: tuple[Row, ...]

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(self.rows)))

    def to_pandas(self) -> Any:
        """A DataFrame, where pandas is there."""
        try:
            import pandas  # pyright: ignore[reportMissingImports]
        except ImportError as fault:
            raise UnsupportedError(
                "pandas is not installed; install it, or use the rows as they are"
            ) from fault

        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(map(self._html_row, self.rows))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _html_row(self, row: Row) -> str:
        cells = [f"<td>{escape(_format_cell(row.get(name)))}</td>" for name in self.columns]
        return f"<tr>{''.join(cells)}</tr>"


def select_rows(
    rows: Iterable[Mapping[str, Any]],
    *,
    purposes: Collection[str],
    arm: str | None = None,
    seeds: Collection[int] | None = None,
) -> list[Any]:
    """The rows of these purposes; of one arm and of some seeds alone where they are given."""
    selection = []
    for row in rows:
        has_arm = arm is None or row["arm"] == arm
        has_seed = seeds is None or row["seed"] in seeds
        if row["purpose"] in purposes and has_arm and has_seed:
            selection.append(row)
    return selection


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.5g}"
    return str(value)


def study_rows(study: Study) -> RowTable:
    """Every cell of a study's plan, the baseline's arm first, with its outcome and what it
    scored.

    RecordError where a finished run has lost rows: what is left would make another curve, and so
    another verdict.
    """
    plan = read_plan(study)
    order = {name: place for place, name in enumerate(plan.order)}
    cells = [cell for cell in study.planned_cells() if cell.arm in order]
    cells.sort(key=lambda cell: (cell.purpose, order[cell.arm], cell.seed, cell.rate, cell.n_steps))
    for cell in cells:
        study.require_complete_rows(cell.run, cell.n_steps)
    return RowTable(tuple(_cell_row(study, plan, cell) for cell in cells))


def _cell_row(study: Study, plan: PlanRecord, cell: CellRecord) -> Row:
    yardsticks = measures_of(plan, cell.purpose)
    text = plan.arms[cell.arm].text
    answers = read_answers(study.root / cell.run, yardsticks, text, cell.n_steps, plan.items)
    column = None  # of the yardstick that counts
    if yardsticks:
        column = column_of(yardsticks[0])
    outcome, reason = _cell_outcome(study, cell, answers, column)
    scores: Row = {}
    if outcome in ENDED_OUTCOMES:
        scores = {name: score_of(one) for name, one in answers.items()}
    if outcome == UNDERTRAINED and column is not None:
        scores[column] = raw_score(answers[column])
    path = study.root / cell.run / ROWS_FILE
    last = (last_row(path) if path.exists() else None) or {}
    return {
        "study": plan.name,
        "arm": cell.arm,
        **plan.arms[cell.arm].levels,
        "purpose": cell.purpose,
        "seed": cell.seed,
        "rate": cell.rate,
        "run": cell.run,
        "n_steps": cell.n_steps,
        "outcome": outcome,
        "reason": reason,
        **scores,
        **_reference_columns(None if column is None else answers.get(column)),
        **{name: last.get(name) for name in COUNTER_COLUMNS},
        **{name: last[name] for name in OPTIONAL_COLUMNS if name in last},
        **(_variance_columns(study, cell) if cell.purpose == "variance" else {}),
        **_rung_columns(plan, cell),
    }


def _rung_columns(plan: PlanRecord, cell: CellRecord) -> Row:
    """What a law is fitted to beside the score: the size of a run on a rung of the ladder, and
    what its schedule reads and computes; nothing of any other run.
    """
    if cell.size is None:
        return {}
    arm = plan.arm_at(cell.arm, cell.size)
    return {
        "size": cell.size,
        "parameters": arm.price.parameters,
        "non_embedding_parameters": arm.price.non_embedding_parameters,
        "planned_tokens": arm.work.tokens_read * cell.n_steps,
        "planned_flops": arm.work.training_flops * cell.n_steps,
    }


def _reference_columns(answers: Answers | None) -> Row:
    """What needs no model, at the yardstick that counts: what the unigram model takes, in bits a
    byte, or the highest floor of a task and what one item is worth. None where no record says it.
    """
    if answers is None:
        return {"unigram": None}
    if not isinstance(answers, TaskEvaluation):
        return {"unigram": unigram_bits(answers)}
    floor = floor_of(answers)
    columns: Row = {
        "unigram": None,
        "floor": None if floor is None else floor.value,
        "floor_name": None if floor is None else floor.name,
        "item_worth": resolution_of(answers),
    }
    parent = parent_score(answers)
    if parent is not None:
        columns["parent_score"] = parent
    return columns


def _variance_columns(study: Study, cell: CellRecord) -> Row:
    """Which start and order of the text a run has, and how often it was made before; nothing of
    one not begun.
    """
    folder = study.root / cell.run
    if not (folder / SPEC_FILE).exists():
        return {}
    stage = read_stages(folder)[-1]
    training = stage["training"]
    return {
        "start": training["seed"],
        "order": training["data_seed"],
        "rerun": stage.get("rerun", 0),
    }


def measures_of(plan: PlanRecord, purpose: str) -> list[dict[str, Any]]:
    """The yardsticks that a cell of this purpose is asked, the one that counts first.

    The sweep of an earlier stage is not asked, nor any sweep where the task must be unseen: what
    counts is held-out loss.
    """
    primary, tune = plan.design.primary.measure.table, plan.design.tune
    is_sweep = purpose in ("sweep", "ladder_sweep")
    if purpose == "stage_sweep" or (is_sweep and primary.get("unseen")):
        return []
    if is_sweep and tune is not None:
        return [tuning_table(primary, tune.split)]
    if purpose in ("ladder", "predicted"):
        return [primary, *ladder_yardsticks(plan)]
    if purpose in ("sweep", "length", "bracket", "variance"):
        return [primary]
    return [primary, *(other.table for other in plan.design.others)]


def ladder_yardsticks(plan: PlanRecord) -> list[dict[str, Any]]:
    """The yardsticks beside the primary that runs of a ladder are asked, too: no probes."""
    ladder = plan.design.table.get("ladder") or {}
    if not ladder.get("others"):
        return []
    return [other.table for other in plan.design.others if other.kind != PROBE]


def _cell_outcome(
    study: Study, cell: CellRecord, answers: Mapping[str, Answers], primary: str | None
) -> tuple[str, str]:
    """How a run stands and why; one that was not measured, and is to be, is still open."""
    outcome, reason = study.run_outcome(cell.run)
    if outcome != "finished" or primary is None:
        return outcome, reason
    if primary not in answers:
        return "open", "trained, not measured yet"
    if score_of(answers[primary]) is None:
        return outcome_without_score(answers[primary], study, cell.run)
    return outcome, reason


def outcome_without_score(answers: Answers, study: Study, run: str) -> tuple[str, str]:
    """How a finished run whose answers have no value ended, and why.

    It diverged where its answers are not finite or its loss has risen; else it was not trained long
    enough.
    """
    if not math.isfinite(raw_score(answers)):
        return "diverged", "its answers are not finite"
    if has_risen(_loss_history(study, run)):
        return "diverged", f"{WORSE_THAN_UNIGRAM}, after its loss had risen"
    return UNDERTRAINED, UNDERTRAINED_REASON


def _loss_history(study: Study, run: str) -> list[float]:
    """The validation losses of a run in order; where there is one at most, those of training."""
    own = read_rows(study.root / run / ROWS_FILE).rows
    for name in ("valid_nats", "nats"):
        losses = [row[name] for row in own if row.get(name) is not None]
        n_nonfinite = sum(name in row.get(NONFINITE, {}) for row in own)
        losses += [math.nan] * n_nonfinite
        if len(losses) > 1:
            return losses
    return []
