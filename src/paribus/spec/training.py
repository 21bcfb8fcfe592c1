"""How the weights move: optimizer, schedule, batch and bookkeeping of one stage."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from paribus.spec.base import Count, NonNegative, Positive, Spec, read_kind

Fraction = Annotated[float, Field(ge=0, le=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
# 1.1754944e-38, the smallest normal number of float32: less may count as 0
SMALLEST_NORMAL = 2**-126


def _require_normal(value: float) -> float:
    if value < SMALLEST_NORMAL:
        raise ValueError(
            f"is {value}, which may count as 0 in float32; use {SMALLEST_NORMAL:.8g} or more"
        )
    return value


def _read_clip(value: Any) -> Any:
    """`clip = false` says that there is no limit: TOML has no null."""
    if value is False:
        return None
    return value


class Cosine(Spec):
    """Down to a floor along half a cosine."""

    kind: Literal["cosine"] = "cosine"
    floor: Fraction = 0.1
    """The last rate, as a share of the peak rate."""


class Trapezoid(Spec):
    """Level, then straight down to nothing over the last part."""

    kind: Literal["trapezoid"] = "trapezoid"
    down: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of all steps over which the rate comes down."""


class InverseSqrt(Spec):
    """Down with the square root of the step, from the end of the warm-up."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"


DecayKind = Annotated[
    Cosine | Trapezoid | InverseSqrt, Field(discriminator="kind"), BeforeValidator(read_kind)
]


class AdamW(Spec):
    """Adam with decoupled weight decay on matrices; gains, biases and positions do not decay."""

    rate: Positive = 1e-3
    """The peak learning rate."""
    beta1: BelowOne = 0.9
    """Decay of the first moment."""
    beta2: BelowOne = 0.95
    """Decay of the second moment."""
    eps: Annotated[Positive, AfterValidator(_require_normal)] = 1e-8
    """Added to the root of the second moment."""
    decay: Annotated[float, Field(ge=0)] = 0.1
    """Decoupled weight decay."""
    clip: Annotated[Positive | None, BeforeValidator(_read_clip)] = 1.0
    """The greatest norm of the whole gradient. Use `false` for no limit."""


class Training(Spec):
    """One stage of training; the global batch has n_sequences × length tokens."""

    n_steps: Count
    """Number of optimizer steps."""
    n_sequences: Count = 16
    """Sequences in the global batch."""
    length: Annotated[int, Field(ge=2)] = 256
    """Tokens of a sequence."""
    n_micro_batches: Count = 1
    """Micro-batches that a batch is worked through in. The result is the same."""
    optimizer: AdamW = AdamW()
    """The optimizer, which is AdamW."""
    warmup: NonNegative = 0
    """Steps over which the rate rises to its peak."""
    schedule: DecayKind = Cosine()
    """How the rate comes down after the warm-up."""
    z_loss: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the squared log-sum-exp of the logits in the loss."""
    seed: NonNegative = 1
    """Seed of initial weights, objective draws and dropout. The seeds of a design set it."""
    data_seed: NonNegative = 1
    """Seed of the order of the text. The seeds of a design set it."""
    deterministic: bool = True
    """Whether the same run twice is the same bit for bit, on CUDA too. `false` gains some speed
    there.
    """
    row_every: Count = 10
    """Steps between two rows of the record. Validation writes a row too."""
    valid_every: Count = 100
    """Steps between two validations."""
    valid_batches: Count = 4
    """Batches of one validation."""
    checkpoint_every: Count = 100
    """Steps between two checkpoints."""
    keep_last: Count = 2
    """Number of newest checkpoints that are kept, beside the best one."""


def steps_of_share(n_steps: int, share: float) -> int:
    """How many steps a run over a share of the length has."""
    return max(2, round(n_steps * share))


def scaled_training(training: Training, n_steps: int) -> Training:
    """The whole recipe over another number of steps: warm-up and validation points in
    proportion to its length.

    The schedule follows by itself, for it is counted in shares of the steps or from the end of the
    warm-up.
    """
    share = n_steps / training.n_steps
    warmup, valid_every = (
        round(training.warmup * share),
        max(1, round(training.valid_every * share)),
    )
    return training.model_copy(
        update={"n_steps": n_steps, "warmup": warmup, "valid_every": valid_every}
    )
