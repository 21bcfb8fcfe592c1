"""A run: one process that opens a folder, writes its rows and checkpoints, and says how it ended."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from paribus.errors import RecordError
from paribus.record.address import Stage, address
from paribus.record.checkpoints import Checkpoint, Found, latest, places, rows_then, save
from paribus.record.checksums import list_file, require_agreement, write_listed
from paribus.record.disk import as_json, sweep, sync, told
from paribus.record.environment import Changes, Environment, differences, require_same
from paribus.record.file_names import (
    CHECKPOINTS,
    ENVIRONMENT_FILE,
    EVALUATIONS,
    LOCK_FILE,
    ROWS_FILE,
    SPEC_FILE,
    STATE_FILE,
)
from paribus.record.folder import RUN_FORMAT, environments_of, place, require_own, stages_of
from paribus.record.frozen import apart
from paribus.record.lock import lock
from paribus.record.rows import Cut, Rows, cut, read_rows, require_ended, rows_sum, sync_rows
from paribus.record.state import State, Word, read_state, state_line

_ADDRESS_CHARACTERS = 16
ANEW = f"restore {ROWS_FILE}, or remove that folder and run it again"
_TEXT = "text"  # of a stage: the fingerprint of what was read


def require_rows_of(folder: Path, step: int) -> None:
    """RecordError where a run's rows up to a step are not those that were there when its checkpoint was saved.

    So it is where a checkpoint was put there that is another run's.
    """
    known, path = rows_then(folder / CHECKPOINTS, step), folder / ROWS_FILE
    if known is not None and known != rows_sum(path) and known != rows_sum(path, step):
        raise RecordError(
            f"{path} does not hold the rows up to step {step + 1} as they were when that step was saved; {ANEW}"
        )


def name_of(stages: Sequence[Stage]) -> str:
    """What the folder of a run is called that was given no name."""
    return address(stages)[:_ADDRESS_CHARACTERS]


@dataclass(frozen=True)
class Run:
    """A run folder whose lock we hold."""

    folder: Path
    address: str
    before: State | None  # its state when it was opened; None: new
    leftovers: tuple[str, ...]  # what a killed process had left, now removed
    changes: Changes  # what of the environment is not what the run was started under
    _skipped: set[Path] = field(default_factory=set, repr=False)

    def latest(self) -> Found:
        """The newest checkpoint that verifies, and those that were skipped; the next save removes these."""
        found = latest(self.folder / CHECKPOINTS)
        self._skipped.update(skipped.folder for skipped in found.skipped)
        return found

    def rows(self, after_step: int) -> tuple[Rows, Cut]:
        """Rows to be written after `after_step`, the step of the checkpoint resumed from, -1 for none."""
        path = self.folder / ROWS_FILE
        dropped = cut(path, after_step)
        require_rows_of(self.folder, after_step)
        return Rows(path, tuple(self.changes)), dropped

    def save(self, step: int, fill: Callable[[Path], object], score: float | None = None, keep: int = 2) -> Checkpoint:
        """A checkpoint filled by `fill`; the rows so far reach the disk before it does."""
        sync_rows(self.folder / ROWS_FILE)
        rows = rows_sum(self.folder / ROWS_FILE)
        saved = save(self.folder / CHECKPOINTS, step, fill, score, keep, self._skipped, rows)
        self._skipped.clear()
        return saved

    def require_whole(self, n_steps: int) -> None:
        """RecordError where a row of this finished run, or its last one, cannot be read."""
        path, advice = self.folder / ROWS_FILE, ANEW
        try:
            rows = read_rows(path).rows
        except RecordError as fault:  # a line less would go unnoticed: this run is not gone on with
            raise RecordError(f"{str(fault).rpartition('; ')[0]}; {advice}") from fault
        require_ended(path, next(reversed(rows), None), n_steps, advice)
        require_agreement(self.folder, ROWS_FILE, advice)

    def finish(self) -> None:
        sync_rows(self.folder / ROWS_FILE)
        list_file(self.folder, ROWS_FILE)
        _settle_state(self.folder, "finished")

    def fail(self, reason: str) -> None:
        list_file(self.folder, ROWS_FILE)
        _settle_state(self.folder, "failed", reason)


@contextmanager
def opened(
    root: Path,
    stages: Sequence[Stage],
    environment: Environment,
    name: str | None = None,
    accept_environment: bool = False,
) -> Iterator[Run]:
    """The folder of a run, new or resumed, held under its lock.

    An error inside marks the run failed; Ctrl-C, SystemExit or a kill leave it `running` with nobody at its lock. A
    finished run is opened as it is: nothing is compared or written. One without a checkpoint starts anew, under
    whatever environment.
    """
    own = address(stages)
    folder = place(root, own[:_ADDRESS_CHARACTERS] if name is None else name)
    with told(folder, "made", "choose another folder for runs"):
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.parent)
    require_own(folder)
    with lock(folder / LOCK_FILE):
        run = _resumed(folder, stages, environment, accept_environment)
        try:
            yield run
        except Exception as fault:
            with suppress(RecordError):  # a full disk, most likely, and `fault` says it better
                _fail(run, fault)
            raise


def _fail(run: Run, fault: Exception) -> None:
    state = read_state(run.folder / STATE_FILE)
    if state is None or state.word != "finished":
        run.fail(f"{type(fault).__name__}: {fault}")


def _resumed(folder: Path, stages: Sequence[Stage], environment: Environment, accept: bool) -> Run:
    inside = (f"{part}/{name}" for part in (CHECKPOINTS, EVALUATIONS) for name in sweep(folder / part))
    leftovers = (*sweep(folder), *inside)
    _settle_spec(folder, stages)
    with told(folder / CHECKPOINTS, "made", "remove what is in its place"):
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
    before = read_state(folder / STATE_FILE)
    changes: Changes = {}
    if before is None or before.word != "finished":
        changes = _settle_environment(folder, environment, accept)
        _settle_state(folder, "running")
    return Run(folder, address(stages), before, leftovers, changes)


def _settle_state(folder: Path, word: Word, reason: str = "") -> None:
    write_listed(folder, STATE_FILE, state_line(word, reason))


def _settle_spec(folder: Path, stages: Sequence[Stage]) -> None:
    path = folder / SPEC_FILE
    if not path.exists():
        table = {"format": RUN_FORMAT, "stages": [dict(stage) for stage in stages]}
        write_listed(folder, SPEC_FILE, as_json(table))
    held = stages_of(folder)
    there, given = address(held), address(stages)
    if there != given:
        raise RecordError(
            f"{folder} holds the run {there[:_ADDRESS_CHARACTERS]}, not {given[:_ADDRESS_CHARACTERS]}: "
            f"{_parting(held, stages)}; choose another name, or leave it out"
        )


def _parting(held: Sequence[Stage], given: Sequence[Stage]) -> str:
    """In which fields two chains differ; the text read is one only where all else is equal, or it would follow."""
    sides = ([{name: own for name, own in stage.items() if name != _TEXT} for stage in side] for side in (held, given))
    pairs = zip_longest(*sides, fillvalue={})
    return "; ".join(field for old, new in pairs for field in apart(old, new)) or "the text read is not the same"


def _settle_environment(folder: Path, now: Environment, accept: bool) -> Changes:
    """What has changed since the run's start, now or at any earlier time that was accepted."""
    path = folder / ENVIRONMENT_FILE
    if not path.exists() or not places(folder / CHECKPOINTS):
        write_listed(folder, ENVIRONMENT_FILE, as_json([now]))
    require_agreement(folder, ENVIRONMENT_FILE, "restore it, or remove that folder and run it again")
    known = environments_of(folder)
    if require_same(known[-1], now, accept, folder):
        known.append(now)
        write_listed(folder, ENVIRONMENT_FILE, as_json(known))
    return {name: pair for later in known[1:] for name, pair in differences(known[0], later).items()}
