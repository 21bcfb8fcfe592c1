"""The next token of texts, again and again, by a step that is recorded once and replayed.

A small model on a CPU spends most of a step between its products, in Python. A recorded step has
only the products. Recording takes as long as some tens of tokens, so short answers do without.
Answers of the same shape share a recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from torch import Tensor

from paribus.batch import map_tensors
from paribus.generate.recording import Step, record
from paribus.masks import frees_keys
from paribus.model import Transformer
from paribus.model.experts import RoutedExperts
from paribus.model.linear import JoinedWeights
from paribus.model.reading import Cache
from paribus.model.source_keys import SourceKeys
from paribus.model.steady_pass import SteadyPass

MIN_TOKENS = 32  # that are still to be said, from which on recording pays
MIN_SLOTS = 256
MAX_UNFREED_SLOTS = 1024  # of texts whose windows would free keys, which steady buffers do not
MAX_RECORDINGS = 8  # of one model

_Shape = tuple[object, ...]
_recordings: WeakKeyDictionary[Transformer, dict[_Shape, Step]] = WeakKeyDictionary()


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
        self._model, self._weights, self._length = model, cache.weights, max(cache.lengths)
        steady = SteadyPass.of(cache.stack, self._n_slots(), model.spec.max_length)
        self._tensors = _StepTensors.of(steady, cache.source)
        self._step = self._recorded_step()

    def logits(self, token_B: Tensor) -> Tensor:
        """The logits of what follows a token that is read behind each text: [B, V]."""
        steady = self._tensors.steady
        if self._length == steady.n_slots < self._model.spec.max_length:
            self._tensors = replace(self._tensors, steady=steady.with_slots(self._n_slots()))
            self._step = self._recorded_step()
        self._length += 1
        return self._step(token_B[:, None], *self._tensors.flat())

    def _n_slots(self) -> int:
        """Powers of two, so that texts of other lengths have the same."""
        n_slots = MIN_SLOTS
        while n_slots <= self._length:
            n_slots *= 2
        return min(n_slots, self._model.spec.max_length)

    def _recorded_step(self) -> Step:
        """One step over tensors like these, as a function of them."""
        shape = (*self._tensors.shape(), *_weights_version(self._model))
        recordings = _recordings.setdefault(self._model, {})
        if shape not in recordings:
            while len(recordings) >= MAX_RECORDINGS:
                recordings.pop(next(iter(recordings)))
            recordings[shape] = record(
                _step_of(self._model, self._tensors, self._weights),
                self._model,
                self._tensors.flat(),
            )
        return recordings[shape]


@dataclass(frozen=True, eq=False)
class _StepTensors:
    """What a step reads and writes beside its token, in any number of tensors."""

    steady: SteadyPass
    source: SourceKeys | None
    source_tensors: tuple[str, ...] = ()  # of the layout of the source

    @staticmethod
    def of(steady: SteadyPass, source: SourceKeys | None) -> _StepTensors:
        if source is None:
            return _StepTensors(steady, None)
        source = SourceKeys(source.layers, source.layout)
        return _StepTensors(steady, source, tuple(map_tensors(source.layout, lambda one: one)))

    def flat(self) -> list[Tensor]:
        tensors = [self.steady.place_B1]
        if isinstance(self.steady.queries.prefix, Tensor):
            tensors.append(self.steady.queries.prefix)
        layers = list(self.steady.layers)
        if self.source is not None:
            layers += self.source.layers.values()
            tensors += [getattr(self.source.layout, name) for name in self.source_tensors]
        for keys in layers:
            tensors += keys
        return tensors

    def unflatten(self, tensors: Sequence[Tensor]) -> _StepTensors:
        """These with other tensors in their places."""
        left = iter(tensors)
        place_B1, prefix, source = next(left), self.steady.queries.prefix, self.source
        if isinstance(prefix, Tensor):
            prefix = next(left)
        layout = None
        if source is not None:
            own = {name: next(left) for name in self.source_tensors}
            layout = replace(source.layout, **own)
        layers = [tuple(next(left) for _ in keys) for keys in self.steady.layers]
        if source is not None and layout is not None:
            source_layers = {}
            for number, keys in source.layers.items():
                source_layers[number] = tuple(next(left) for _ in keys)
            source = SourceKeys(source_layers, layout)
        steady = SteadyPass(place_B1, layers, prefix, self.steady.longest)
        return replace(self, steady=steady, source=source)

    def shape(self) -> _Shape:
        """What a recording depends on beside the values of tensors."""
        prefix = self.steady.queries.prefix
        layout = None
        if self.source is not None:
            none = dict.fromkeys(self.source_tensors)
            layout = str(replace(self.source.layout, **none))
        return (
            None if isinstance(prefix, Tensor) else prefix,
            self.source_tensors,
            layout,
            *(tuple(tensor.shape) for tensor in self.flat()),
        )


def _step_of(model: Transformer, like: _StepTensors, weights: JoinedWeights) -> Step:
    """One step as a function of tensors alone."""

    def step(token_B1: Tensor, *flat: Tensor) -> Tensor:
        tensors = like.unflatten(flat)
        states_B1D = model.step(token_B1, tensors.steady, tensors.source, weights)
        return model.logits(states_B1D[:, 0], weights)

    return step


def _weights_version(model: Transformer) -> tuple[int, ...]:
    """Changes with every change of a weight: what a recording holds is stale then."""
    return tuple(parameter._version for parameter in model.parameters())
