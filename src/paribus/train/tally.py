"""What is counted between two rows: on the device what was answered, on the host what was read."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from paribus.train.learner import Sums


@dataclass
class Open:
    """Sums since the last row, and the last gradient's norm, on the device."""

    norm: Tensor
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, seen: Sums) -> None:
        for name in ("nats_sum", "target_count", "byte_count"):
            value = getattr(seen, name)
            self.sums[name] = self.sums[name] + value if name in self.sums else value.clone()
        self.norm = seen.gradient_norm

    def taken(self) -> dict[str, float]:
        numbers = {name: value.item() for name, value in self.sums.items()}
        self.sums = {}
        return numbers


@dataclass
class Spent:
    """What the host counts by itself, in total."""

    tokens_read: int = 0  # without padding
    dense_flops: float = 0.0
    positions_computed: int = 0  # with it


def mean(nats_sum: float, target_count: float) -> float | None:
    """Nats a target; None where nothing was asked."""
    return nats_sum / target_count if target_count else None
