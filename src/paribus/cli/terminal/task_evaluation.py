"""Runs and checkpoints asked tasks together, and the table of what they score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from paribus.analyse.task_scores import score_interval
from paribus.cli.terminal.console import console, justify_method, print_json, print_notes
from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.errors import SpecError
from paribus.evaluate.tasks import TaskSubject, evaluate_task, overlap_share
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint, stages_of
from paribus.record import TaskEvaluation, read_stages
from paribus.record.file_names import TOKENIZER_FILE
from paribus.report.numbers import DASH, format_percent, score
from paribus.runtime import select_device
from paribus.spec.measure import TASK_MEASURES
from paribus.spec.stages import stage_corpus
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import FewShot, Protocol, Task, ZeroShot
from paribus.workspace import Workspace

LEFT_ALIGNED = ("run", "task", "protocol", "measure", "label")
FLOORS = ("uniform", "majority", "length")
_PLAIN_MEASURES = ("matthews", "bits per byte", "log loss")  # which are no shares


@dataclass(frozen=True)
class NamedEvaluation:
    """What one run answered to one task."""

    run: str
    evaluation: TaskEvaluation


def evaluate_tasks(
    runs: str | Path | Sequence[str | Path],
    tasks: str | Path | dict[str, Any] | Sequence[str | Path | dict[str, Any]],
    *,
    shots: int = 0,
    changes: dict[str, Any] | None = None,
    tokenizer: str | Path | None = None,
    workspace: Workspace | None = None,
) -> list[NamedEvaluation]:
    """Ask tasks of runs, or of checkpoints, all of them the same items.

    A task is a file, a table, the name of a built-in one, or `reader:path`. `shots` is the largest
    number of demonstrations, `changes` are fields of all tasks by dotted path, `tokenizer` is that
    of a checkpoint which has none.
    """
    workspace = workspace or Workspace()
    names = [runs] if isinstance(runs, str | Path) else list(runs)
    sources = [tasks] if isinstance(tasks, str | Path | dict) else list(tasks)
    loaded = [load_task(source, changes) for source in sources]
    _require_distinct(loaded)
    subjects = [named_subject(name, workspace, tokenizer) for name in names]
    protocol: Protocol = ZeroShot()
    if shots:
        protocol = FewShot(n_demonstrations=shots)
    device = select_device(workspace.device)
    results: list[NamedEvaluation] = []
    for task in loaded:
        evaluations = evaluate_task(subjects, task, protocol, device=device)
        for name, evaluation in zip(names, evaluations, strict=True):
            results.append(NamedEvaluation(str(name), evaluation))
    return results


def _require_distinct(tasks: Sequence[Task]) -> None:
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"two tasks are called {name!r}; give one of them another name = …")


def named_subject(
    name: str | Path, workspace: Workspace, tokenizer: str | Path | None = None
) -> TaskSubject:
    """A run or a checkpoint under its name, with the text it was trained on."""
    checkpoint = load_checkpoint(name, workspace.runs_folder, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    return TaskSubject(checkpoint, tuple(_training_texts(checkpoint, workspace)))


def _training_texts(
    checkpoint: LoadedCheckpoint, workspace: Workspace
) -> Iterator[TokenisedCorpus]:
    """The text of each stage of a run; none of a checkpoint that was not trained here."""
    if checkpoint.run is None:
        return
    stages = stages_of(checkpoint.run)
    tokenizer = checkpoint.folder / TOKENIZER_FILE
    written = read_stages(checkpoint.run)
    for stage, table in zip(stages, written, strict=True):
        corpus = stage_corpus(stage.corpus, stages[0].corpus, tokenizer)
        dataset = prepare_corpus(corpus, workspace.cache_folder, show_progress=True)
        if dataset.fingerprint != table.get("text"):
            print_notes(
                "the text is not the text that the run was trained on: its sources have changed"
            )
        yield dataset


def print_tasks(
    names: Sequence[str],
    tasks: str,
    shots: int,
    changes: dict[str, Any],
    tokenizer: Path | None,
    workspace: Workspace,
    json: bool,
) -> None:
    """Ask tasks, separated by commas, and print what they score."""
    sources = [source.strip() for source in tasks.split(",") if source.strip()]
    if not sources:
        raise SpecError("--tasks names no task; give files or names, separated by commas")
    results = evaluate_tasks(
        names, sources, shots=shots, changes=changes, tokenizer=tokenizer, workspace=workspace
    )
    print_notes(*task_remarks(results))
    if json:
        print_json(results_json(results))
    else:
        console().print(task_table(results))


def task_table(results: Sequence[NamedEvaluation]) -> Table:
    """A row for each run and task: its score, interval and floors."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    rows = [_cells(result) for result in results]
    for heading in rows[0]:
        justify = justify_method(heading not in LEFT_ALIGNED)
        table.add_column(heading, justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*row.values())
    return table


def task_remarks(results: Sequence[NamedEvaluation]) -> Iterator[str]:
    """What a person should know beside the numbers."""
    names: set[str] = set()
    for result in results:
        head = result.evaluation.head
        if head.label == "pseudo-likelihood":
            yield (
                f"{result.run}, {head.name}: pseudo-likelihoods are no probabilities; compare them"
                " with their like"
            )
        if head.name in names:
            continue
        names.add(head.name)
        if head.n_left_out:
            yield (
                f"{head.name}: {head.n_left_out} items do not fit every model that is asked, and"
                " are left out for all"
            )
        if head.n_truncated:
            yield f"{head.name}: {head.n_truncated} contexts were cut at the same byte for all"


def results_json(results: Sequence[NamedEvaluation]) -> list[dict[str, Any]]:
    """Everything but the single answers, for another program."""
    tables: list[dict[str, Any]] = []
    for result in results:
        evaluation = result.evaluation
        value = evaluation.score
        tables.append(
            {
                "run": result.run,
                **asdict(evaluation.head),
                "score": value if math.isfinite(value) else None,
                "interval": score_interval(evaluation),
                "highest_floor": evaluation.highest_floor,
                "is_above_floor": is_above_floor(evaluation),
                "overlap": overlap_share(evaluation),
            }
        )
    return tables


def is_above_floor(evaluation: TaskEvaluation) -> bool | None:
    """Whether the whole interval is better than the highest floor; None where there is no floor or
    no interval.
    """
    interval, floor = score_interval(evaluation), evaluation.highest_floor
    if interval is None or floor is None:
        return None
    if TASK_MEASURES[evaluation.head.measure].lower_is_better:
        return interval[1] < floor
    return interval[0] > floor


def _cells(result: NamedEvaluation) -> dict[str, str]:
    evaluation, head = result.evaluation, result.evaluation.head
    measure = head.measure
    interval = score_interval(evaluation)
    cells = {
        "run": result.run,
        "task": head.name,
        "protocol": _describe_protocol(head.protocol),
        "measure": measure,
        "score": _format(evaluation.score, measure),
        "95 % interval": DASH,
    }
    if interval is not None:
        low, high = (_format(bound, measure) for bound in interval)
        cells["95 % interval"] = f"{low} to {high}"
    for floor in FLOORS:
        cells[floor] = DASH
        if floor in head.floors:
            cells[floor] = _format(head.floors[floor], measure)
    above = is_above_floor(evaluation)
    overlap = overlap_share(evaluation)
    return {
        **cells,
        "above floors": {None: DASH, True: "yes", False: "no"}[above],
        "items": str(head.n_items),
        "left out": str(head.n_left_out),
        "in training text": DASH if overlap is None else format_percent(overlap),
    }


def _describe_protocol(protocol: dict[str, Any]) -> str:
    if protocol["kind"] != "few-shot":
        return str(protocol["kind"])
    fewest, most = protocol["fewest"], protocol["most"]
    if fewest == most:
        return f"{most}-shot"
    return f"{fewest} to {most}-shot"


def _format(value: float, measure: str) -> str:
    if measure in _PLAIN_MEASURES:
        return score(value)
    return format_percent(value)
