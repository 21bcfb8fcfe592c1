"""How many bytes the files of a run or a study take up."""

from __future__ import annotations

import os
from pathlib import Path

from paribus.record.checkpoints import checkpoint_folders
from paribus.record.file_names import CHECKPOINTS, LEARNING_FILE


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder and in those below it; links are not followed, and what
    vanishes meanwhile counts nothing.
    """
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            total += file_bytes(Path(here, name))
    return total


def file_bytes(path: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def optimizer_states(run_folder: Path) -> list[Path]:
    """The files of a run that hold the state of its optimizer, one per checkpoint."""
    paths = [place / LEARNING_FILE for place in checkpoint_folders(run_folder / CHECKPOINTS)]
    return [path for path in paths if path.is_file() and not path.is_symlink()]
