"""Where runs and texts are kept."""

from pathlib import Path
from typing import Annotated

import typer

from paribus.errors import SpecError
from paribus.files import home_expanded
from paribus.record import RUNS as RUNS


def folder_named(option: str, given: str | Path) -> Path:
    """A folder that an option names; an empty one would be the current folder, which nobody asked for."""
    if given == "":
        raise SpecError(f"{option} is empty; name a folder, such as '.', or leave it out")
    return Path(given)


def _runs(given: str | Path) -> Path:
    return folder_named("--runs", given)


def _cache(given: str | Path) -> Path:
    return folder_named("--cache", given)


OWN_CACHE = "~/.cache/paribus"
TEXTS = f"Where tokenised text is kept; by default {OWN_CACHE}."
Runs = Annotated[Path, typer.Option(metavar="FOLDER", help="Where runs are kept.", parser=_runs)]
Cache = Annotated[Path | None, typer.Option(metavar="FOLDER", help=TEXTS, parser=_cache)]
TokenizerOption = Annotated[
    Path | None,
    typer.Option("--tokenizer", metavar="FILE", help="A tokenizer.json, for a checkpoint that has none."),
]
RUN = "A run, by its name or its folder, or a checkpoint, also an imported one; `paribus runs` lists runs."


def cache_folder(given: str | Path | None) -> Path:
    """The folder asked for, or the one of this user."""
    folder = home_expanded("--cache", OWN_CACHE) if given is None else folder_named("--cache", given)
    if folder.is_file():
        raise SpecError(f"--cache is {folder}, which is a file; name a folder")
    return folder
