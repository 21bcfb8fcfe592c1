"""Whether there is memory for a run, told before any of it is taken."""

from __future__ import annotations

import torch

from paribus.runtime import require_memory
from paribus.spec import resolve
from paribus.spec.objectives import Preference
from paribus.spec.price import ParameterCounts, stage_parameters
from paribus.spec.run import RunSpec

BYTES_PER_WEIGHT = 4
# values per parameter in float32, at least: a weight, its gradient, and what each optimizer keeps
VALUES_PER_PARAMETER = {"adamw": 4, "muon": 3, "adafactor": 2}
# of a batch: which token it is, of which document, whether a sentence begins
BYTES_PER_TOKEN = 3 * 8
BYTES_PER_VALUE = 2  # of what a layer keeps for its gradient, in the shortest precision there is


def training_bytes(spec: RunSpec, n_shards: int = 1) -> int:
    """What a run cannot do without: weights, what the optimizer keeps, a batch, and the inputs
    of every layer. Of sharded weights it is what one rank needs.
    """
    resolved, training = resolve(spec.last_architecture), spec.last.training
    n_tokens = training.n_sequences * training.length
    n_layers = sum(len(stack.layers) for stack in resolved.stacks)
    n_micro_batches = max(training.n_micro_batches, n_shards)
    n_kept = n_tokens // n_micro_batches * resolved.d_model * n_layers
    n_bytes = BYTES_PER_WEIGHT * VALUES_PER_PARAMETER[training.optimizer.kind]
    if isinstance(spec.last.objective, Preference):
        n_bytes += BYTES_PER_WEIGHT  # of the model that the stage begins with
    counts = stage_parameters(resolved, spec.last.objective)
    n_weight_bytes = -(-n_bytes * counts.total // n_shards)
    if n_shards > 1:
        n_weight_bytes += BYTES_PER_WEIGHT * _n_whole(counts, training.n_micro_batches > n_shards)
    return n_weight_bytes + BYTES_PER_TOKEN * n_tokens + BYTES_PER_VALUE * n_kept


def _n_whole(counts: ParameterCounts, accumulates: bool) -> int:
    """How many values a rank holds whole beside its part: the tables, and every gradient where a
    rank adds up several micro-batches.
    """
    n_tables = counts.total - counts.non_embedding
    if accumulates:
        return n_tables + counts.total
    return n_tables


def require_training_memory(
    spec: RunSpec, device: torch.device, n_at_once: int = 1, n_shards: int = 1
) -> None:
    """UnsupportedError where so many such runs cannot be trained side by side here."""
    if n_at_once == 1:
        together = "training it"
    else:
        together = f"training {n_at_once} such runs at once"
    n_bytes = n_at_once * training_bytes(spec, n_shards)
    require_memory(n_bytes, device, f"architecture: {together}")
