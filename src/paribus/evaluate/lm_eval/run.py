"""Tasks of lm-evaluation-harness run by its own task runner on a checkpoint, and its samples kept
as rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lm_eval
import torch
from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable

from paribus.errors import SpecError
from paribus.evaluate.lm_eval.model import ParibusLM
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.record import CHECKPOINTS, latest_checkpoint
from paribus.record.lm_eval_samples import write_lm_eval_samples

TASK_ENDINGS = (".yaml", ".yml")
_STDERR = "_stderr"


@dataclass(frozen=True)
class LmEvalRequest:
    """Which tasks are run, and how: names that lm-eval knows, or folders and files of YAML."""

    tasks: tuple[str, ...]
    framing: str = "trained"
    n_fewshot: int | None = None  # None: as each task says
    n_items: int | None = None  # of each task; None: all
    n_sequences: int | None = None


@dataclass(frozen=True)
class TaskScore:
    """One metric of one task."""

    task: str
    metric: str
    filter: str
    value: float | None
    stderr: float | None
    n_items: int
    n_fewshot: int


@dataclass(frozen=True)
class LmEvalResult:
    """Scores of all tasks, and the files that hold their samples."""

    scores: tuple[TaskScore, ...]
    files: tuple[Path, ...]
    framing: str
    window: int


def run_lm_eval(
    checkpoint: LoadedCheckpoint, request: LmEvalRequest, device: torch.device
) -> LmEvalResult:
    """Run tasks on a checkpoint. Samples of a run's newest checkpoint are kept with the run, those
    of one that lies by itself beside it, those of an earlier one of a run nowhere.
    """
    manager, tasks = _find_tasks(request.tasks)
    model = ParibusLM(checkpoint, request.framing, device, request.n_sequences)
    results = simple_evaluate(
        model=model,
        tasks=list(tasks),
        task_manager=manager,
        num_fewshot=request.n_fewshot,
        limit=request.n_items,
    )
    assert results is not None
    table = _plain_values(results)
    folder = _folder_of(checkpoint)
    files = []
    if folder is not None:
        for task, samples in table["samples"].items():
            question = _question(task, request, table)
            answer = {
                **model.get_model_info(),
                "lm_eval": lm_eval.__version__,
                "results": table["results"].get(task, {}),
            }
            files.append(write_lm_eval_samples(folder, question, answer, samples))
    return LmEvalResult(tuple(_scores(table)), tuple(files), request.framing, model.window)


def _find_tasks(names: Sequence[str]) -> tuple[TaskManager, tuple[str, ...]]:
    """lm-eval's tasks by name, and those of local folders and files under theirs."""
    known, local, folders = [], [], []
    for name in names:
        path = Path(name)
        if path.is_dir():
            folders.append(path)
            local.append(path)
        elif path.suffix in TASK_ENDINGS:
            if not path.is_file():
                raise SpecError(f"{name} is no file; give a task's name, its YAML or its folder")
            folders.append(path.parent)
            local.append(path)
        else:
            known.append(name)
    manager = TaskManager(include_path=list(folders), include_defaults=bool(known))
    for name in known:
        if not manager.match_tasks([name]):
            raise SpecError(
                f"lm-eval has no task {name!r}; `lm-eval ls tasks` lists them, and a folder of"
                " YAML files may be given"
            )
    tasks = [*known, *_tasks_below(manager, local)]
    if not tasks:
        raise SpecError(f"{', '.join(names)} holds no task; give a folder of YAML files with one")
    return manager, tuple(tasks)


def _tasks_below(manager: TaskManager, paths: Sequence[Path]) -> Iterator[str]:
    """The tasks whose YAML is one of these files, or lies in one of these folders."""
    places = [path.resolve() for path in paths]
    for name in manager.all_subtasks:
        file = manager.task_index[name].yaml_path
        if file is not None and any(file.resolve().is_relative_to(place) for place in places):
            yield name


def _plain_values(results: Mapping[str, Any]) -> dict[str, Any]:
    """What lm-eval gives, in values that JSON has; a number that is not finite is its name."""
    text = json.dumps(dict(results), default=handle_non_serializable)
    return json.loads(text, parse_constant=str)


def _folder_of(checkpoint: LoadedCheckpoint) -> Path | None:
    """Where samples of a checkpoint are kept; None where they would take the place of a newer
    one's.
    """
    if checkpoint.run is None:
        return checkpoint.folder
    newest = latest_checkpoint(checkpoint.run / CHECKPOINTS).checkpoint
    if newest is not None and newest.folder.samefile(checkpoint.folder):
        return checkpoint.run
    return None


def _question(task: str, request: LmEvalRequest, table: Mapping[str, Any]) -> dict[str, Any]:
    """What a task asked of the model, by which its samples are found again."""
    return {
        "task": task,
        "version": table["versions"].get(task),
        "framing": request.framing,
        "n_fewshot": table["n-shot"].get(task),
        "n_items": table["n-samples"][task]["effective"],
    }


def _scores(table: Mapping[str, Any]) -> Iterator[TaskScore]:
    for task, values in table["results"].items():
        for key, value in values.items():
            metric, comma, filter_name = key.partition(",")
            if not comma or metric.endswith(_STDERR):
                continue
            yield TaskScore(
                task=task,
                metric=metric,
                filter=filter_name,
                value=_number(value),
                stderr=_number(values.get(f"{metric}{_STDERR},{filter_name}")),
                n_items=table["n-samples"].get(task, {}).get("effective", 0),
                n_fewshot=table["n-shot"].get(task) or 0,
            )


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None
