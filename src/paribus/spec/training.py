"""How the weights move: optimizer, schedule, batch and bookkeeping of one stage."""

from __future__ import annotations

from collections.abc import Mapping
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


def _require_normal_square(value: float) -> float:
    least = SMALLEST_NORMAL**0.5
    if value < least:
        raise ValueError(
            f"is {value}, whose square may count as 0 in float32; use {least:.8g} or more"
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


class Constant(Spec):
    """Level to the end."""

    kind: Literal["constant"] = "constant"


class LinearDecay(Spec):
    """Straight down to a floor, from the end of the warm-up."""

    kind: Literal["linear"] = "linear"
    floor: Fraction = 0.0
    """The rate after the last step, as a share of the peak rate."""


DecayKind = Annotated[
    Cosine | Trapezoid | InverseSqrt | Constant | LinearDecay,
    Field(discriminator="kind"),
    BeforeValidator(read_kind),
]


def _is_adamw(kind: str) -> bool:
    return kind == "adamw"


class AdamW(Spec):
    """Adam with decoupled weight decay on matrices; gains, biases and positions do not decay."""

    # Left out of records: runs that were named before there was another optimizer keep their names.
    kind: Annotated[Literal["adamw"], Field(exclude_if=_is_adamw)] = "adamw"
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


class Adafactor(Spec):
    """Adafactor (arXiv 1804.04235): second moments by row and column, steps relative to the size
    of a tensor, no first moment.

    A step moves a tensor by min(`rate`, 1/√step) of its root mean square.
    """

    kind: Literal["adafactor"] = "adafactor"
    rate: Positive = 1e-2
    """The peak learning rate, as a share of the root mean square of each tensor."""
    beta2_power: Annotated[float, Field(gt=0, le=1)] = 0.8
    """The second moment of step t decays by 1 − t^−`beta2_power`."""
    min_root: Annotated[Positive, AfterValidator(_require_normal_square)] = 1e-16
    """The least root of the second moment, and the least mean of second moments over rows."""
    min_scale: Positive = 1e-3
    """The least root mean square of a tensor that steps are relative to."""
    update_clip: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """The greatest root mean square of a tensor's update, before the rate."""
    decay: Annotated[float, Field(ge=0)] = 0.0
    """Decoupled weight decay of matrices."""
    clip: Annotated[Positive | None, BeforeValidator(_read_clip)] = 1.0
    """The greatest norm of the whole gradient. Use `false` for no limit."""


class Muon(Spec):
    """Muon for the matrices of blocks: momentum that is made orthogonal by five steps of
    Newton and Schulz; AdamW for tables, heads, gains and biases.

    Steps of matrices have the root mean square of AdamW's (arXiv 2502.16982), so that one rate and
    one decay serve both. Each expert is a matrix of its own.
    """

    kind: Literal["muon"] = "muon"
    rate: Positive = 1e-3
    """The peak learning rate, of Muon and of AdamW."""
    momentum: BelowOne = 0.95
    """Decay of the momentum of matrices, which is Nesterov's."""
    beta1: BelowOne = 0.9
    """Decay of AdamW's first moment."""
    beta2: BelowOne = 0.95
    """Decay of AdamW's second moment."""
    eps: Annotated[Positive, AfterValidator(_require_normal)] = 1e-8
    """Added to the root of AdamW's second moment."""
    decay: Annotated[float, Field(ge=0)] = 0.1
    """Decoupled weight decay of matrices and tables of tokens."""
    clip: Annotated[Positive | None, BeforeValidator(_read_clip)] = 1.0
    """The greatest norm of the whole gradient. Use `false` for no limit."""


Optimizer = AdamW | Adafactor | Muon


def _read_optimizer(value: Any) -> Any:
    """A table without a kind is AdamW's, as records have it."""
    value = read_kind(value)
    if isinstance(value, Mapping) and "kind" not in value:
        return {"kind": "adamw", **value}
    return value


OptimizerKind = Annotated[Optimizer, Field(discriminator="kind"), BeforeValidator(_read_optimizer)]


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
    optimizer: OptimizerKind = AdamW()
    """The optimizer."""
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


# of a training: when something is written down or kept, and how a batch is worked through
BOOKKEEPING = (
    "row_every",
    "valid_every",
    "valid_batches",
    "checkpoint_every",
    "keep_last",
    "n_micro_batches",
    "deterministic",
)
SEEDS = ("seed", "data_seed")
SCALED_FIELDS = ("warmup", "valid_every")  # what is counted in steps, and keeps its share of them


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
