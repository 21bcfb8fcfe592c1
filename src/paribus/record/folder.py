"""A run folder: everything one run has left, named by the address of its chain of stages.

runs/3f9c0a1be2d47c58/
  spec.json            the chain of stages
  environment.json     every environment it was run under, the first first
  rows.jsonl           what was measured
  checkpoints/         step-000000100, step-000000200
  evaluations/         answers to yardsticks and tasks, a file each
  own-pairs.jsonl      pairs of own responses, where a stage prefers between such
  lm-eval/             samples of lm-evaluation-harness, a file each
  state                running | finished | failed: why
  checksums.jsonl      the sha256 of each of these files
  lock                 who is at it
"""

import re
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.record.disk import REMOVED_PREFIX, TEMPORARY_PREFIX, read_json
from paribus.record.environment import Environment
from paribus.record.file_names import (
    CHECKPOINTS,
    CHECKSUMS_FILE,
    ENVIRONMENT_FILE,
    EVALUATIONS,
    LM_EVAL,
    LOCK_FILE,
    OWN_PAIRS_FILE,
    ROWS_FILE,
    SPEC_FILE,
    STATE_FILE,
    STUDIES,
)
from paribus.record.spec_formats import convert_run_tables

RUN_FORMAT = 3  # of a run's spec.json; before it some fields had other names (`spec_formats`)
LISTED_RUN_FORMAT = 2  # from here on the files of a run are listed with their sha256
_ENTRIES = (
    SPEC_FILE,
    ENVIRONMENT_FILE,
    ROWS_FILE,
    CHECKPOINTS,
    EVALUATIONS,
    OWN_PAIRS_FILE,
    LM_EVAL,
    STATE_FILE,
    CHECKSUMS_FILE,
    LOCK_FILE,
)
NAME_ADVICE = "use up to 100 letters, digits, '.', '_' or '-', the first of them not '.'"
_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", re.ASCII)


def is_folder_name(name: str) -> bool:
    """Can this be a folder's name, and lead nowhere else?"""
    return _NAME_PATTERN.fullmatch(name) is not None


def named_folder(root: Path, name: str, what: str = "run") -> Path:
    """Where the run called `name` is kept, or the study; a name cannot lead anywhere else."""
    if not is_folder_name(name):
        raise RecordError(f"the {what} name {name!r} cannot be the name of a folder; {NAME_ADVICE}")
    if (
        what == "run" and name.lower() == STUDIES
    ):  # some disks do not tell capitals from small letters
        raise RecordError(
            f"the run name {name!r} is the name of the folder of studies; choose another"
        )
    folder = Path(root) / name
    if folder.is_symlink():
        raise RecordError(f"{folder} is a link, which may lead out of {root}; use a plain folder")
    return folder


def existing_run_folder(root: Path, name: str) -> Path:
    """The folder of a run that there is, to be read."""
    folder = named_folder(root, name)
    if not (folder / SPEC_FILE).is_file():
        raise RecordError(f"{folder} holds no run; `paribus runs` lists the runs")
    return folder


def read_stages(folder: Path) -> list[dict[str, Any]]:
    """The chain of stages a run folder was made for, under the present names of its fields."""
    return list(map(convert_run_tables, read_written_stages(folder)))


def read_written_stages(folder: Path) -> list[dict[str, Any]]:
    """The chain of stages as the file holds it: a run is named after that."""
    match read_json(folder / SPEC_FILE):
        case {"stages": [*stages]} if stages and all(isinstance(stage, dict) for stage in stages):
            return stages
    raise RecordError(
        f"{folder / SPEC_FILE} is not a list of stages; restore it, or remove the folder and start"
        " again"
    )


def read_environments(folder: Path) -> list[Environment]:
    """The environments a run was run under, in order; all but the first were accepted."""
    match read_json(folder / ENVIRONMENT_FILE):
        case [*environments] if environments and all(isinstance(one, dict) for one in environments):
            return environments
    raise RecordError(
        f"{folder / ENVIRONMENT_FILE} lists no environments; restore it, or remove the folder"
    )


def require_plain_run_folder(folder: Path) -> None:
    """A run's folder holds nothing but a run, and none of it is a link to elsewhere."""
    for name in _ENTRIES:
        if (folder / name).is_symlink():
            raise RecordError(
                f"{folder / name} is a link, which may lead out of {folder}; use a plain file or"
                " folder"
            )
    others = set[str]()
    for path in folder.iterdir():
        if not path.name.startswith((TEMPORARY_PREFIX, REMOVED_PREFIX)):
            others.add(path.name)
    others -= {LOCK_FILE, CHECKSUMS_FILE}
    if (
        others and not (folder / SPEC_FILE).exists()
    ):  # asked after the listing: a run that starts writes it first
        raise RecordError(
            f"{folder} holds {min(others)!r} and no {SPEC_FILE}: it is not a run; choose another"
            " name"
        )
