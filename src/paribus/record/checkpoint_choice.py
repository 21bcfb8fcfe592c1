"""Which checkpoint is meant: a run's, by its name or its folder, or one that lies anywhere,
also an imported one.
"""

from pathlib import Path
from typing import NamedTuple

from paribus.errors import RecordError, SpecError
from paribus.record.checkpoints import best_checkpoint as best_of
from paribus.record.checkpoints import latest_checkpoint
from paribus.record.file_names import CHECKPOINTS, SPEC_FILE, STATE_FILE, STUDIES, WEIGHTS_FILE
from paribus.record.folder import existing_run_folder

RUNS = Path("runs")
RETRAIN_ADVICE = "train it further, or if it has finished, remove its folder and make it again"
_HUGGING_FACE_CONFIG = "config.json"  # of a Hugging Face folder


class ChosenCheckpoint(NamedTuple):
    """A checkpoint's folder, the run it is of, and what a person should be told about the
    choice.
    """

    folder: Path
    run: Path | None
    notes: tuple[str, ...]


def choose_checkpoint(
    name_or_folder: str | Path, runs: str | Path = RUNS, best: bool = False
) -> ChosenCheckpoint:
    """A checkpoint itself, or a run's newest that is whole, or its best by the held-out text."""
    path, runs = Path(name_or_folder), Path(runs)
    for place in _possible_folders(path, runs):
        if (place / WEIGHTS_FILE).is_file():
            return _as_checkpoint(place, best)
    folder = find_run_folder(path, runs)
    search = (best_of if best else latest_checkpoint)(folder / CHECKPOINTS)
    if search.checkpoint is None:
        if best:
            lack = "no complete checkpoint with a score; leave out --best"
        else:
            lack = f"no complete checkpoint; {RETRAIN_ADVICE}"
        raise RecordError(f"{folder} has {lack}")
    notes = (f"{one.folder.name} is skipped: {one.reason}" for one in search.skipped)
    return ChosenCheckpoint(search.checkpoint.folder, folder, tuple(notes))


def find_run_folder(path: Path, runs: Path = RUNS) -> Path:
    """The folder of a run given by its name or its folder."""
    has_run_files = (path / SPEC_FILE).is_file() and (path / STATE_FILE).is_file()
    if (path / CHECKPOINTS).is_dir() or has_run_files:
        return existing_run_folder(path.absolute().parent, path.absolute().name)
    if len(path.parts) == 1 and ((runs / path).is_dir() or not path.exists()):
        if not (runs / path).exists() and (runs / STUDIES / path).is_dir():
            raise RecordError(
                f"{path} is a study in {runs / STUDIES}; name one of its runs, which `paribus runs`"
                " lists"
            )
        return existing_run_folder(runs, path.name)
    raise RecordError(_describe_no_checkpoint(path, runs))


def _possible_folders(path: Path, runs: Path) -> tuple[Path, ...]:
    """Where a checkpoint of this name may lie; one that was imported may stand among the runs."""
    if len(path.parts) == 1 and path.name != "..":
        return (path, runs / path)
    return (path,)


def _as_checkpoint(place: Path, best: bool) -> ChosenCheckpoint:
    if best:
        raise SpecError(
            f"--best chooses among the checkpoints of a run, but {place} is one; leave it out"
        )
    run = place.absolute().parent.parent
    is_inside = place.absolute().parent.name == CHECKPOINTS and (run / SPEC_FILE).is_file()
    if is_inside:
        return ChosenCheckpoint(place, run, ())
    return ChosenCheckpoint(place, None, ())


def _describe_no_checkpoint(path: Path, runs: Path) -> str:
    if path.is_file():
        return (
            f"{path} is a file, not a checkpoint or a run; give a folder, or the name of a run in"
            f" {runs}"
        )
    if (path / _HUGGING_FACE_CONFIG).is_file():
        return (
            f"{path} is a Hugging Face folder, not a checkpoint or a run; `paribus import {path}"
            " OUT` converts it"
        )
    if (path / SPEC_FILE).is_file():
        return f"{path / WEIGHTS_FILE} does not exist; give a folder that holds it"
    if path.name == CHECKPOINTS and (last := latest_checkpoint(path).checkpoint) is not None:
        return f"{path} holds the checkpoints of a run; name one of them, such as {last.folder}"
    return (
        f"{path} is neither a checkpoint nor a run; give one of them, or the name of a run in"
        f" {runs}"
    )
