"""The state of a run that a test makes by hand."""

from pathlib import Path

from paribus.record.disk import replace
from paribus.record.state import RunStatus, state_line


def write_state(path: Path, status: RunStatus, reason: str = "") -> None:
    """Replace the state, without the checksum that a run keeps of it."""
    replace(path, state_line(status, reason))
