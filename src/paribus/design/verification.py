"""Runs of a finished study made again: do they give the rows that the study holds?

Which runs is drawn by a word. Whoever made the study must not have known the word, or they could
have left just those runs as they were; so it comes from the random source of the machine that
verifies. It is printed, and the same word draws the same runs. The weights of the study are not
needed: a run is made from its spec, in a folder of its own, and asked the same items.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paribus.analyse.run_answers import column_of, read_answers
from paribus.analyse.run_scores import Answers, raw_score
from paribus.analyse.run_table import measures_of
from paribus.analyse.seal import answers_without_machine, rows_without_clock
from paribus.canonical import canonical_hash
from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.design.cells import Cell
from paribus.design.on.local import WorkerPool
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import SpecError
from paribus.record import (
    CellRecord,
    Study,
    TaskEvaluation,
    environment_differences,
    open_study,
    read_environments,
)
from paribus.record.file_names import ASKED_PATTERN
from paribus.record.folder import read_stages
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan
from paribus.record.rows import Row
from paribus.spec.corpus import Corpus
from paribus.spec.run import RunSpec
from paribus.spec.yardstick import read_design_yardstick
from paribus.train.chain import prepare_texts
from paribus.workspace import Execution, Local, Workspace

CPU = "cpu"
LOSSES = ("nats", "valid_nats")
# How far a loss or a score may be from the recorded one where the environment is another, and how
# many of the items of a task may be answered otherwise.
TOLERANCE, TASK_TOLERANCE = 0.02, 0.05
MIN_NUMBER = 1e-9  # what a loss is at least taken for, where a share of it is asked
_COUNTS = ("step", "tokens_read", "positions_computed", "tokens_scored", "bytes_scored", "rate")


@dataclass(frozen=True)
class RunCheck:
    """A run that was made again, and how it compares with the recorded one."""

    cell: str
    run: str
    environment: tuple[str, ...] = ()  # what is not as it was: "torch was 2.9.0, is 2.10.0"
    differences: tuple[str, ...] = ()  # what is not the same to the bit
    # of these, what another environment does not explain, and why a run could not be made
    faults: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """How the run compares, in words."""
        text = "; ".join(self.faults)
        if not self.differences and not self.faults:
            text = "equal to the bit"
        elif not self.faults:
            text = f"equal but for rounding ({'; '.join(self.differences)})"
        if self.environment:
            text += f", made under another environment: {', '.join(self.environment)}"
        return f"{self.cell}, run {self.run}: {text}"


def drawn_cells(study: Study, n_runs: int, word: str) -> list[CellRecord]:
    """So many cells of a study whose runs have ended, drawn by a word: those whose names come first
    when they are hashed with it.
    """
    by_run: dict[str, CellRecord] = {}
    for cell in study.planned_cells():
        if study.run_outcome(cell.run)[0] in ("finished", "diverged"):
            by_run.setdefault(cell.run, cell)
    if not 1 <= n_runs <= len(by_run):
        raise SpecError(
            f"--verify is {n_runs}, and {study.folder.name} has {len(by_run)} runs that have"
            f" ended; use 1 to {len(by_run)}"
        )
    order = sorted(by_run, key=lambda run: canonical_hash([word, run]))
    return [by_run[run] for run in order[:n_runs]]


def verify_runs(
    study: Study,
    cells: Sequence[CellRecord],
    cache: Path,
    watcher: StudyWatcher | None = None,
) -> Iterator[RunCheck]:
    """Make the runs of some cells again, one after another, and compare each with the record.

    Each is made on the kind of device and with the threads that it was made with, as far as this
    machine has them.
    """
    plan, texts = read_plan(study), dict[str, TokenisedCorpus]()
    for cell in cells:
        with tempfile.TemporaryDirectory(prefix="paribus-verify-") as folder:
            yield _verify_cell(study, plan, cell, _Again(Path(folder), cache, texts, watcher))


@dataclass(frozen=True)
class _Again:
    """Where runs are made again, and the texts that were read so far."""

    runs: Path
    cache: Path
    texts: dict[str, TokenisedCorpus]  # by their corpus
    watcher: StudyWatcher | None

    def text(self, corpus: Corpus) -> TokenisedCorpus:
        key = corpus.model_dump_json()
        if key not in self.texts:
            self.texts[key] = prepare_corpus(corpus, self.cache, show_progress=False)
        return self.texts[key]


def _verify_cell(study: Study, plan: PlanRecord, record: CellRecord, again: _Again) -> RunCheck:
    cell = _cell_again(study, plan, record, again)
    before = read_environments(study.root / record.run)[-1]
    if cell.name != record.run:
        fault = (
            f"its spec and text here give the run {cell.name}; {_text_advice(study, record, cell)}"
        )
        return RunCheck(str(cell), record.run, faults=(fault,))
    there = open_study(again.runs, study.folder.name)
    for path in study.folder.glob(ASKED_PATTERN):
        shutil.copy(path, there.folder / path.name)
    workspace = Workspace(
        again.runs, cache=again.cache, device=CPU if before.get("device") == CPU else None
    )
    # Two jobs are two processes of one thread each, as the study had them.
    n_jobs = 2 if before.get("n_threads") == 1 else 1
    with WorkerPool(Execution(workspace, n_jobs, on=Local(use_mps=False))) as pool:
        failures = pool.run_cells([cell], there, again.watcher or StudyWatcher())
    if failures:
        return RunCheck(str(cell), record.run, faults=tuple(failures.values()))
    changes = environment_differences(before, read_environments(again.runs / cell.name)[-1])
    comparison = _Comparison(may_round=bool(changes))
    outcomes = study.run_outcome(record.run)[0], there.run_outcome(cell.name)[0]
    if outcomes[0] != outcomes[1]:
        comparison.add_fault(f"it {outcomes[1]}, and the record says {outcomes[0]}")
    folders = study.root / record.run, again.runs / cell.name
    comparison.compare_rows(*map(rows_without_clock, folders))
    for yardstick in measures_of(plan, record.purpose):
        text, column = plan.arms[record.arm].text, column_of(yardstick)
        found = []
        for folder in folders:
            answers = read_answers(folder, [yardstick], text, record.n_steps, plan.items)
            found.append(answers.get(column))
        comparison.compare_answers(column, *found)
    return RunCheck(
        cell=str(cell),
        run=record.run,
        environment=tuple(
            [f"{name} was {then}, is {now}" for name, (then, now) in changes.items()]
        ),
        differences=tuple(comparison.differences),
        faults=tuple(comparison.faults),
    )


def _cell_again(study: Study, plan: PlanRecord, record: CellRecord, again: _Again) -> Cell:
    """The cell of a record: the run of its arm, with the training that the run has written down."""
    stages = read_stages(study.root / record.run)
    table = json.loads(json.dumps(plan.arm_at(record.arm, record.size).run.table))
    table["stages"] = table["stages"][: len(stages)]
    for own, written in zip(table["stages"], stages, strict=True):
        own["training"] = written["training"]
    table["rerun"] = stages[-1].get("rerun", 0)
    run = RunSpec.model_validate_json(json.dumps(table))
    return Cell(
        arm=record.arm,
        seed=record.seed,
        rate=record.rate,
        purpose=record.purpose,
        run=run,
        texts=prepare_texts(run, again.text),
        measures=tuple(map(read_design_yardstick, measures_of(plan, record.purpose))),
        flops=0.0,
        design_fingerprint=record.plan,
        items=plan.items,
        size=record.size,
    )


def _text_advice(study: Study, record: CellRecord, cell: Cell) -> str:
    """Which text is another one than the run read."""
    for number, stage in enumerate(read_stages(study.root / record.run)):
        own = cell.texts[number].fingerprint
        if stage["text"] != own:
            return (
                f"the text of stage {number} is {own[:16]}, and was {stage['text'][:16]}: put the"
                " files there that it was read from"
            )
    return "use the version of paribus that made it"


class _Comparison:
    """What differs between a record and the same run made again. Under another environment sums
    are rounded otherwise: counts must agree, losses and scores nearly.
    """

    def __init__(self, may_round: bool):
        self.may_round = may_round
        self.differences: list[str] = []
        self.faults: list[str] = []

    def add_fault(self, text: str) -> None:
        """Something that rounding does not explain."""
        self.differences.append(text)
        self.faults.append(text)

    def compare_rows(self, recorded: list[Row], repeated: list[Row]) -> None:
        if recorded == repeated:
            return
        if len(recorded) != len(repeated):
            self.add_fault(f"it wrote {len(repeated)} rows, and the record has {len(recorded)}")
            return
        largest = 0.0
        for then, now in zip(recorded, repeated, strict=True):
            for name in dict.fromkeys((*then, *now)):
                one, other = then.get(name), now.get(name)
                if one == other:
                    continue
                if name in _COUNTS or not self.may_round:
                    step = then.get("step")
                    self.add_fault(f"{name} at step {step} is {other}, and the record has {one}")
                    return
                if name in LOSSES:
                    largest = max(largest, _relative_difference(one, other))
        self._add_difference("losses", largest, TOLERANCE)

    def compare_answers(
        self, column: str, recorded: Answers | None, repeated: Answers | None
    ) -> None:
        if recorded is None or repeated is None:
            if recorded is not repeated:
                self.add_fault(f"{column}: only one of the two was asked")
            return
        if _answers_table(recorded) == _answers_table(repeated):
            return
        if [one.item for one in recorded.answers] != [one.item for one in repeated.answers]:
            self.add_fault(f"{column}: other items were asked")
        elif not self.may_round:
            scores = f"{raw_score(repeated):.6g}, and the record has {raw_score(recorded):.6g}"
            self.add_fault(f"{column}: other answers, with a score of {scores}")
        elif isinstance(recorded, TaskEvaluation) and isinstance(repeated, TaskEvaluation):
            pairs = zip(recorded.answers, repeated.answers, strict=True)
            n_other = sum(one.score != other.score for one, other in pairs)
            n_most = max(1, TASK_TOLERANCE * len(repeated.answers))
            share = n_other / len(repeated.answers)
            self._add_difference(f"{column}, by items", share, n_most / len(repeated.answers))
        else:
            largest = _relative_difference(raw_score(recorded), raw_score(repeated))
            self._add_difference(column, largest, TOLERANCE)

    def _add_difference(self, name: str, largest: float, limit: float) -> None:
        text = f"{name}: up to {largest:.2g} of it"
        if largest > limit:
            self.add_fault(f"{text}, and rounding explains {limit:.2g}")
        else:
            self.differences.append(text)


def _answers_table(answers: Answers) -> Any:
    return answers_without_machine(asdict(answers))


def _relative_difference(one: Any, other: Any) -> float:
    """How far two numbers are apart, as a share of the first; 0 of two that are not numbers."""
    is_number = isinstance(one, int | float), isinstance(other, int | float)
    if not all(is_number):
        return math.inf if any(is_number) else 0.0
    if math.isnan(one) and math.isnan(other):
        return 0.0
    difference = abs(other - one) / max(abs(one), MIN_NUMBER)
    return math.inf if math.isnan(difference) else difference
