"""Tasks of lm-evaluation-harness on a run: what is asked for, and a table of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from paribus.cli.terminal.console import console, justify_method, print_json, print_notes
from paribus.errors import SpecError, UnsupportedError
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.report.numbers import score
from paribus.runtime import select_device
from paribus.workspace import Workspace

if TYPE_CHECKING:
    from paribus.evaluate.lm_eval.run import LmEvalResult

SETTINGS = ("framing", "n_fewshot", "n_items")
LEFT_ALIGNED = ("task", "metric", "filter", "framing")


def evaluate_lm_eval(
    run: str | Path,
    tasks: str,
    fields: Mapping[str, Any],
    *,
    tokenizer: str | Path | None = None,
    workspace: Workspace | None = None,
    n_sequences: int | None = None,
) -> LmEvalResult:
    """Tasks of lm-eval, separated by commas, on a run, given by its name or folder, or on a
    checkpoint.

    A task is named, or is a YAML file, or all of a folder's. `fields` may set `framing` ('trained'
    or 'plain'), `n_fewshot` and `n_items`.
    """
    _require_settings(fields)
    if find_spec("lm_eval") is None:
        raise UnsupportedError(
            "--lm-eval needs lm-eval, which is not installed; run pip install 'paribus[eval]'"
        )
    # the extra's packages take seconds to import, and may not be there
    from paribus.evaluate.lm_eval.run import LmEvalRequest, run_lm_eval

    workspace = workspace or Workspace()
    names = tuple(name.strip() for name in tasks.split(",") if name.strip())
    if not names:
        raise SpecError("--lm-eval names no task; give names or folders, separated by commas")
    request = LmEvalRequest(
        tasks=names,
        framing=fields.get("framing", "trained"),
        n_fewshot=fields.get("n_fewshot"),
        n_items=fields.get("n_items"),
        n_sequences=n_sequences,
    )
    checkpoint = load_checkpoint(run, workspace.runs_folder, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    return run_lm_eval(checkpoint, request, select_device(workspace.device))


def print_lm_eval(result: LmEvalResult, as_json: bool) -> None:
    """A table of scores and where the samples are, or all of it for another program."""
    if as_json:
        print_json(
            {
                "framing": result.framing,
                "window": result.window,
                "scores": [asdict(task_score) for task_score in result.scores],
                "files": [str(path) for path in result.files],
            }
        )
        return
    console().print(_score_table(result))
    for path in result.files:
        print_notes(f"samples are in {path}")


def _require_settings(fields: Mapping[str, Any]) -> None:
    problems = []
    for name, value in fields.items():
        if name not in SETTINGS:
            problems.append(f"--set {name} is given with --lm-eval; use {', '.join(SETTINGS)}")
        elif name != "framing" and (not isinstance(value, int) or value < 0):
            problems.append(f"--set {name} is {value!r}; use a whole number")
    if problems:
        raise SpecError(problems)


def _score_table(result: LmEvalResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    headings = ("task", "metric", "filter", "score", "± error", "items", "shots", "framing")
    for heading in headings:
        justify = justify_method(heading not in LEFT_ALIGNED)
        table.add_column(heading, justify=justify, no_wrap=True)
    for one in result.scores:
        table.add_row(
            one.task,
            one.metric,
            one.filter,
            score(one.value),
            score(one.stderr),
            str(one.n_items),
            str(one.n_fewshot),
            result.framing,
        )
    return table
