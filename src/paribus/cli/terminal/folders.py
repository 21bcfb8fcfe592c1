"""Where runs and texts are kept, and which checkpoint is meant."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from paribus.errors import RecordError, SpecError
from paribus.files import home_expanded
from paribus.record import best as best_of
from paribus.record import existing, latest


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
RUN = "A run, by its name or its folder, or a checkpoint's folder; `paribus runs` lists runs."
RUNS = Path("runs")
ANEW = "train it further, or if it has finished, remove its folder and make it again"


class Chosen(NamedTuple):
    """A checkpoint's folder, and what a person should be told about the choice."""

    folder: Path
    notes: tuple[str, ...]


def cache_folder(given: str | Path | None) -> Path:
    """The folder asked for, or the one of this user."""
    folder = home_expanded("--cache", OWN_CACHE) if given is None else folder_named("--cache", given)
    if folder.is_file():
        raise SpecError(f"--cache is {folder}, which is a file; name a folder")
    return folder


def checkpoint_of(run: str | Path, runs: Path = RUNS, best: bool = False) -> Chosen:
    """A checkpoint itself, or a run's newest that is whole, or its best by the held-out text."""
    path = Path(run)
    if (path / "weights.safetensors").is_file():
        if best:
            raise SpecError(f"--best chooses among the checkpoints of a run, but {path} is one; leave it out")
        return Chosen(path, ())
    folder = run_folder(path, runs)
    found = (best_of if best else latest)(folder / "checkpoints")
    if found.checkpoint is None:
        lack = "no whole checkpoint with a score; leave out --best" if best else f"no whole checkpoint; {ANEW}"
        raise RecordError(f"{folder} has {lack}")
    skipped = (f"{one.folder.name} is skipped: {one.reason}" for one in found.skipped)
    return Chosen(found.checkpoint.folder, tuple(skipped))


def run_folder(path: Path, runs: Path) -> Path:
    """The folder of a run given by its name or its folder."""
    if (path / "checkpoints").is_dir() or all((path / name).is_file() for name in ("spec.json", "state")):
        return existing(path.absolute().parent, path.absolute().name)
    if len(path.parts) == 1 and ((runs / path).is_dir() or not path.exists()):
        return existing(runs, path.name)
    raise RecordError(f"{path} is no checkpoint and no run; give one of them, or the name of a run in {runs}")
