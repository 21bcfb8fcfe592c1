"""Where runs and texts are kept."""

from pathlib import Path
from typing import Annotated

import typer

from paribus.errors import SpecError
from paribus.files import expand_home
from paribus.record import RUNS as RUNS


def parse_folder(option: str, value: str | Path) -> Path:
    """A folder that an option names; an empty one would be the current folder, which nobody
    asked for.
    """
    if value == "":
        raise SpecError(f"{option} is empty; name a folder, such as '.', or leave it out")
    return Path(value)


def _runs_folder(value: str | Path) -> Path:
    return parse_folder("--runs", value)


def _cache_folder_option(value: str | Path) -> Path:
    return parse_folder("--cache", value)


DEFAULT_CACHE = "~/.cache/paribus"
CACHE_HELP = f"Where tokenised text is kept; by default {DEFAULT_CACHE}."
RunsOption = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Where runs are kept.", parser=_runs_folder)
]
CacheOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help=CACHE_HELP, parser=_cache_folder_option)
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


def cache_folder(value: str | Path | None) -> Path:
    """The folder asked for, or the one of this user."""
    if value is None:
        folder = expand_home("--cache", DEFAULT_CACHE)
    else:
        folder = parse_folder("--cache", value)
    if folder.is_file():
        raise SpecError(f"--cache is {folder}, which is a file; name a folder")
    return folder
