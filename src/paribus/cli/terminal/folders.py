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


CACHE_HELP = f"Folder of tokenised text; by default {DEFAULT_CACHE}."
RunsOption = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder of runs and studies.", parser=_runs_folder)
]
CacheOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help=CACHE_HELP, parser=_cache_folder_option)
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="DEVICE", help="cpu, cuda or mps; by default the best available."
    ),
]
AcceptEnvironmentOption = Annotated[
    bool,
    typer.Option(
        "--accept-environment",
        help="Continue under other versions or thread counts; such rows are marked.",
    ),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer", metavar="FILE", help="A tokenizer.json, for a checkpoint that has none."
    ),
]
RUN_HELP = (
    "The name or folder of a run, or the folder of a checkpoint, also an imported one; `paribus"
    " runs` lists runs."
)
