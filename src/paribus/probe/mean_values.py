"""Values of many texts by place, and their means as rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor

from paribus.record.probe_rows import ProbeRow


@dataclass(frozen=True)
class Place:
    """Where a value is from; see `ProbeRow`."""

    stack: str = ""
    branch: str = ""
    layer: int | None = None
    head: int | None = None
    variant: str = ""
    x: float | None = None
    x_name: str = ""

    def at(self, x: float, x_name: str) -> Place:
        """The point x of a curve at this place."""
        return replace(self, x=x, x_name=x_name)

    def of_variant(self, variant: str) -> Place:
        """This place in a variant of the model."""
        return replace(self, variant=variant)


@dataclass
class MeanValues:
    """Sums and counts by place and quantity, in the order of first appearance."""

    probe: str
    _sums: dict[tuple[Place, str], tuple[float, int]] = field(default_factory=dict)

    def add(self, place: Place, quantity: str, value: float) -> None:
        """One more value."""
        total, n_values = self._sums.get((place, quantity), (0.0, 0))
        self._sums[place, quantity] = (total + value, n_values + 1)

    def add_heads(self, place: Place, quantity: str, values_BH: Tensor) -> None:
        """A value of each head for each text."""
        for values in values_BH.double().tolist():
            for head, value in enumerate(values):
                self.add(replace(place, head=head), quantity, value)

    def add_texts(self, place: Place, quantity: str, values_B: Tensor) -> None:
        """A value for each text."""
        for value in values_B.double().tolist():
            self.add(place, quantity, value)

    def rows(self) -> Iterator[ProbeRow]:
        """The means."""
        for (place, quantity), (total, n_values) in self._sums.items():
            yield ProbeRow(
                probe=self.probe,
                quantity=quantity,
                value=total / n_values,
                n=n_values,
                **vars(place),
            )
