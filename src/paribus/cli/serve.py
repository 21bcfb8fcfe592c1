"""Serve runs over HTTP in the shapes of OpenAI, with a page to chat on.

The page at / talks to one run, or to two side by side. Any client of OpenAI can use the routes
under /v1. Only this machine can reach the server unless --host says otherwise; with keys, every
route but /health asks for one. Ctrl-C and SIGTERM end the server when the answers that it is
making have ended.
"""

import threading
import time
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Annotated

import typer
import uvicorn

from paribus.cli.terminal.arguments import OPEN_HELP
from paribus.cli.terminal.console import console, print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, DeviceOption, RunsOption, TokenizerOption
from paribus.cli.terminal.import_export import PrecisionOption, parse_precision
from paribus.errors import SpecError
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.represent import n_truncated_tokens, represent
from paribus.runtime import select_device
from paribus.serve.access import KEY_VARIABLE, access_for, is_loopback, read_keys
from paribus.serve.app import ServerLimits
from paribus.serve.served_model import Representations
from paribus.serve.server import EngineLimits, bind, load_models, make_server
from paribus.serve.speaker import Speaker
from paribus.workspace import Workspace

MIB = 1 << 20
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Listening:
    """Where a server listens, and who may ask it."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    keys: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()  # other names of the server, as in a URL


def serve_runs(
    *names: str | Path,
    listening: Listening | None = None,
    limits: EngineLimits | None = None,
    max_queue: int = 256,
    tokenizer: str | Path | None = None,
    workspace: Workspace | None = None,
    open_page: bool = False,
) -> None:
    """Serve runs or checkpoints until the process is asked to end: see `paribus serve --help`."""
    listening, limits = listening or Listening(), limits or EngineLimits()
    workspace = workspace or Workspace()
    if tokenizer is not None and len(names) > 1:
        raise SpecError("--tokenizer is for one checkpoint, but several runs are named; name one")
    access = access_for(listening.host, listening.keys, listening.allowed_hosts)
    device = str(select_device(workspace.device))
    with bind(listening.host, listening.port) as listener:
        models = load_models(names, workspace.runs, tokenizer, device, limits, represent_texts)
        for served in models:
            print_notes(*served.speaker.checkpoint.notes)
        if not access.keys and not is_loopback(listening.host):
            print_notes(f"there is no key: whoever reaches {listening.host} can use the server")
        address = _address(listening.host, listener)
        called = ", ".join(served.name for served in models)
        console().print(f"{called}: {address}", soft_wrap=True)
        max_open = limits.max_rows * len(models) + max_queue
        server = make_server(models, access, ServerLimits(max_open=max_open))
        if open_page:
            threading.Thread(target=_open_when_started, args=(server, address), daemon=True).start()
        server.run(sockets=[listener])


def represent_texts(speaker: Speaker, texts: Sequence[str]) -> Representations:
    """A vector for each text, as `evaluate` reads it: the mean of the states of its tokens."""
    checkpoint = speaker.checkpoint
    asked = AskedModel(
        speaker.model, checkpoint.objective(), checkpoint.tokenizer, checkpoint.vocabulary
    )
    return Representations(represent(asked, texts), n_truncated_tokens(asked, texts))


def _address(host: str, listener: socket) -> str:
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{listener.getsockname()[1]}/"


def _open_when_started(server: uvicorn.Server, address: str) -> None:
    """Show the page in a browser, if there is one that can be opened."""
    while not server.started:
        if server.should_exit:
            return
        time.sleep(_POLL_SECONDS)
    with suppress(webbrowser.Error):
        webbrowser.open(address)


def command(
    run: Annotated[list[str], typer.Argument(metavar="RUN…", help=RUN_HELP)],
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="HOST", help="Address to listen on; by default this machine's."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port; 0: any free one.")
    ] = 8000,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="A key that clients must have. May be repeated. Others can see it in the list of"
            f" processes: better use --key-file or the variable {KEY_VARIABLE}.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with one key on each line.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Another name of this server, as in a URL. May be repeated."
        ),
    ] = None,
    max_rows: Annotated[
        int,
        typer.Option("--concurrency", min=1, metavar="N", help="Answers of a run at a time."),
    ] = 32,
    max_queue: Annotated[
        int, typer.Option("--queue", min=0, metavar="N", help="Answers that may wait.")
    ] = 256,
    cache: Annotated[
        int, typer.Option(min=0, metavar="MIB", help="Memory for caches of each run, in MiB.")
    ] = 1024,
    dtype: PrecisionOption = "float32",
    device: DeviceOption = None,
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
    open_it: Annotated[bool, typer.Option("--open", help=OPEN_HELP)] = False,
) -> None:
    keys = read_keys(key or (), key_file)
    serve_runs(
        *run,
        listening=Listening(host, port, keys, tuple(allow_host or ())),
        limits=EngineLimits(max_rows, cache * MIB, parse_precision(dtype)),
        max_queue=max_queue,
        tokenizer=tokenizer,
        workspace=Workspace(runs, device=device),
        open_page=open_it,
    )
