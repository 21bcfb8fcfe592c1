"""The next token of texts, again and again, by a step that is recorded once and replayed.

A small model on a CPU spends most of a step between its products, in Python. A recorded step has
only the products. Recording takes as long as some tens of tokens, so short answers do without.
Answers share recordings, however long and however many they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from paribus.batch import map_tensors
from paribus.generate.recording import Step, record
from paribus.generate.weights_version import weights_version
from paribus.masks import frees_keys
from paribus.model import Transformer
from paribus.model.experts import RoutedExperts
from paribus.model.linear import JoinedWeights
from paribus.model.reading import Cache
from paribus.model.source_keys import SourceKeys
from paribus.model.steady_pass import SteadyPass

MIN_TOKENS = 32  # that are still to be said, from which on recording pays
MIN_SLOTS = 256
SLOTS_READ = 64  # a step reads a multiple of so many slots
MAX_UNFREED_SLOTS = 1024  # of texts whose windows would free keys, which steady buffers do not
MAX_RECORDINGS = 8  # of one model
_EXTRA_SLOTS = 5  # with which a recording is compared

_Shape = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class ModelSteps:
    """What is prepared of a model as long as its weights stay as they are."""

    version: tuple[int, ...]
    weights: JoinedWeights = field(default_factory=JoinedWeights)
    recordings: dict[_Shape, Step] = field(default_factory=dict)


_prepared: WeakKeyDictionary[Transformer, ModelSteps] = WeakKeyDictionary()


def joined_weights(model: Transformer) -> JoinedWeights:
    """The weights of a model as they are multiplied, for all that answers until they change."""
    if model.embedding.weight.device.type != "cpu":
        return JoinedWeights()
    return model_steps(model).weights


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
    return known


def can_record(model: Transformer, longest: int) -> bool:
    """Can a step be recorded, and is it worth it, for texts that become so long?

    Not with experts: who computes depends on the token.
    """
    if model.embedding.weight.device.type != "cpu":
        return False
    if any(isinstance(module, RoutedExperts) for module in model.modules()):
        return False
    if any(frees_keys(rule) for rule in model.spec.stack.masks):
        return longest <= MAX_UNFREED_SLOTS
    return True


class AnswerSteps:
    """Texts that grow by one token at a time. What is said of a text that was full is nonsense."""

    def __init__(self, model: Transformer, cache: Cache):
        self._model, self._length = model, max(cache.lengths)
        steady = SteadyPass.of(cache.stack, self._n_slots(MIN_SLOTS), model.spec.max_length)
        self._tensors = StepTensors.of(steady, cache.source)
        self._read_slots()
        self._step = recorded_step(model, self._read, cache.weights)

    def logits(self, token_B: Tensor) -> Tensor:
        """The logits of what follows a token that is read behind each text: [B, V]."""
        if self._length == self._read.steady.n_slots < self._model.spec.max_length:
            self._read_slots()
        self._length += 1
        return self._step(token_B[:, None], *self._flat)

    def _read_slots(self) -> None:
        """Read as many slots as texts have, up to a multiple, in buffers that have room for them.
        What lies behind them costs nothing.
        """
        steady = self._tensors.steady
        if self._length == steady.n_slots:
            steady = steady.with_slots(self._n_slots(2 * self._length))
            self._tensors = replace(self._tensors, steady=steady)
        n_read = min(self._n_slots(SLOTS_READ), steady.n_slots)
        self._read = replace(self._tensors, steady=steady.first_slots(n_read))
        self._flat = self._read.flat()

    def _n_slots(self, multiple: int) -> int:
        """Slots for one token more, a multiple of a number if there are as many."""
        n_slots = (self._length // multiple + 1) * multiple
        return min(n_slots, self._model.spec.max_length)


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
        step = _step_of(model, like, steps.weights)
        recordings[shape] = record(step, model, like.flat(), like.larger().flat())
    return recordings[shape]


@dataclass(frozen=True, eq=False)
class StepTensors:
    """What a step reads and writes beside its tokens, in any number of tensors [B, …]."""

    steady: SteadyPass
    source: SourceKeys | None = None

    @staticmethod
    def of(steady: SteadyPass, source: SourceKeys | None) -> StepTensors:
        if source is None:
            return StepTensors(steady)
        layout, device = source.layout, steady.place_B1.device
        if not isinstance(layout.prefix, Tensor):
            prefix_B = torch.full((layout.n_sequences,), layout.prefix, device=device)
            layout = replace(layout, prefix=prefix_B)
        return StepTensors(steady, SourceKeys(source.layers, layout))

    @property
    def _source_tensors(self) -> dict[str, Tensor]:
        """Those of the layout of the source, by name."""
        if self.source is None:
            return {}
        return map_tensors(self.source.layout, lambda one: one)

    def flat(self) -> list[Tensor]:
        """All of them in one order, the places first."""
        tensors = [self.steady.place_B1]
        if isinstance(self.steady.queries.prefix, Tensor):
            tensors.append(self.steady.queries.prefix)
        layers = list(self.steady.layers)
        if self.source is not None:
            layers += self.source.layers.values()
            tensors += self._source_tensors.values()
        for keys in layers:
            tensors += keys
        return tensors

    def unflatten(self, tensors: Sequence[Tensor]) -> StepTensors:
        """These with other tensors in their places, of any number of texts and slots."""
        left = iter(tensors)
        place_B1, prefix, source = next(left), self.steady.queries.prefix, self.source
        if isinstance(prefix, Tensor):
            prefix = next(left)
        own = {name: next(left) for name in self._source_tensors}
        layers = [tuple(next(left) for _ in keys) for keys in self.steady.layers]
        if source is not None:
            source_layers = {}
            for number, keys in source.layers.items():
                source_layers[number] = tuple(next(left) for _ in keys)
            n_texts, _, length, _ = next(iter(source_layers.values()))[0].shape
            layout = replace(source.layout, n_sequences=n_texts, length=length, **own)
            source = SourceKeys(source_layers, layout)
        return StepTensors(SteadyPass(place_B1, layers, prefix, self.steady.longest), source)

    def larger(self) -> StepTensors:
        """Other tensors that the same recording must serve: with more slots, and one text more
        where there are several.
        """
        larger = replace(self, steady=self.steady.with_slots(self.steady.n_slots + _EXTRA_SLOTS))
        if len(self.steady.place_B1) == 1:
            return larger
        return larger.unflatten([torch.cat([one, one[:1]]) for one in larger.flat()])

    def shape(self) -> _Shape:
        """What a recording depends on beside values, the number of texts and that of slots.

        A single text has a recording of its own: its products are others.
        """
        prefix, layout = self.steady.queries.prefix, None
        if self.source is not None:
            none = dict.fromkeys(self._source_tensors)
            layout = str(replace(self.source.layout, n_sequences=0, length=0, **none))
        return (
            len(self.steady.place_B1) == 1,
            None if isinstance(prefix, Tensor) else prefix,
            tuple(self._source_tensors),
            layout,
        )


def _step_of(model: Transformer, like: StepTensors, weights: JoinedWeights) -> Step:
    """One step as a function of tensors alone."""

    def step(token_B1: Tensor, *flat: Tensor) -> Tensor:
        tensors = like.unflatten(flat)
        states_B1D = model.step(token_B1, tensors.steady, tensors.source, weights)
        return model.logits(states_B1D[:, 0], weights)

    return step
