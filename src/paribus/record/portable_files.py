"""The files of a study and of its runs as a colleague may have them: whole, in one form, and with
nothing of this machine.

Left out are locks, pages that `paribus report` writes, and checkpoints unless they are asked for;
then the last one of each run, without the state of the optimizer where the run is finished. Lists
of checksums are written anew: how a folder came to hold its files is not part of it. So a study
that was packed, unpacked and packed again gives the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.files import MAX_ROWS_BYTES, read_bytes
from paribus.record.address import run_address
from paribus.record.checkpoints import latest_checkpoint
from paribus.record.checksums import checksum_lines, listed_files
from paribus.record.disk import content_sha256, explained, file_sha256, json_bytes, read_json
from paribus.record.file_names import (
    ASKED_PATTERN,
    CELLS_FILE,
    CHECKPOINTS,
    CHECKSUMS_FILE,
    ENVIRONMENT_FILE,
    EVALUATIONS,
    ITEMS_FILE,
    LADDER_RATES_FILE,
    LEARNING_FILE,
    LM_EVAL,
    MANIFEST_FILE,
    ORIGIN_FILE,
    OWN_PAIRS_FILE,
    PLAN_FILE,
    PLAN_LOCK_FILE,
    PREDICTIONS_FILE,
    PROBES,
    RATES_FILE,
    ROWS_FILE,
    SAMPLES_FILE,
    SPEC_FILE,
    STAGE_RATES_FILE,
    STATE_FILE,
    STUDIES,
    TOKENIZER_CONFIG_FILE,
)
from paribus.record.manifest import read_manifest_table, shrunk_manifest
from paribus.record.portable_paths import (
    PlaceNames,
    parse_line,
    place_names,
    portable_head,
    portable_text,
    portable_value,
    without_absolute_paths,
)
from paribus.record.run_references import Ancestors, read_chains
from paribus.record.state import read_state, state_line
from paribus.record.study import Study

Content = bytes | Path  # of a file: what it holds, or where that can be read
STUDY_FILES = (
    PLAN_FILE,
    PLAN_LOCK_FILE,
    CELLS_FILE,
    RATES_FILE,
    STAGE_RATES_FILE,
    LADDER_RATES_FILE,
    SAMPLES_FILE,
    ITEMS_FILE,
    PREDICTIONS_FILE,
)
RUN_FILES = (SPEC_FILE, ENVIRONMENT_FILE, ROWS_FILE, STATE_FILE, OWN_PAIRS_FILE)
ANSWER_FOLDERS = (EVALUATIONS, LM_EVAL, PROBES)
_RESTORE = "restore it"
_OTHERS_TABLES = (ORIGIN_FILE, TOKENIZER_CONFIG_FILE)  # what other programs wrote


def study_runs(study: Study) -> list[str]:
    """The runs of a study that there are: those of its cells, and those that they begin from."""
    chains = read_chains(study.root)
    ancestors = Ancestors(chains)
    names: dict[str, None] = {}
    for cell in study.read_cells():
        if cell.run in chains:
            names[cell.run] = None
            names.update(dict.fromkeys(ancestors.of(cell.run)))
    return sorted(names)


def portable_files(study: Study, runs: Iterable[str], with_weights: bool) -> dict[str, Content]:
    """The files of a study and of these runs, by their paths below the folder of runs."""
    runs = list(runs)
    names = place_names(_tables(study, runs))
    files: dict[str, Content] = {}
    for name, content in _study_files(study, names).items():
        files[f"{STUDIES}/{study.folder.name}/{name}"] = content
    for run in runs:
        for name, content in _run_files(study.root / run, names, with_weights).items():
            files[f"{run}/{name}"] = content
    return files


def _tables(study: Study, runs: Iterable[str]) -> Iterator[Any]:
    """Every table in which paths may stand."""
    yield read_json(study.folder / PLAN_FILE)
    for run in runs:
        yield read_json(study.root / run / SPEC_FILE)
        for folder in (EVALUATIONS, LM_EVAL):
            for path in _answer_files(study.root / run / folder):
                yield parse_line(_read(path).partition(b"\n")[0])


def _study_files(study: Study, names: PlaceNames) -> dict[str, Content]:
    files: dict[str, Content] = {}
    paths = [study.folder / name for name in STUDY_FILES]
    for path in (*paths, *sorted(study.folder.glob(ASKED_PATTERN))):
        if path.is_file():
            files[path.name] = _read(path)
    plan = read_json(study.folder / PLAN_FILE)
    files[PLAN_FILE] = _portable_json(files[PLAN_FILE], plan, names)
    _add_checksums(study.folder, files)
    return files


def _run_files(folder: Path, names: PlaceNames, with_weights: bool) -> dict[str, Content]:
    files: dict[str, Content] = {}
    for name in RUN_FILES:
        if (folder / name).is_file():
            files[name] = _read(folder / name)
    table = read_json(folder / SPEC_FILE)
    files[SPEC_FILE] = _portable_json(files[SPEC_FILE], table, names)
    _require_same_address(folder, table, names)
    state = read_state(folder / STATE_FILE)
    if state is not None:
        files[STATE_FILE] = state_line(state.status, portable_text(state.reason))
    for part in ANSWER_FOLDERS:
        for path in _answer_files(folder / part):
            content = _read(path)
            files[f"{part}/{path.name}"] = (
                content if part == PROBES else portable_head(content, names)
            )
    unlisted = ()
    if state is None or state.status == "running":
        unlisted = (ROWS_FILE,)  # which are still being written
    _add_checksums(folder, files, unlisted)
    if with_weights:
        files |= _checkpoint_files(folder, state is not None and state.status == "finished")
    return files


def _require_same_address(folder: Path, table: Any, names: PlaceNames) -> None:
    """RecordError where a run is named after the places of its files, as it was once."""
    stages = table["stages"]
    address = run_address(stages, with_places=True)
    portable = run_address(portable_value(stages, names), with_places=True)
    is_old = address.startswith(folder.name) and not run_address(stages).startswith(folder.name)
    if is_old and address != portable:
        raise RecordError(
            f"{folder} was made by an earlier version, which named runs after the paths of their"
            " files; such a run cannot be packed, for a pack has no paths"
        )


def _checkpoint_files(folder: Path, is_finished: bool) -> dict[str, Content]:
    """The last checkpoint of a run, every byte verified; nothing where there is none."""
    checkpoint = latest_checkpoint(folder / CHECKPOINTS).checkpoint
    if checkpoint is None:
        return {}
    place = checkpoint.folder
    manifest = read_manifest_table(place)
    if is_finished:
        manifest = shrunk_manifest(manifest, LEARNING_FILE)
    files: dict[str, Content] = {}
    entries = {name: dict(entry) for name, entry in manifest["files"].items()}
    for name, entry in entries.items():
        files[name] = place / name
        if name in _OTHERS_TABLES:
            table = read_json(place / name)
            portable = without_absolute_paths(table)
            if portable != table:
                content = json_bytes(portable)
                files[name] = content
                entry |= {"size": len(content), "sha256": content_sha256(content)}
    files[MANIFEST_FILE] = json_bytes({**manifest, "files": entries})
    return {f"{CHECKPOINTS}/{place.name}/{name}": own for name, own in files.items()}


def _add_checksums(folder: Path, files: dict[str, Content], unlisted: tuple[str, ...] = ()) -> None:
    """List the files that the folder lists, as they are in the pack."""
    listed = listed_files(folder)
    if listed is None:
        return
    sums: dict[str, str] = {}
    for name, content in files.items():
        if name in listed and name not in unlisted:
            sums[name] = content_hash(content)
    files[CHECKSUMS_FILE] = checksum_lines(sums)


def content_hash(content: Content) -> str:
    """The sha256 of a file of a pack."""
    if isinstance(content, bytes):
        return content_sha256(content)
    return file_sha256(content)


def _portable_json(content: Content, table: Any, names: PlaceNames) -> Content:
    """A JSON file with names in the place of paths; as it is where it has none."""
    portable = portable_value(table, names)
    if portable == table:
        return content
    return json_bytes(portable)


def _answer_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return sorted(path for path in paths if path.is_file() and path.suffix == ".jsonl")


def _read(path: Path) -> bytes:
    with explained(path, "read", _RESTORE):
        return read_bytes(path, MAX_ROWS_BYTES)
