"""Train two small models that chat, and open the page with both side by side.

A causal model and an encoder-decoder read the documentation of Python, and are then taught a few
invented tasks in conversations of two and three turns, in under ten minutes on two cores. Each is
asked 100 messages of conversations that it was not taught; how many it answers exactly is printed
and kept beside the runs. What is trained already is not trained again, and the same command resumes
an interrupted training.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.cli.serve import Listening, serve_runs
from paribus.cli.terminal.arguments import RunSettingsOption, parse_settings
from paribus.cli.terminal.chat_scores import chat_score_table
from paribus.cli.terminal.console import console, print_notes
from paribus.cli.terminal.folders import RUNS, CacheOption, DeviceOption, RunsOption
from paribus.cli.terminal.training_jobs import TrainingJob, train_in_parallel
from paribus.corpus import prepare_corpus
from paribus.design.design_files import designs_folder
from paribus.generate.engine import Engine
from paribus.interop.loaded_checkpoint import stages_of
from paribus.record.chat_answers import ChatScore, read_chat_scores, write_chat_scores
from paribus.record.file_names import STATE_FILE
from paribus.record.state import read_state
from paribus.report.numbers import whole_percent
from paribus.runtime import select_device
from paribus.serve.held_out_chat import answer_conversations, held_out_conversations
from paribus.serve.server import bind
from paribus.serve.speaker import load_speaker
from paribus.spec.run import load_run
from paribus.train.chain import prepare_texts
from paribus.workspace import Workspace

ARMS = ("causal", "encoder-decoder")
N_MESSAGES = 100
GOOD_SHARE = 0.8
CACHE_BYTES = 1 << 28


def run_name(arm: str) -> str:
    """What the run of an arm is called."""
    return f"chat-{arm}"


def chat_demo(
    workspace: Workspace | None = None,
    *,
    changes: Mapping[str, Any] | None = None,
    n_messages: int = N_MESSAGES,
) -> dict[str, ChatScore]:
    """Train the two models of the demonstration unless that is done, and ask them; what each
    answered, by the name of its run.
    """
    workspace, changes = workspace or Workspace(), dict(changes or {})
    runs = workspace.runs_folder
    scores = read_chat_scores(runs)
    missing = [arm for arm in ARMS if changes or not _is_finished(runs / run_name(arm))]
    if missing:
        _train(missing, changes, workspace)
    for arm in ARMS:
        name = run_name(arm)
        if arm in missing or name not in scores or scores[name].n_messages != n_messages:
            scores[name] = _ask(name, n_messages, workspace)
            write_chat_scores(runs, scores)
    return {run_name(arm): scores[run_name(arm)] for arm in ARMS}


def _is_finished(folder: Path) -> bool:
    state = read_state(folder / STATE_FILE)
    return state is not None and state.status == "finished"


def _train(arms: Sequence[str], changes: Mapping[str, Any], workspace: Workspace) -> None:
    """Train in a process each, after the text is made once for all of them."""
    device = str(select_device(workspace.device))
    trainings: list[TrainingJob] = []
    for arm in arms:
        spec = designs_folder() / "chat" / f"{arm}.toml"
        prepare = partial(prepare_corpus, cache=workspace.cache_folder, show_progress=True)
        prepare_texts(load_run(spec, changes), prepare)
        trainings.append(TrainingJob(spec, run_name(arm), changes))
    train_in_parallel(trainings, workspace, device)


def _ask(name: str, n_messages: int, workspace: Workspace) -> ChatScore:
    """How a run answers held-out conversations in a chat."""
    speaker = load_speaker(name, workspace.runs, None, str(select_device(workspace.device)))
    assert speaker.checkpoint.run is not None
    corpora = [stage.corpus for stage in stages_of(speaker.checkpoint.run)]
    conversations = held_out_conversations(corpora, n_messages)
    engine = Engine(speaker.model, CACHE_BYTES, max_rows=1)
    engine.start()
    try:
        return ChatScore(tuple(answer_conversations(speaker, engine, conversations)))
    finally:
        engine.close(drain=False)


def command(
    train_only: Annotated[
        bool,
        typer.Option(
            "--train-only",
            help="Train and ask the models, and end; serve nothing. Exit status 1:"
            f" one of them answers less than {whole_percent(GOOD_SHARE)} exactly.",
        ),
    ] = False,
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port of the page; 0: any."),
    ] = 8000,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
    settings: RunSettingsOption = None,
    runs: RunsOption = RUNS,
    cache: CacheOption = None,
    device: DeviceOption = None,
) -> None:
    workspace = Workspace(runs, cache, device)
    listening = Listening(port=port)
    if not train_only:  # before minutes of training, not after them
        bind(listening.host, port).close()
    scores = chat_demo(workspace, changes=parse_settings(settings))
    console().print(chat_score_table(scores))
    weak = [name for name, score in scores.items() if score.share < GOOD_SHARE]
    for name in weak:
        print_notes(
            f"{name} answers less than {whole_percent(GOOD_SHARE)} exactly; a longer stage helps,"
            " as with --set stages.2.training.n_steps=3000 and another --runs"
        )
    if not train_only:
        serve_runs(*scores, listening=listening, workspace=workspace, open_page=open_it)
    elif weak:
        raise typer.Exit(1)
