"""The tensors that a step of one token a text reads and writes, as one list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paribus.batch import map_tensors
from paribus.model.source_keys import SourceKeys
from paribus.model.steady_pass import SteadyPass

StepShape = tuple[object, ...]
_EXTRA_SLOTS = 5  # with which a recording is compared


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
    def n_texts(self) -> int:
        return len(self.steady.place_B1)

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
        if self.n_texts == 1:
            return larger
        return larger.unflatten([torch.cat([one, one[:1]]) for one in larger.flat()])

    def shape(self) -> StepShape:
        """What a recording depends on beside values, the number of texts and that of slots.

        A single text has a recording of its own: its products are others.
        """
        prefix, layout = self.steady.queries.prefix, None
        if self.source is not None:
            none = dict.fromkeys(self._source_tensors)
            layout = str(replace(self.source.layout, n_sequences=0, length=0, **none))
        return (
            self.n_texts == 1,
            None if isinstance(prefix, Tensor) else prefix,
            tuple(self._source_tensors),
            layout,
        )
