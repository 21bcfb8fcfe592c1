"""What a later stage takes over from the stage before it: the weights, and which draws are used
up.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from paribus.corpus import TokenisedCorpus
from paribus.corpus.tokenizer import TOKENIZER_FILES
from paribus.errors import DivergedError, RecordError
from paribus.files import MAX_TOKENIZER_BYTES, read_bytes
from paribus.model import Transformer
from paribus.model.shards import fill_rows
from paribus.model.weights import read_tensors, require_tensors
from paribus.record import latest_checkpoint, named_folder, run_name
from paribus.record.disk import file_sha256
from paribus.record.environment import Environment, require_same_environment
from paribus.record.file_names import (
    CHAT_TEMPLATE_FILE,
    CHECKPOINTS,
    ENVIRONMENT_FILE,
    ORIGIN_FILE,
    STATE_FILE,
    WEIGHTS_FILE,
)
from paribus.record.folder import read_environments
from paribus.record.state import read_state
from paribus.record.study import DIVERGED_PREFIX
from paribus.runtime import derive_seed, torch_generator
from paribus.spec.begin import N_SHOWN_DIGITS, Begin
from paribus.spec.run import RunSpec, Stage, addressed_stages

# with a row for each id
ROW_TENSORS = ("embedding.weight", "head.weight", "head.bias")
Texts = tuple[TokenisedCorpus, ...]  # of a run, one for each stage


def name_of_run(run: RunSpec, texts: Texts) -> str:
    """The name of the folder of a run's last stage, where nobody gives it another."""
    return run_name(addressed_stages(run, [text.fingerprint for text in texts]))


def parent_folder(run: RunSpec, texts: Texts, runs: Path) -> Path | None:
    """The folder of the stage before the last; None where there is only one stage."""
    if run.parent is None:
        return None
    if len(run.parent.stages) == len(run.inherited_folders):
        return named_folder(runs, run.inherited_folders[-1])
    return named_folder(runs, name_of_run(run.parent, texts[:-1]))


def n_finished_stages(run: RunSpec, runs: Path) -> int:
    """How many of the first stages need not be looked at: those of the run that this one begins
    from, all but the last, where that is finished.
    """
    if not run.inherited_folders:
        return 0
    state = read_state(named_folder(runs, run.inherited_folders[-1]) / STATE_FILE)
    if state is None or state.status != "finished":
        return 0
    return len(run.inherited_folders) - 1


def begin_checkpoint(begin: Begin) -> Path:
    """The folder of the checkpoint that a run begins with; RecordError where it is not there, or
    holds other weights than when the run was made.
    """
    folder = Path(begin.path)
    path = folder / WEIGHTS_FILE
    if not begin.path or not path.is_file():
        raise RecordError(
            f"the run begins from {begin.name!r}, but {path} is not there; restore it, or name it"
            " with begin"
        )
    found = file_sha256(path)
    if found != begin.weights:
        raise RecordError(
            f"the run begins from {begin.name!r}, whose weights had the sha256"
            f" {begin.weights[:N_SHOWN_DIGITS]}…, but {path} now has {found[:N_SHOWN_DIGITS]}…;"
            " restore it, or begin a new run from it"
        )
    return folder


def require_finished_parent(folder: Path) -> None:
    """RecordError where the stage before is not finished, DivergedError where it diverged."""
    state = read_state(folder / STATE_FILE)
    if state is not None and state.status == "finished":
        return
    if state is not None and state.reason.startswith(DIVERGED_PREFIX):
        raise DivergedError(f"the stage before, {folder.name}, has diverged")
    raise RecordError(
        f"{folder} is the stage before, and it is not finished; train the run from its first stage"
    )


def require_parent_environment(folder: Path, child: Path, now: Environment, accept: bool) -> None:
    """RecordError where a stage is to be trained after one that was trained under another
    environment.
    """
    state = read_state(child / STATE_FILE)
    if (state is None or state.status != "finished") and (folder / ENVIRONMENT_FILE).exists():
        require_same_environment(read_environments(folder)[-1], now, accept, folder)


def parent_checkpoint(folder: Path, run: RunSpec) -> Path:
    """The last checkpoint of the stage before; RecordError where it is not there."""
    newest = latest_checkpoint(folder / CHECKPOINTS).checkpoint
    n_steps = run.stages[-2].training.n_steps
    if newest is None or newest.step != n_steps - 1:
        raise RecordError(
            f"{folder} is the stage before, and its last checkpoint, after step {n_steps}, is not"
            " there; train the run from its first stage"
        )
    return newest.folder


@torch.no_grad()
def take_over_weights(model: Transformer, checkpoint: Path, seed: int) -> None:
    """Give a model the weights of a checkpoint, which must have its shapes; rows of special tokens
    that it lacks are drawn.
    """
    path = checkpoint / WEIGHTS_FILE
    weights, state = read_tensors(path), model.state_dict()
    for name in ROW_TENSORS:
        if name in weights and name in state:
            weights[name] = with_added_rows(weights[name], len(state[name]), seed, name)
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    require_tensors(weights, shapes, path)
    for name, tensor in state.items():
        fill_rows(tensor, weights[name])


def with_added_rows(tensor: Tensor, n_rows: int, seed: int, name: str) -> Tensor:
    """A table with rows for special tokens after its own. They are drawn from a stream of their
    own, with the mean and the spread of the rows that are there.
    """
    n_added = n_rows - len(tensor)
    if n_added <= 0:
        return tensor
    own = tensor.float()
    shape = (n_added, *tensor.shape[1:])
    drawn = torch.randn(shape, generator=torch_generator(seed, "added rows", name))
    rows = own.mean(0) + own.std(0) * drawn
    return torch.cat([tensor, rows.to(tensor.dtype)])


def with_carried_files(files: Mapping[str, bytes], folder: Path) -> dict[str, bytes]:
    """The files of a checkpoint with those that go along with imported weights: what the config
    said beside the architecture, and the tokenizer as it came. A template of ours stays.
    """
    result = dict(files)
    if not (folder / ORIGIN_FILE).is_file():
        return result
    for name in (ORIGIN_FILE, *TOKENIZER_FILES):
        is_ours = name == CHAT_TEMPLATE_FILE and name in files
        if (folder / name).is_file() and not is_ours:
            result[name] = read_bytes(folder / name, MAX_TOKENIZER_BYTES)
    return result


def with_own_draws(stage: Stage, number: int) -> Stage:
    """A stage with random draws of its own: under the same seeds, a later stage does not repeat
    the order of text, the questions and the dropout of the first.
    """
    if number == 0:
        return stage
    training = stage.training
    seeds = {
        "seed": derive_seed(training.seed, "stage", number),
        "data_seed": derive_seed(training.data_seed, "stage", number),
    }
    return stage.model_copy(update={"training": training.model_copy(update=seeds)})
