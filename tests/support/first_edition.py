"""How the kept reports were made: margin and multiplier by a line through the last third of one
schedule's curve.
"""

from collections.abc import Mapping
from math import exp, log

import numpy as np

from paribus.analyse import Comparison

MAX_FACTOR, PART = 4.0, 2 / 3


def mean_slope(curves: Mapping[int, Mapping[int, float]]) -> float:
    """The mean over seeds of the slope of a loss over ln tokens, in the last third of the
    tokens.
    """
    each = []
    for curve in curves.values():
        tokens = sorted(at for at in curve if at >= PART * max(curve))
        each.append(-float(np.polyfit(np.log(tokens), [curve[at] for at in tokens], 1)[0]))
    return float(np.mean(each))


def compute_factor(made: Comparison, slope: float) -> float | None:
    """exp(effect / slope), within a factor of 4."""
    e_folds = made.effect / slope
    return exp(e_folds) if abs(e_folds) <= log(MAX_FACTOR) else None
