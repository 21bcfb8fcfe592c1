"""A run: one process that opens a folder, writes its rows and checkpoints, and says how it
ended.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.record.address import StageTable, run_address
from paribus.record.checkpoints import (
    Checkpoint,
    CheckpointSearch,
    Retention,
    checkpoint_folders,
    commit_checkpoint,
    latest_checkpoint,
    rows_sha256_at,
)
from paribus.record.checksums import list_file, require_unchanged_file, write_listed_file
from paribus.record.disk import explained, json_bytes, remove_leftovers, sync
from paribus.record.environment import (
    Environment,
    EnvironmentChanges,
    environment_differences,
    require_same_environment,
)
from paribus.record.file_names import (
    CHECKPOINTS,
    ENVIRONMENT_FILE,
    EVALUATIONS,
    LM_EVAL,
    LOCK_FILE,
    ROWS_FILE,
    SPEC_FILE,
    STATE_FILE,
)
from paribus.record.folder import (
    RUN_FORMAT,
    named_folder,
    read_environments,
    read_stages,
    require_plain_run_folder,
)
from paribus.record.lock import hold_lock
from paribus.record.plan_lock import table_differences
from paribus.record.rows import (
    CutSummary,
    RowWriter,
    cut_rows,
    read_rows,
    require_last_step,
    rows_sha256,
    sync_rows,
)
from paribus.record.state import RunState, RunStatus, read_state, state_line

_ADDRESS_CHARACTERS = 16
RERUN_ADVICE = f"restore {ROWS_FILE}, or remove that folder and run it again"
_TEXT_KEY = "text"  # of a stage: the fingerprint of what was read


def require_checkpoint_rows(folder: Path, step: int) -> None:
    """RecordError where a run's rows up to a step are not those that were there when its
    checkpoint was saved.

    So it is where a checkpoint was put there that is another run's.
    """
    sha256, path = rows_sha256_at(folder / CHECKPOINTS, step), folder / ROWS_FILE
    if sha256 is not None and sha256 != rows_sha256(path) and sha256 != rows_sha256(path, step):
        raise RecordError(
            f"{path} does not hold the rows up to step {step + 1} as they were when that step was"
            f" saved; {RERUN_ADVICE}"
        )


def run_name(stages: Sequence[StageTable]) -> str:
    """What the folder of a run is called that was given no name."""
    return run_address(stages)[:_ADDRESS_CHARACTERS]


@dataclass(frozen=True)
class Run:
    """A run folder whose lock we hold."""

    folder: Path
    address: str
    previous_state: RunState | None  # its state when it was opened; None: new
    leftovers: tuple[str, ...]  # what a killed process had left, now removed
    environment_changes: (
        EnvironmentChanges  # what of the environment is not what the run was started under
    )
    _skipped_folders: set[Path] = field(default_factory=set, repr=False)

    def latest_checkpoint(self) -> CheckpointSearch:
        """The newest checkpoint that verifies, and those that were skipped; the next save
        removes these.
        """
        search = latest_checkpoint(self.folder / CHECKPOINTS)
        self._skipped_folders.update(one.folder for one in search.skipped)
        return search

    def open_rows(self, after_step: int) -> tuple[RowWriter, CutSummary]:
        """Rows to be written after `after_step`, the step of the checkpoint resumed from, -1
        for none.
        """
        path = self.folder / ROWS_FILE
        cut = cut_rows(path, after_step)
        require_checkpoint_rows(self.folder, after_step)
        return RowWriter(path, tuple(self.environment_changes)), cut

    def commit_checkpoint(
        self,
        step: int,
        fill: Callable[[Path], object],
        score: float | None = None,
        keep_last: int = 2,
        is_interruption: bool = False,
    ) -> Checkpoint:
        """A checkpoint filled by `fill`; the rows so far reach the disk before it does. One that an
        interruption asks for goes when the run has passed it.
        """
        sync_rows(self.folder / ROWS_FILE)
        rows = rows_sha256(self.folder / ROWS_FILE)
        checkpoint = commit_checkpoint(
            self.folder / CHECKPOINTS,
            step,
            fill,
            score,
            Retention(keep_last, self._skipped_folders, is_interruption),
            rows,
        )
        self._skipped_folders.clear()
        return checkpoint

    def require_complete_rows(self, n_steps: int) -> None:
        """RecordError where a row of this finished run, or its last one, cannot be read."""
        path, advice = self.folder / ROWS_FILE, RERUN_ADVICE
        try:
            rows = read_rows(path).rows
        except RecordError as fault:  # a line less would go unnoticed: this run is not gone on with
            raise RecordError(f"{str(fault).rpartition('; ')[0]}; {advice}") from fault
        require_last_step(path, next(reversed(rows), None), n_steps, advice)
        require_unchanged_file(self.folder, ROWS_FILE, advice)

    def finish(self) -> None:
        sync_rows(self.folder / ROWS_FILE)
        list_file(self.folder, ROWS_FILE)
        _write_listed_state(self.folder, "finished")

    def fail(self, reason: str) -> None:
        list_file(self.folder, ROWS_FILE)
        _write_listed_state(self.folder, "failed", reason)


@contextmanager
def open_run_folder(
    root: Path,
    stages: Sequence[StageTable],
    environment: Environment,
    name: str | None = None,
    accept_environment: bool = False,
) -> Iterator[Run]:
    """The folder of a run, new or resumed, held under its lock.

    An error inside marks the run failed; Ctrl-C, SystemExit or a kill leave it `running` with
    nobody at its lock. A finished run is opened as it is: nothing is compared or written. One
    without a checkpoint starts anew, under whatever environment.
    """
    own = run_address(stages)
    folder_name = own[:_ADDRESS_CHARACTERS] if name is None else name
    folder = named_folder(root, folder_name)
    with explained(folder, "made", "choose another folder for runs"):
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.parent)
    require_plain_run_folder(folder)
    with hold_lock(folder / LOCK_FILE):
        run = _resume_run(folder, stages, environment, accept_environment)
        try:
            yield run
        except Exception as fault:
            with suppress(RecordError):  # a full disk, most likely, and `fault` says it better
                _mark_failed(run, fault)
            raise


def _mark_failed(run: Run, fault: Exception) -> None:
    state = read_state(run.folder / STATE_FILE)
    if state is None or state.status != "finished":
        run.fail(f"{type(fault).__name__}: {fault}")


def _resume_run(
    folder: Path, stages: Sequence[StageTable], environment: Environment, accept: bool
) -> Run:
    leftovers = list(remove_leftovers(folder))
    for part in (CHECKPOINTS, EVALUATIONS, LM_EVAL):
        for name in remove_leftovers(folder / part):
            leftovers.append(f"{part}/{name}")
    _ensure_spec(folder, stages)
    with explained(folder / CHECKPOINTS, "made", "remove what is in its place"):
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
    before = read_state(folder / STATE_FILE)
    changes: EnvironmentChanges = {}
    if before is None or before.status != "finished":
        changes = _ensure_environment(folder, environment, accept)
        _write_listed_state(folder, "running")
    return Run(
        folder=folder,
        address=run_address(stages),
        previous_state=before,
        leftovers=tuple(leftovers),
        environment_changes=changes,
    )


def _write_listed_state(folder: Path, word: RunStatus, reason: str = "") -> None:
    write_listed_file(folder, STATE_FILE, state_line(word, reason))


def _ensure_spec(folder: Path, stages: Sequence[StageTable]) -> None:
    path = folder / SPEC_FILE
    if not path.exists():
        table = {"format": RUN_FORMAT, "stages": [dict(stage) for stage in stages]}
        write_listed_file(folder, SPEC_FILE, json_bytes(table))
    recorded_stages = read_stages(folder)
    recorded_address, address = run_address(recorded_stages), run_address(stages)
    if recorded_address != address:
        differences = _describe_stage_differences(recorded_stages, stages)
        raise RecordError(
            f"{folder} holds the run {recorded_address[:_ADDRESS_CHARACTERS]}, not"
            f" {address[:_ADDRESS_CHARACTERS]}: {differences}; choose"
            " another name, or leave it out"
        )


def _describe_stage_differences(before: Sequence[StageTable], after: Sequence[StageTable]) -> str:
    """In which fields two chains differ; the text read is one only where all else is equal, or
    it would follow.
    """
    differences = list[str]()
    for old, new in zip_longest(before, after, fillvalue={}):
        differences += table_differences(_without_text(old), _without_text(new))
    return "; ".join(differences) or "the text read is not the same"


def _without_text(stage: StageTable) -> dict[str, Any]:
    return {name: own for name, own in stage.items() if name != _TEXT_KEY}


def _ensure_environment(folder: Path, now: Environment, accept: bool) -> EnvironmentChanges:
    """What has changed since the run's start, now or at any earlier time that was accepted."""
    path = folder / ENVIRONMENT_FILE
    if not path.exists() or not checkpoint_folders(folder / CHECKPOINTS):
        write_listed_file(folder, ENVIRONMENT_FILE, json_bytes([now]))
    require_unchanged_file(
        folder, ENVIRONMENT_FILE, "restore it, or remove that folder and run it again"
    )
    environments = read_environments(folder)
    if require_same_environment(environments[-1], now, accept, folder):
        environments.append(now)
        write_listed_file(folder, ENVIRONMENT_FILE, json_bytes(environments))
    changes: EnvironmentChanges = {}
    for later in environments[1:]:
        changes |= environment_differences(environments[0], later)
    return changes
