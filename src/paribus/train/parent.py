"""What a later stage takes over from the stage before it: the weights, and which draws are used
up.
"""

from __future__ import annotations

from pathlib import Path

import torch

from paribus.corpus import TokenisedCorpus
from paribus.errors import DivergedError, RecordError
from paribus.model import Transformer
from paribus.model.weights import read_tensors, require_tensors
from paribus.record import latest_checkpoint, named_folder, run_name
from paribus.record.environment import Environment, require_same_environment
from paribus.record.file_names import CHECKPOINTS, ENVIRONMENT_FILE, STATE_FILE, WEIGHTS_FILE
from paribus.record.folder import read_environments
from paribus.record.state import read_state
from paribus.record.study import DIVERGED_PREFIX
from paribus.runtime import derive_seed
from paribus.spec.run import RunSpec, Stage, addressed_stages

Texts = tuple[TokenisedCorpus, ...]  # of a run, one for each stage


def name_of_run(run: RunSpec, texts: Texts) -> str:
    """The name of the folder of a run's last stage, where nobody gives it another."""
    return run_name(addressed_stages(run, [text.fingerprint for text in texts]))


def parent_folder(run: RunSpec, texts: Texts, runs: Path) -> Path | None:
    """The folder of the stage before the last; None where there is only one stage."""
    if run.parent is None:
        return None
    return named_folder(runs, name_of_run(run.parent, texts[:-1]))


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
def take_over_weights(model: Transformer, checkpoint: Path) -> None:
    """Give a model the weights of a checkpoint, which must have its shapes."""
    path = checkpoint / WEIGHTS_FILE
    weights, state = read_tensors(path), model.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    require_tensors(weights, shapes, path)
    for name, tensor in state.items():
        tensor.copy_(weights[name])


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
