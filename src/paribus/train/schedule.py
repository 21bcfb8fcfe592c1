"""The learning rate of each step."""

import math

from paribus.spec.training import Constant, Cosine, InverseSqrt, LinearDecay, Training, Trapezoid


def learning_rate_at(step: int, training: Training) -> float:
    """The rate of a step, counted from 0: a straight warm-up, then the schedule."""
    top, warmup = training.optimizer.rate, training.warmup
    if step < warmup:
        return top * (step + 1) / warmup
    return top * _schedule_factor(step, training)


def describe_warmup(training: Training) -> str:
    """That the warm-up is longer than the training, so that the rate never comes to its value;
    nothing where it is not.
    """
    if training.warmup <= training.n_steps:
        return ""
    highest = learning_rate_at(training.n_steps - 1, training)
    return (
        f"training.warmup is {training.warmup}, more than n_steps {training.n_steps}: "
        f"the rate comes to {highest:.3g} and never to {training.optimizer.rate:.3g}"
    )


def _schedule_factor(step: int, training: Training) -> float:
    warmup, n_steps = training.warmup, training.n_steps
    progress = (step - warmup) / max(n_steps - warmup, 1)
    match training.schedule:
        case Cosine(floor=floor):
            return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2
        case Trapezoid(down=down):
            return min(1.0, (n_steps - step) / max(down * n_steps, 1))
        case InverseSqrt():
            return math.sqrt(max(warmup, 1) / max(step, warmup, 1))
        case Constant():
            return 1.0
        case LinearDecay(floor=floor):
            return floor + (1 - floor) * (1 - progress)
