"""How the weights move: optimizer, schedule, batch and bookkeeping of one stage."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from paribus.spec.architecture import Count, Few, Positive, Spec, read_kind

Fraction = Annotated[float, Field(ge=0, le=1)]
Below = Annotated[float, Field(ge=0, lt=1)]
SMALLEST = 2**-126  # 1.1754944e-38, the smallest normal number of float32: less may count as 0


def _normal(given: float) -> float:
    if given < SMALLEST:
        raise ValueError(f"is {given}, which may count as 0 in float32; use {SMALLEST:.8g} or more")
    return given


def _off(given: Any) -> Any:
    """`clip = false` says that there is no limit: TOML has no null."""
    return None if given is False else given


class Cosine(Spec):
    """Down to a floor along half a cosine."""

    kind: Literal["cosine"] = "cosine"
    floor: Fraction = 0.1  # of the rate


class Trapezoid(Spec):
    """Level, then straight down to nothing over the last part."""

    kind: Literal["trapezoid"] = "trapezoid"
    down: Annotated[float, Field(gt=0, le=1)] = 0.2  # of all steps


class InverseSqrt(Spec):
    """Down with the square root of the step, from the end of the warm-up."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"


DecayKind = Annotated[Cosine | Trapezoid | InverseSqrt, Field(discriminator="kind"), BeforeValidator(read_kind)]


class AdamW(Spec):
    """Adam with decoupled weight decay on matrices; gains, biases and positions do not decay."""

    rate: Positive = 1e-3
    beta1: Below = 0.9
    beta2: Below = 0.95
    eps: Annotated[Positive, AfterValidator(_normal)] = 1e-8
    decay: Annotated[float, Field(ge=0)] = 0.1
    clip: Annotated[Positive | None, BeforeValidator(_off)] = 1.0  # the greatest norm of the whole gradient


class Training(Spec):
    """One stage of training; the global batch has n_sequences × length tokens."""

    n_steps: Count
    n_sequences: Count = 16
    length: Annotated[int, Field(ge=2)] = 256
    n_parts: Count = 1  # micro-batches a batch is worked through in
    optimizer: AdamW = AdamW()
    warmup: Few = 0  # steps over which the rate rises
    schedule: DecayKind = Cosine()
    z_loss: Annotated[float, Field(ge=0)] = 0.0  # weight of the squared log-sum-exp
    seed: Few = 1  # of starting weights, questions and dropout
    data_seed: Few = 1  # of the order of the text
    deterministic: bool = True  # the same run twice is the same bit for bit, on CUDA too; false for the last percent
    row_every: Count = 10  # steps; held-out text brings a row too
    valid_every: Count = 100
    valid_batches: Count = 4
    checkpoint_every: Count = 100
    keep_last: Count = 2


def steps_of_share(n_steps: int, share: float) -> int:
    """How many steps a run over a share of the length has."""
    return max(2, round(n_steps * share))


def scaled_training(training: Training, n_steps: int) -> Training:
    """The whole recipe over another number of steps: warm-up and validation points in proportion to its length.

    The schedule follows by itself, for it is counted in shares of the steps or from the end of the warm-up.
    """
    share = n_steps / training.n_steps
    warmup, valid_every = round(training.warmup * share), max(1, round(training.valid_every * share))
    return training.model_copy(update={"n_steps": n_steps, "warmup": warmup, "valid_every": valid_every})
