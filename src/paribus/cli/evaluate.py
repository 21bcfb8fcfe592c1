"""Measure a run on held-out text: nats and bits per byte of targets, given their contexts.

The yardstick is halves (the second half of a document, given the first), pairs (a target, given its
source) or pseudo (each token of the second half masked in turn, all other tokens visible). A pseudo
score is no likelihood; compare it only with other pseudo scores. By default, the yardstick is the
one that suits the run's text and objective. The run's last complete checkpoint is measured, and
items are laid out as in its training. RUN/evaluations keeps one line per item, and what was
measured before is read from there.

A run that was fine-tuned with a head is asked for the labels or tags of its held-out texts, and the
table has accuracy, Matthews' correlation, macro F1 and the floors of a uniform guess and of the
majority label.

An imported checkpoint is measured on the text that --corpus names, with the special tokens of its
own tokenizer, as a model of the objective that `paribus import` recorded.

With --tasks, one or more runs are asked tasks instead, all of them the same items. The table has
the score of each, its interval, and what is scored without a model: by a guess, by the most
frequent answer, by length alone. --shots K gives up to K demonstrations. `paribus tasks` lists what
there is.

With --lm-eval, tasks of lm-evaluation-harness are run instead of a yardstick. Their prompts are
laid out as in training, or with --set framing=plain as lm-eval does for models of transformers.
--set n_fewshot=N gives N demonstrations. RUN/lm-eval keeps one line per item.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.cli.terminal.arguments import JsonOption, parse_settings
from paribus.cli.terminal.console import console, print_json, print_notes
from paribus.cli.terminal.evaluation_table import (
    evaluation_json,
    evaluation_remarks,
    evaluation_table,
)
from paribus.cli.terminal.folders import (
    RUN_HELP,
    RUNS,
    CacheOption,
    DeviceOption,
    RunsOption,
    TokenizerOption,
)
from paribus.cli.terminal.head_table import evaluate_run_head, has_head, print_head
from paribus.cli.terminal.lm_eval_table import evaluate_lm_eval, print_lm_eval
from paribus.cli.terminal.task_evaluation import print_tasks
from paribus.cli.terminal.text_choice import corpus_of
from paribus.corpus import prepare_corpus
from paribus.errors import SpecError
from paribus.evaluate import evaluate_checkpoint
from paribus.evaluate.likelihood import N_SEQUENCES
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.record import Evaluation, read_stages
from paribus.runtime import select_device
from paribus.spec.corpus import Corpus
from paribus.spec.yardstick import Yardstick, default_yardstick, load_yardstick
from paribus.workspace import Workspace


def evaluate_run(
    run: str | Path,
    yardstick: str | Mapping[str, Any] | None = None,
    *,
    corpus: str | Path | Mapping[str, Any] | None = None,
    tokenizer: str | Path | None = None,
    workspace: Workspace | None = None,
    n_sequences: int = N_SEQUENCES,
) -> Evaluation:
    """A run, given by its name or folder, or a checkpoint, measured.

    `yardstick` is a kind, or a table of fields, such as {"kind": "halves", "n_items": 50}; the kind
    is by default the one that suits the run. `corpus` is the spec of the text that a checkpoint
    which was not trained here is measured on.
    """
    workspace = workspace or Workspace()
    checkpoint = load_checkpoint(run, workspace.runs_folder, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    text = _corpus_of(checkpoint, corpus)
    chosen_yardstick = _yardstick_of(checkpoint, text, yardstick)
    dataset = prepare_corpus(text, workspace.cache_folder, show_progress=True)
    trained_text = dataset.fingerprint
    if checkpoint.run is not None:
        trained_text = read_stages(checkpoint.run)[-1].get("text")
    if dataset.fingerprint != trained_text:
        print_notes(
            "the text is not the text that the run was trained on: its sources have changed"
        )
    evaluation = evaluate_checkpoint(
        checkpoint,
        chosen_yardstick,
        dataset,
        device=select_device(workspace.device),
        n_sequences=n_sequences,
    )
    print_notes(*evaluation_remarks(evaluation))
    return evaluation


def _yardstick_of(
    checkpoint: LoadedCheckpoint, text: Corpus, yardstick: str | Mapping[str, Any] | None
) -> Yardstick:
    if yardstick is None or isinstance(yardstick, str):
        kind, fields = yardstick, {}
    else:
        fields = dict(yardstick)
        kind = fields.pop("kind", None)
    if kind is None:
        kind = default_yardstick(text, checkpoint.objective()).kind
    return load_yardstick(kind, fields)


def _corpus_of(
    checkpoint: LoadedCheckpoint, corpus: str | Path | Mapping[str, Any] | None
) -> Corpus:
    """The text of a run, or the text that is named for a checkpoint that was not trained here."""
    if checkpoint.run is not None and corpus is not None:
        raise SpecError(
            f"--corpus is given, but {checkpoint.run} has the text it was trained on; leave it out"
        )
    return corpus_of(checkpoint, corpus)


def _require_left_out(option: str, others: Mapping[str, Any]) -> None:
    """SpecError where an option is given that means nothing beside another."""
    for name, value in others.items():
        if value is not None:
            raise SpecError(
                f"{name} is given beside {option}, which has no use for it; leave it out"
            )


def _require_one_run(names: list[str], shots: int) -> str:
    if len(names) > 1:
        raise SpecError(
            f"{len(names)} runs are named, but only tasks are asked of several at once; name one,"
            " or give --tasks"
        )
    if shots:
        raise SpecError("--shots is given without --tasks; give tasks, or leave it out")
    return names[0]


def command(
    names: Annotated[list[str], typer.Argument(metavar="RUN…", help=RUN_HELP)],
    yardstick: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="halves, pairs or pseudo; by default the one that suits the run."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Set a field of the yardstick, such as split=valid or max_bytes=512."
            " May be repeated.",
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="TASKS",
            help="Tasks instead of a yardstick, separated by commas: TOML files, names that"
            " `paribus tasks` lists, or READER:PATH.",
        ),
    ] = None,
    shots: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="K",
            help="Most demonstrations before an item of a task; as many as fit every run.",
        ),
    ] = 0,
    lm_eval: Annotated[
        str | None,
        typer.Option(
            metavar="TASKS",
            help="Tasks of lm-evaluation-harness, separated by commas: names, YAML files, or"
            " folders of them.",
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="SPEC",
            help="Text for a checkpoint that was not trained here: a file that `paribus corpus`"
            " takes.",
        ),
    ] = None,
    tokenizer: TokenizerOption = None,
    n_items: Annotated[
        int | None, typer.Option("--items", min=1, metavar="N", help="Maximum number of items.")
    ] = None,
    runs: RunsOption = RUNS,
    cache: CacheOption = None,
    device: DeviceOption = None,
    n_sequences: Annotated[
        int | None,
        typer.Option(
            "--sequences",
            min=1,
            metavar="N",
            help=f"Number of sequences per batch; by default {N_SEQUENCES}, and for lm-eval what"
            " suits the device.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    fields = parse_settings(settings)
    if n_items is not None:
        fields["n_items"] = n_items
    if tasks is not None:
        _require_left_out(
            "--tasks",
            {
                "--lm-eval": lm_eval,
                "--yardstick": yardstick,
                "--corpus": corpus,
                "--sequences": n_sequences,
            },
        )
        print_tasks(names, tasks, shots, fields, tokenizer, Workspace(runs, cache, device), json)
        return
    run = _require_one_run(names, shots)
    if lm_eval is not None:
        if yardstick is not None or corpus is not None:
            raise SpecError("--lm-eval is given beside --yardstick or --corpus; leave those out")
        workspace = Workspace(runs, cache, device)
        result = evaluate_lm_eval(
            run,
            lm_eval,
            fields,
            tokenizer=tokenizer,
            workspace=workspace,
            n_sequences=n_sequences,
        )
        print_lm_eval(result, json)
        return
    if yardstick is None and corpus is None:
        workspace = Workspace(runs, cache, device)
        checkpoint = load_checkpoint(run, workspace.runs_folder, tokenizer=tokenizer)
        if has_head(checkpoint):
            text = _corpus_of(checkpoint, None)
            print_head(evaluate_run_head(checkpoint, text, fields, workspace), json)
            return
    fields = {"kind": yardstick, **fields}
    evaluation = evaluate_run(
        run,
        fields,
        corpus=corpus,
        tokenizer=tokenizer,
        workspace=Workspace(runs, cache, device),
        n_sequences=n_sequences or N_SEQUENCES,
    )
    if json:
        print_json(evaluation_json(evaluation))
    else:
        console().print(evaluation_table(evaluation))
