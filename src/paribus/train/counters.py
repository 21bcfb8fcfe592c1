"""What is counted between two rows: on the device what was answered, on the host what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from paribus.train.learner import StepSums


@dataclass
class RowSums:
    """Sums since the last row, and the last gradient's norm, on the device."""

    gradient_norm: Tensor
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, step_sums: StepSums) -> None:
        own = {
            name: getattr(step_sums, name) for name in ("nats_sum", "target_count", "byte_count")
        }
        for name, value in {**own, **step_sums.preference_sums}.items():
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


def mean_loss(sums: Mapping[str, float]) -> float | None:
    """Nats a target, or a pair of responses; None where nothing was asked."""
    return nats_per_target(sums["nats_sum"], sums.get("pair_count", sums["target_count"]))


def preference_numbers(sums: Mapping[str, float]) -> dict[str, float]:
    """What a row says of preferences: the mean margin of rewards, how often the chosen response
    has the greater one, and the KL divergence from the parent in nats a response.
    """
    n_pairs = sums.get("pair_count")
    if not n_pairs:
        return {}
    return {
        "reward_margin": sums["margin_sum"] / n_pairs,
        "preferred": sums["preferred_count"] / n_pairs,
        "kl": sums["kl_sum"] / (2 * n_pairs),
    }


def nats_per_target(nats_sum: float, target_count: float) -> float | None:
    """Nats a target; None where nothing was asked."""
    if target_count:
        return nats_sum / target_count
    return None
