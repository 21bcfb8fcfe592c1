"""The tensors that a step of one token a text reads and writes, as one list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from paribus.batch import map_tensors
from paribus.model.source_keys import SourceKeys
from paribus.model.steady_pass import SteadyPass

StepShape = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class StepTensors:
    """What a step reads and writes beside its token, in any number of tensors."""

    steady: SteadyPass
    source: SourceKeys | None
    source_tensors: tuple[str, ...] = ()  # of the layout of the source

    @staticmethod
    def of(steady: SteadyPass, source: SourceKeys | None) -> StepTensors:
        if source is None:
            return StepTensors(steady, None)
        source = SourceKeys(source.layers, source.layout)
        return StepTensors(steady, source, tuple(map_tensors(source.layout, lambda one: one)))

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

    def unflatten(self, tensors: Sequence[Tensor]) -> StepTensors:
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

    def shape(self) -> StepShape:
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
