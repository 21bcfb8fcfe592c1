"""A study's runs as tidy rows: one a run, all that was measured of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from paribus.analyse.failures import outcome as learnt
from paribus.analyse.undertrained import REASON, UNDERTRAINED, has_risen
from paribus.errors import UnsupportedError
from paribus.record import Evaluation, Placed, Study, evaluations, last_row, read_rows
from paribus.record.file_names import ROWS_FILE, SPEC_FILE
from paribus.record.folder import stages_of
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan
from paribus.record.rows import NONFINITE

Row = dict[str, Any]
WORSE = "worse than the unigram model"
ENDED = ("finished", "diverged", UNDERTRAINED)  # outcomes that are results
COUNTED = (
    "tokens_read", "positions_computed", "tokens_scored", "bytes_scored", "dense_flops", "seconds", "nats",
    "valid_nats",
)  # fmt: skip


@dataclass(frozen=True)
class Table(Sequence[Row]):
    """Rows with the same columns; a notebook shows them as a table."""

    rows: tuple[Row, ...]

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def to_pandas(self) -> Any:
        """A DataFrame, where pandas is there."""
        try:
            import pandas  # pyright: ignore[reportMissingImports]
        except ImportError as fault:
            raise UnsupportedError("pandas is not installed; install it, or use the rows as they are") from fault

        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_told(row.get(name)))}</td>" for name in self.columns) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _told(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def rows(study: Study) -> Table:
    """Every cell of a study's plan, the baseline's arm first, with its outcome and what it scored.

    RecordError where a finished run has lost rows: what is left would make another curve, and so another verdict.
    """
    plan = read_plan(study)
    order = {name: place for place, name in enumerate(plan.order)}
    cells = [cell for cell in study.planned_cells() if cell.arm in order]
    cells.sort(key=lambda cell: (cell.purpose, order[cell.arm], cell.seed, cell.rate, cell.n_steps))
    for cell in cells:
        study.require_whole(cell.run, cell.n_steps)
    return Table(tuple(_row(study, plan, cell) for cell in cells))


def _row(study: Study, plan: PlanRecord, cell: Placed) -> Row:
    asked = measures_of(plan, cell.purpose)
    found = _found(study, plan, cell, asked)
    outcome, reason = _outcome(study, cell, found, name_of(asked[0]))
    scores: Row = {}
    if outcome in ENDED:
        scores = {name: value_of(one) for name, one in found.items()}
    if outcome == UNDERTRAINED:
        scores[name_of(asked[0])] = bits_of(found[name_of(asked[0])])
    path = study.root / cell.run / ROWS_FILE
    last = (last_row(path) if path.exists() else None) or {}
    return {
        "study": plan.name, "arm": cell.arm, **plan.arms[cell.arm].levels, "purpose": cell.purpose,
        "seed": cell.seed, "rate": cell.rate, "run": cell.run, "n_steps": cell.n_steps,
        "outcome": outcome, "reason": reason, **scores, "unigram": _unigram(found.get(name_of(asked[0]))),
        **{name: last.get(name) for name in COUNTED},
        **(_draws(study, cell) if cell.purpose == "variance" else {}),
    }  # fmt: skip


def _unigram(found: Evaluation | None) -> float | None:
    """What the yardstick that counts costs the unigram model, in bits a byte; None where no record says it."""
    return None if found is None else unigram_bits(found)


def _draws(study: Study, cell: Placed) -> Row:
    """Which start and order of the text a run has, and how often it was made before; nothing of one not begun."""
    folder = study.root / cell.run
    if not (folder / SPEC_FILE).exists():
        return {}
    stage = stages_of(folder)[-1]
    training = stage["training"]
    return {"start": training["seed"], "order": training["data_seed"], "rerun": stage.get("rerun", 0)}


def measures_of(plan: PlanRecord, purpose: str) -> list[dict[str, Any]]:
    """The yardsticks that a cell of this purpose is asked, the one that counts first."""
    primary, tune = plan.design.primary.measure.table, plan.design.tune
    if purpose == "sweep" and tune is not None:
        return [{**primary, "split": tune.split}]
    if purpose in ("sweep", "length", "bracket", "variance"):
        return [primary]
    return [primary, *(other.table for other in plan.design.others)]


def answers_to(found: Evaluation, yardstick: Mapping[str, Any], text: str, n_steps: int) -> bool:
    """Are these a finished run's answers to this yardstick on this text? Others may lie beside them."""
    head = found.head
    return head.yardstick == yardstick and head.text == text and head.step == n_steps - 1


def _found(study: Study, plan: PlanRecord, cell: Placed, asked: Sequence[Mapping[str, Any]]) -> dict[str, Evaluation]:
    """What a cell's run answered, by the name of the column."""
    text = plan.arms[cell.arm].text
    there = list(evaluations(study.root / cell.run))
    pairs = ((name_of(told), one) for told in asked for one in there if answers_to(one, told, text, cell.n_steps))
    return dict(pairs)


def _outcome(study: Study, cell: Placed, found: Mapping[str, Evaluation], primary: str) -> tuple[str, str]:
    """How a run stands and why; one that was not measured is still open."""
    outcome, reason = study.outcome(cell.run)
    if outcome != "finished":
        return outcome, reason
    if primary not in found:
        return "open", "trained, not measured yet"
    if value_of(found[primary]) is None:
        return unlearnt(found[primary], study, cell.run)
    return outcome, reason


def unlearnt(found: Evaluation, study: Study, run: str) -> tuple[str, str]:
    """How a finished run whose answers have no value ended, and why.

    It diverged where its answers are not finite or its loss has risen; else it was not trained long enough.
    """
    if not math.isfinite(bits_of(found)):
        return "diverged", "its answers are not finite"
    if has_risen(_losses(study, run)):
        return "diverged", f"{WORSE}, after its loss had risen"
    return UNDERTRAINED, REASON


def _losses(study: Study, run: str) -> list[float]:
    """The validation losses of a run in order; where there is one at most, those of training."""
    own = read_rows(study.root / run / ROWS_FILE).rows
    for name in ("valid_nats", "nats"):
        losses = [row[name] for row in own if row.get(name) is not None]
        losses += [math.nan for row in own if name in row.get(NONFINITE, {})]
        if len(losses) > 1:
            return losses
    return []


def name_of(yardstick: Mapping[str, Any]) -> str:
    """What a yardstick's column is called: its kind and split, in bits a byte."""
    return f"{yardstick['kind']}.{yardstick['split']}"


def value_of(found: Evaluation) -> float | None:
    """Bits a byte; None where it is not a number, or worse than the unigram model: the run has learnt nothing.

    Every token of a target costs the unigram model the same whatever is in sight, so the rule holds of a
    pseudo-likelihood as of a likelihood. Older records do not say what it would have cost.
    """
    unigram = math.inf if found.head.unigram_nats is None else found.head.unigram_nats
    nats = learnt(math.fsum(answer.nats for answer in found.answers), unigram=unigram, lower_is_better=True)
    return None if nats is None else bits_of(found)


def unigram_bits(found: Evaluation) -> float | None:
    """Bits per byte of the unigram model on the same targets; None in older records, which do not say it."""
    if found.head.unigram_nats is None:
        return None
    return found.head.unigram_nats / math.log(2) / sum(answer.n_bytes for answer in found.answers)


def bits_of(found: Evaluation) -> float:
    """Bits per byte of all answers, whatever they are worth."""
    nats = math.fsum(answer.nats for answer in found.answers)
    return nats / math.log(2) / sum(answer.n_bytes for answer in found.answers)
