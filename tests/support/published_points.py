"""240 planted points of a published law, at sizes and durations like those of its paper.

The values are those of Besiroglu et al. (2024), who fitted 240 of 245 points of Hoffmann et al.
(2022): models of 44M to 16B parameters along budgets of 6e18 to 3e21 FLOPs, with C = 6·N·D.
"""

import numpy as np

from paribus.analyse.laws.fit import ScalingLaw
from paribus.analyse.laws.points import LawPoint

PUBLISHED = {"E": 1.82, "A": 482.0, "B": 2085.0, "alpha": 0.348, "beta": 0.366}
BUDGETS = (6e18, 1e19, 3e19, 6e19, 1e20, 3e20, 6e20, 1e21, 3e21)
N_POINTS = 240


def published_points(noise: float, seed: int = 5) -> list[LawPoint]:
    law = ScalingLaw(
        floor=PUBLISHED["E"],
        log_a=float(np.log(PUBLISHED["A"])),
        log_b=float(np.log(PUBLISHED["B"])),
        alpha=PUBLISHED["alpha"],
        beta=PUBLISHED["beta"],
    )
    places = [
        (size, budget / (6 * size))
        for budget in BUDGETS
        for size in np.geomspace(4.4e7, 1.6e10, 50)
    ]
    trained = [(n, d) for n, d in places if 2e8 < d < 3e11 and 0.3 < d / n < 3e3]
    chosen = np.linspace(0, len(trained) - 1, N_POINTS).astype(int)
    draws = np.random.default_rng(seed).normal(size=N_POINTS)
    points: list[LawPoint] = []
    for place, draw in zip(chosen, draws, strict=True):
        parameters, tokens = map(float, trained[place])
        loss = law.loss(parameters, tokens) * float(np.exp(noise * draw))
        points.append(LawPoint(parameters, tokens, loss))
    return points
