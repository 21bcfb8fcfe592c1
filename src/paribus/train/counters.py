"""What is counted between two rows: on the device what was answered, on the host what was read."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from paribus.train.learner import StepSums


@dataclass
class RowSums:
    """Sums since the last row, and the last gradient's norm, on the device."""

    gradient_norm: Tensor
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, step_sums: StepSums) -> None:
        for name in ("nats_sum", "target_count", "byte_count"):
            value = getattr(step_sums, name)
            if name in self.sums:
                self.sums[name] = self.sums[name] + value
            else:
                self.sums[name] = value.clone()
        self.gradient_norm = step_sums.gradient_norm

    def take(self) -> dict[str, float]:
        numbers = {name: value.item() for name, value in self.sums.items()}
        self.sums = {}
        return numbers


@dataclass
class Totals:
    """What the host counts by itself, in total."""

    tokens_read: int = 0  # without padding
    dense_flops: float = 0.0
    positions_computed: int = 0  # with it


def nats_per_target(nats_sum: float, target_count: float) -> float | None:
    """Nats a target; None where nothing was asked."""
    if target_count:
        return nats_sum / target_count
    return None
