"""Serve runs over HTTP in the shapes of OpenAI, with a page to chat on.

The page at / talks to one run, or to two side by side. Any client of OpenAI can use the routes
under /v1. Only this machine can reach the server unless --host says otherwise; with keys, every
route but /health asks for one. Ctrl-C and SIGTERM end the server when the answers that it is
making have ended.
"""

from pathlib import Path
from typing import Annotated

import typer

from paribus.cli.terminal.console import console, print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, DeviceOption, RunsOption, TokenizerOption
from paribus.errors import SpecError
from paribus.runtime import select_device
from paribus.serve.access import KEY_VARIABLE, access_for, is_loopback, read_keys
from paribus.serve.app import ServerLimits
from paribus.serve.server import EngineLimits, bind, load_models, make_server

MIB = 1 << 20


def command(
    run: Annotated[list[str], typer.Argument(metavar="RUN…", help=RUN_HELP)],
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to listen on; by default this machine's.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Port; 0: any free one.")
    ] = 8000,
    key: Annotated[
        list[str] | None,
        typer.Option(
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
    device: DeviceOption = None,
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
) -> None:
    if tokenizer is not None and len(run) > 1:
        raise SpecError("--tokenizer is for one checkpoint, but several runs are named; name one")
    access = access_for(host, read_keys(key or (), key_file), allow_host or ())
    listener = bind(host, port)
    engine_limits = EngineLimits(max_rows=max_rows, cache_bytes=cache * MIB)
    models = load_models(run, runs, tokenizer, str(select_device(device)), engine_limits)
    for served in models:
        print_notes(*served.speaker.checkpoint.notes)
    if not access.keys and not is_loopback(host):
        print_notes(f"there is no key: everybody who reaches {host} can use the server")
    shown_host = f"[{host}]" if ":" in host else host
    names = ", ".join(served.name for served in models)
    console().print(f"{names}: http://{shown_host}:{listener.getsockname()[1]}/", soft_wrap=True)
    server = make_server(models, access, ServerLimits(max_open=max_rows * len(run) + max_queue))
    server.run(sockets=[listener])
