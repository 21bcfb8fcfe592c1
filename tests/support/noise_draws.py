"""Noise with mean 0 and variance 1 of several shapes, from one fixed generator a test; seeds
along the last axis.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

N_DRAWS = 4000
NoiseDraw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rng.normal(size=shape)


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Student's t with 3 degrees of freedom."""
    return rng.standard_t(3, size=shape) / np.sqrt(3)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Lognormal."""
    return (rng.lognormal(size=shape) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)


def normal_gains(seed: int, n: int, effect: float = 0.0) -> list[list[float]]:
    """Paired differences of spread 1 about an effect: 4,000 experiments of n seeds."""
    return (effect + normal(np.random.default_rng(seed), (N_DRAWS, n))).tolist()
