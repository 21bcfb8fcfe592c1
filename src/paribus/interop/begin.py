"""What a run begins from, opened: another run with its stages, or a checkpoint with its
tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint, stages_of
from paribus.model.weights import read_architecture
from paribus.record import read_stages, require_checkpoint_rows, run_name
from paribus.record.checksums import read_checksums
from paribus.record.disk import file_sha256, read_json
from paribus.record.file_names import (
    CHECKPOINTS,
    MANIFEST_FILE,
    SPEC_FILE,
    WEIGHTS_FILE,
    checkpoint_step,
)
from paribus.spec import Architecture, parse_architecture
from paribus.spec.begin import N_SHOWN_DIGITS, Begin, BeginFrom
from paribus.spec.begin_reading import BeginPoint, History, TrainedStage
from paribus.spec.corpus import TokenizerFile
from paribus.spec.objectives import Objective
from paribus.spec.stages import Stage, changed_fields


def open_begin(request: BeginFrom, runs: Path) -> BeginPoint:
    """What a run begins from: a run in `runs`, or a checkpoint anywhere."""
    checkpoint = load_checkpoint(request.name, runs)
    if checkpoint.run is not None and not _names_checkpoint(request.name, checkpoint):
        if request.weights is not None:
            raise SpecError(
                f"begin.weights is given, but {request.name!r} is a run, whose address says what it"
                " is; leave it out, or name one of its checkpoints"
            )
        return _open_run(checkpoint.run, runs)
    return _open_checkpoint(request, checkpoint, runs)


def _names_checkpoint(name: str, checkpoint: LoadedCheckpoint) -> bool:
    """Does a name lead to a checkpoint itself, and not to the run that it is of?"""
    return (Path(name) / WEIGHTS_FILE).is_file() and Path(name).samefile(checkpoint.folder)


def _open_checkpoint(request: BeginFrom, checkpoint: LoadedCheckpoint, runs: Path) -> BeginPoint:
    weights = file_sha256(checkpoint.folder / WEIGHTS_FILE)
    if request.weights not in (None, weights):
        raise SpecError(
            f"begin.weights is {request.weights[:N_SHOWN_DIGITS]}…, but the weights of"
            f" {request.name!r} have the sha256 {weights[:N_SHOWN_DIGITS]}…; restore them, or leave"
            " it out"
        )
    tokenizer_file = _tokenizer_file(checkpoint)
    begin = Begin(
        name=_checkpoint_name(checkpoint),
        weights=weights,
        tokenizer=file_sha256(tokenizer_file),
        path=str(checkpoint.folder),
    )
    architecture = read_architecture(checkpoint.folder)
    return BeginPoint(
        name=begin.name,
        architecture=architecture,
        last_architecture=architecture,
        tokenizer=TokenizerFile(
            path=str(tokenizer_file), special_tokens=_special_tokens(checkpoint)
        ),
        objective=_objective(checkpoint),
        begin=begin,
        open_history=partial(_history, begin, (runs,)),
    )


def _history(begin: Begin, runs: Sequence[Path]) -> History:
    """What trained the weights of a checkpoint, back to its first stage: the run in whose folder it
    lies, or any in these folders that saved a checkpoint of the same weights.
    """
    found = _find_trainer(begin, runs)
    if found is None:
        return History(earliest=begin.weights, unknown=f"no record says what trained {begin.name}")
    run, n_steps = found
    try:
        tables, stages = read_stages(run), stages_of(run)
        architectures = [parse_architecture(table["architecture"]) for table in tables]
        earlier = _recorded_begin(tables[0])
    except (RecordError, SpecError) as fault:
        unknown = f"what trained {begin.name} cannot be read ({fault})"
        return History(earliest=begin.weights, unknown=unknown)
    trained = []
    for stage, architecture, table in zip(stages, architectures, tables, strict=True):
        n_planned = stage.training.n_steps
        own = TrainedStage(stage, architecture, table.get("text", ""), n_planned)
        trained.append(own)
    training = stages[-1].training.model_copy(update={"n_steps": n_steps})
    last = stages[-1].model_copy(update={"training": training})
    trained[-1] = replace(trained[-1], stage=last)
    if earlier is None:
        return History(stages=tuple(trained))
    before = _history(earlier, (*runs, run.absolute().parent))
    return replace(before, stages=(*before.stages, *trained))


def _find_trainer(begin: Begin, runs: Sequence[Path]) -> tuple[Path, int] | None:
    """The run that trained the weights of a checkpoint, and after how many steps; None where no
    record is found.
    """
    manifests: list[Path] = []
    folder = Path(begin.path).absolute()
    if begin.path and folder.parent.name == CHECKPOINTS:
        manifests.append(folder / MANIFEST_FILE)
    for place in dict.fromkeys(Path(place).absolute() for place in runs):
        manifests += sorted(place.glob(f"*/{CHECKPOINTS}/*/{MANIFEST_FILE}"))
    for manifest in manifests:
        run, step = manifest.parents[2], checkpoint_step(manifest.parent.name)
        if _manifest_weights(manifest) != begin.weights or not (run / SPEC_FILE).is_file():
            continue
        if _is_own_record(run, step):
            return run, step + 1
    return None


def _is_own_record(run: Path, step: int) -> bool:
    """Does a folder say of the checkpoint of a step what was written there? Neither was its spec
    changed, nor did another run save the checkpoint.
    """
    try:
        checksums = read_checksums(run)
        require_checkpoint_rows(run, step)
    except RecordError:
        return False
    return checksums is not None and checksums.file_fault(run, SPEC_FILE) is None


def _manifest_weights(path: Path) -> str | None:
    """The sha256 of the weights that a checkpoint lists."""
    try:
        return read_json(path)["files"][WEIGHTS_FILE]["sha256"]
    except (RecordError, OSError, KeyError, TypeError):
        return None


def _tokenizer_file(checkpoint: LoadedCheckpoint) -> Path:
    if checkpoint.tokenizer_file is None:
        raise RecordError(
            f"{checkpoint.folder} holds no tokenizer.json, so no run can begin from it: it would"
            " not know what its ids stand for; put the one that it was trained with there"
        )
    return checkpoint.tokenizer_file


def _special_tokens(checkpoint: LoadedCheckpoint) -> dict[str, int] | None:
    """Ids of special tokens that the tokenizer has itself; None where ours come after its ids."""
    vocabulary, tokenizer = checkpoint.vocabulary, checkpoint.tokenizer
    if vocabulary.own_special_tokens is None and vocabulary.n_text == tokenizer.n_text:
        return None
    return vocabulary.named_special_tokens


def _objective(checkpoint: LoadedCheckpoint) -> Objective | None:
    try:
        return checkpoint.objective()
    except UnsupportedError:  # of an import that records none: the stage must say what it asks
        return None


def _checkpoint_name(checkpoint: LoadedCheckpoint) -> str:
    """What a checkpoint is called: its folder, and the run that it is of."""
    name = checkpoint.folder.absolute().name
    if checkpoint.run is None:
        return name
    return f"{checkpoint.run.absolute().name}/{name}"


def _open_run(folder: Path, runs: Path) -> BeginPoint:
    if folder.absolute().parent != Path(runs).absolute():
        raise SpecError(
            f"begin is the run {folder}, which is not in {runs}, where its stages would be trained"
            " again; use --runs, or name one of its checkpoints"
        )
    tables = read_stages(folder)
    stages, architectures = _changed_stages(stages_of(folder), tables)
    begin = _recorded_begin(tables[0])
    folders = [run_name(tables[: number + 1]) for number in range(len(tables) - 1)]
    return BeginPoint(
        name=folder.name,
        architecture=architectures[0],
        last_architecture=architectures[-1],
        tokenizer=stages[-1].corpus.tokenizer,
        objective=stages[-1].objective,
        begin=begin,
        stages=stages,
        folders=(*folders, folder.name),
        rerun=tables[0].get("rerun", 0),
        open_history=History if begin is None else partial(_history, begin, (runs,)),
    )


def _recorded_begin(table: dict[str, Any]) -> Begin | None:
    if "begin" in table:
        return Begin.model_validate(table["begin"])
    return None


def _changed_stages(
    stages: tuple[Stage, ...], tables: list[dict[str, Any]]
) -> tuple[tuple[Stage, ...], list[Architecture]]:
    """Stages with what each changed of the architecture, which a record holds whole."""
    architectures = [parse_architecture(table["architecture"]) for table in tables]
    changed = [stages[0]]
    for stage, before, after in zip(stages[1:], architectures, architectures[1:], strict=False):
        change = changed_fields(before, after)
        changed.append(stage.model_copy(update={"architecture": change}))
    return tuple(changed), architectures
