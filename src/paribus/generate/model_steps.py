"""Steps of one token a text that are prepared once for a model: recorded on a CPU, captured as a
graph on CUDA.

A small model spends most of a step between its products, in Python. A prepared step has only the
products. To prepare it takes as long as some tens of tokens, so short answers do without.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from paribus.generate.recording import Step, record
from paribus.generate.step_tensors import StepShape, StepTensors
from paribus.generate.weights_version import weights_version
from paribus.masks import frees_keys
from paribus.model import Transformer
from paribus.model.experts import RoutedExperts
from paribus.model.fused_step import can_fuse_step, fused_logits
from paribus.model.linear import JoinedWeights

MIN_TOKENS = 32  # that are still to be said, from which on it pays
MAX_UNFREED_SLOTS = 1024  # of texts whose windows would free keys, which steady buffers do not
MAX_RECORDINGS = 8  # of one model
MAX_FREE_GRAPHS = 4  # of one model; they hold buffers


@dataclass(frozen=True, eq=False)
class ModelSteps:
    """What is prepared of a model as long as its weights stay as they are."""

    version: tuple[int, ...]
    weights: JoinedWeights = field(default_factory=JoinedWeights)
    recordings: dict[StepShape, Step] = field(default_factory=dict)
    free_graphs: list[tuple[StepShape, object]] = field(default_factory=list)

    def take_graph(self, shape: StepShape) -> Any:
        """A graph of this shape that nobody uses; None if there is none."""
        for number, (own_shape, _) in enumerate(self.free_graphs):
            if own_shape == shape:
                return self.free_graphs.pop(number)[1]
        return None

    def free_graph(self, shape: StepShape, graph: object) -> None:
        """Nobody uses a graph any more. The latest are kept."""
        self.free_graphs.append((shape, graph))
        del self.free_graphs[:-MAX_FREE_GRAPHS]


_prepared: WeakKeyDictionary[Transformer, ModelSteps] = WeakKeyDictionary()


def model_steps(model: Transformer, weights: JoinedWeights | None = None) -> ModelSteps:
    """What is prepared of a model. Who has its `joined_weights`, and knows that they did not change
    since then, gives them: others look at all of them.
    """
    known = _prepared.get(model)
    if known is not None and known.weights is weights:
        return known
    version = weights_version(model)
    if known is None or known.version != version:
        known = _prepared[model] = ModelSteps(version)
    elif model.embedding.weight.device.type == "cuda":
        known.weights.refresh()  # graphs read them where they lie
    return known


def joined_weights(model: Transformer) -> JoinedWeights:
    """The weights of a model as they are multiplied, for all that answers until they change."""
    return model_steps(model).weights


def can_prepare(model: Transformer, longest: int) -> bool:
    """Can a step be prepared, and is it worth it, for texts that become so long?

    Not with experts: who computes depends on the token.
    """
    if model.embedding.weight.device.type not in ("cpu", "cuda"):
        return False
    if any(isinstance(module, RoutedExperts) for module in model.modules()):
        return False
    if any(frees_keys(rule) for rule in model.spec.stack.masks):
        return longest <= MAX_UNFREED_SLOTS
    return True


def is_recorded(model: Transformer, like: StepTensors, weights: JoinedWeights) -> bool:
    """Is a step over tensors like these recorded already?"""
    return like.shape() in model_steps(model, weights).recordings


def recorded_step(model: Transformer, like: StepTensors, weights: JoinedWeights) -> Step:
    """One step over tensors like these, as a function of tokens [B, 1] and of them. `weights` are
    those that were read with so far.
    """
    steps = model_steps(model, weights)
    shape, recordings = like.shape(), steps.recordings
    if shape not in recordings:
        while len(recordings) >= MAX_RECORDINGS:
            recordings.pop(next(iter(recordings)))
        step = step_of(model, like, steps.weights)
        recordings[shape] = record(step, model, like.flat(), like.larger().flat())
    return recordings[shape]


def step_of(model: Transformer, like: StepTensors, weights: JoinedWeights) -> Step:
    """One step as a function of tensors alone."""
    is_fused = can_fuse_step(model, like.n_texts)

    def step(token_B1: Tensor, *flat: Tensor) -> Tensor:
        tensors = like.unflatten(flat)
        if is_fused:
            return fused_logits(model, token_B1, tensors.steady, tensors.source, weights)
        states_B1D = model.step(token_B1, tensors.steady, tensors.source, weights)
        return model.logits(states_B1D[:, 0], weights)

    return step
