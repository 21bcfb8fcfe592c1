"""Chat with a run in the terminal.

The answer is printed as it comes. /reset begins anew, /stats shows what each answer cost and what
of it came from the cache, /help lists the commands, and /quit or Ctrl-D ends the chat. Ctrl-C ends
an answer. When the window is full, the oldest whole turns are dropped, and a note says so.

A run with a stage of the kind `instruct`, or an imported model with a chat template, answers in
turns. Another one goes on from all that was said.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paribus.cli.terminal.console import console, print_errors, print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, DeviceOption, RunsOption, TokenizerOption
from paribus.errors import SpecError
from paribus.generate import Sampling
from paribus.generate.engine import Engine
from paribus.report.numbers import format_duration, significant
from paribus.runtime import select_device
from paribus.serve import ChatSession, load_speaker
from paribus.serve.chat_session import TurnStats
from paribus.workspace import Workspace

CACHE_BYTES = 1 << 30
PROMPT = "> "
COMMANDS = {
    "/reset": "begin a new conversation",
    "/stats": "what each answer cost",
    "/help": "this list",
    "/quit": "end the chat, as Ctrl-D does",
}


@contextmanager
def chat(
    run: str | Path,
    *,
    system: str | None = None,
    tokenizer: str | Path | None = None,
    workspace: Workspace | None = None,
) -> Iterator[ChatSession]:
    """A conversation with a run or a checkpoint, to be used in a `with`: `say(text, sampling)`
    gives the answer in pieces, and `stats` says what each answer cost.
    """
    workspace = workspace or Workspace()
    device = str(select_device(workspace.device))
    speaker = load_speaker(run, workspace.runs, tokenizer, device)
    if speaker.fills_masks:
        raise SpecError(
            f"{speaker.name!r} fills masks and does not say what comes next; use paribus fill-mask"
        )
    print_notes(*speaker.checkpoint.notes)
    engine = Engine(speaker.model, CACHE_BYTES, max_rows=1)
    engine.start()
    try:
        yield ChatSession(speaker, engine, system)
    finally:
        engine.close(drain=False)
        if speaker.template is not None:
            speaker.template.process.close()


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    n_tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            min=1,
            metavar="N",
            help="Maximum number of tokens of an answer; by default a quarter of the window.",
        ),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="T", help="Sampling temperature; 0 takes the most likely token."
        ),
    ] = 0.0,
    top_p: Annotated[
        float,
        typer.Option(
            max=1.0,
            metavar="P",
            help="Draw from the fewest tokens whose probability adds up to P; 1: from all.",
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the sampling.")] = 0,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the model is told before all turns.")
    ] = None,
    device: DeviceOption = None,
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
) -> None:
    workspace = Workspace(runs, device=device)
    with chat(run, system=system, tokenizer=tokenizer, workspace=workspace) as conversation:
        sampling = Sampling(
            n_tokens=n_tokens or max(conversation.speaker.window // 4, 1),
            temperature=temperature,
            top_p=top_p,
            seed=seed,
        )
        if not conversation.speaker.can_chat:
            print_notes("it was not trained on conversations, and goes on from what you write")
        _talk(conversation, sampling)


def _talk(conversation: ChatSession, sampling: Sampling) -> None:
    page = console()
    while (line := _read_line(page)) is not None:
        match line.strip():
            case "":
                continue
            case "/quit":
                return
            case "/reset":
                conversation.reset()
                page.print("a new conversation", style="dim")
            case "/stats":
                page.print(stats_table(conversation.stats))
            case "/help":
                for name, words in COMMANDS.items():
                    page.print(f"{name:8}{words}", style="dim")
            case unknown if unknown.startswith("/"):
                print_errors([f"{unknown!r:.40} is no command; use {', '.join(COMMANDS)}"])
            case _:
                _answer(conversation, line, sampling, page)


def _read_line(page: Console) -> str | None:
    """What a person writes; None at the end."""
    if sys.stdin.isatty():
        page.print(PROMPT, end="", style="bold")
    line = sys.stdin.readline()
    if not line:
        return None
    return line.rstrip("\n")


def _answer(conversation: ChatSession, text: str, sampling: Sampling, page: Console) -> None:
    try:
        with closing(conversation.say(text, sampling)) as pieces:
            _print_pieces(pieces, page)
    except SpecError as fault:
        print_errors(fault.problems)
        return
    except KeyboardInterrupt:
        page.print(" …", style="dim", end="")
    page.print()
    last = conversation.stats[-1]
    if last.n_dropped_turns:
        print_notes(
            f"the window is full: the oldest {last.n_dropped_turns} turns were dropped, and"
            f" {last.n_read} tokens were read"
        )


def _print_pieces(pieces: Iterator[str], page: Console) -> None:
    """Print an answer as it comes; to a pipe whole, where each line loses the spaces at its end."""
    if not page.is_terminal:
        page.print("".join(pieces), end="", soft_wrap=True)
        return
    for piece in pieces:
        page.print(piece, end="", soft_wrap=True)


def stats_table(stats: list[TurnStats]) -> Table:
    """What each answer cost, one line per answer."""
    table = Table("answer", box=None, pad_edge=False, header_style="bold")
    for name in ("context", "from cache", "read", "said", "first token", "tokens/s", "dropped"):
        table.add_column(name, justify="right")
    table.add_column("end")
    for number, own in enumerate(stats, 1):
        speed = "–"
        if own.tokens_per_second is not None:
            speed = significant(own.tokens_per_second)
        table.add_row(
            f"{number}",
            f"{own.n_context:,}",
            f"{own.n_cached:,}",
            f"{own.n_read:,}",
            f"{own.n_said:,}",
            format_duration(own.seconds_to_first_token),
            speed,
            f"{own.n_dropped_turns}",
            own.finish_reason,
        )
    return table
