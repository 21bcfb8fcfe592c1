"""What a fine-tuned head says of held-out texts of its run's own corpus: one line, with the floors
beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args

from rich.table import Table

from paribus.cli.terminal.console import console, justify_method, print_json, print_notes
from paribus.corpus import Split, prepare_corpus
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.errors import SpecError
from paribus.evaluate.head_answers import evaluate_head
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.record import TaskEvaluation
from paribus.report.numbers import format_percent, score
from paribus.runtime import select_device
from paribus.spec.corpus import Corpus
from paribus.spec.objectives import TextLabels, WordTags
from paribus.workspace import Workspace


def has_head(checkpoint: LoadedCheckpoint) -> bool:
    """Whether a checkpoint is of a run that ends with a head."""
    if checkpoint.run is None or checkpoint.stage is None:
        return False
    return isinstance(checkpoint.stage.objective, TextLabels | WordTags)


def evaluate_run_head(
    checkpoint: LoadedCheckpoint, text: Corpus, fields: Mapping[str, Any], workspace: Workspace
) -> TaskEvaluation:
    """The head of a run, asked for the labels of a held-out split of its own corpus."""
    split = fields.get("split", "test")
    for name in fields:
        if name != "split":
            raise SpecError(
                f"{name} is given, but a head is asked for every label of a split; leave it out"
            )
    if split not in get_args(Split):
        raise SpecError(f"split is {split!r}; use one of {', '.join(get_args(Split))}")
    assert checkpoint.run is not None
    assert checkpoint.stage is not None
    objective = checkpoint.stage.objective
    assert isinstance(objective, TextLabels | WordTags)
    dataset = prepare_corpus(text, workspace.cache_folder, show_progress=True)
    labelled = LabelledCorpus(dataset, objective)
    return evaluate_head(checkpoint.run, labelled, select_device(workspace.device), split)


def print_head(evaluation: TaskEvaluation, as_json: bool) -> None:
    """A table for people, or all but the single answers for another program."""
    if as_json:
        print_json({**asdict(evaluation.head), "score": evaluation.score})
        return
    head = evaluation.head
    if head.n_truncated:
        print_notes(
            f"{head.n_truncated} of {head.n_items} texts are longer than the window and lost their"
            " ends"
        )
    console().print(_table(evaluation))


def _table(evaluation: TaskEvaluation) -> Table:
    head = evaluation.head
    cells = {
        "head": str(head.task["kind"]),
        "split": str(head.task["split"]),
        "step": str(head.step + 1),
        "items": str(head.n_items),
        "accuracy": format_percent(head.summary["accuracy"]),
        "Matthews": score(head.summary["matthews"]),
        "macro F1": score(head.summary["macro f1"]),
        "uniform": format_percent(head.floors["uniform"]),
        "majority": format_percent(head.floors["majority"]),
    }
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in cells:
        justify = justify_method(heading not in ("head", "split"))
        table.add_column(heading, justify=justify, no_wrap=True)
    table.add_row(*cells.values())
    return table
