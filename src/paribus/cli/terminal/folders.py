"""Where runs and texts are kept."""

from pathlib import Path
from typing import Annotated

import typer

from paribus.record import RUNS as RUNS
from paribus.workspace import DEFAULT_CACHE, parse_folder


def _runs_folder(value: str | Path) -> Path:
    return parse_folder("--runs", value)


def _cache_folder_option(value: str | Path) -> Path:
    return parse_folder("--cache", value)


CACHE_HELP = f"Where tokenised text is kept; by default {DEFAULT_CACHE}."
RunsOption = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Where runs are kept.", parser=_runs_folder)
]
CacheOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help=CACHE_HELP, parser=_cache_folder_option)
]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", metavar="DEVICE", help="cpu, cuda or mps; by default the best."),
]
AcceptEnvironmentOption = Annotated[
    bool,
    typer.Option(
        "--accept-environment", help="Go on under other versions or threads; rows are marked."
    ),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer", metavar="FILE", help="A tokenizer.json, for a checkpoint that has none."
    ),
]
RUN_HELP = (
    "A run, by its name or its folder, or a checkpoint, also an imported one; `paribus runs` lists"
    " runs."
)
