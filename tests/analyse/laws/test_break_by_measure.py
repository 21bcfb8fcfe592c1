"""A break that the measure makes: answers whose log loss is a power of size, and their accuracy."""

import numpy as np
import pytest

from paribus.analyse.laws.broken import LEVEL, broken_law
from paribus.analyse.laws.points import LawPoint

N_LAWS, N_SEEDS, N_ITEMS, N_OPTIONS = 40, 3, 1000, 4
NOISE = 0.01  # of ln log loss, between seeds
SIZES = np.geomspace(1e4, 3e6, 8)


def log_loss_and_accuracy() -> tuple[np.ndarray, np.ndarray]:
    """Of models that know more and more: scores of options vary by 2 nats between options, and the
    right one is ahead by more and more on average.
    """
    noise_NO = 2 * np.random.default_rng(1).normal(size=(20_000, N_OPTIONS))
    bits, shares = [], []
    for ahead in np.linspace(14, -1, 301):
        scores_NO = noise_NO + ahead * np.eye(N_OPTIONS)[0]
        sums_N = np.logaddexp.reduce(scores_NO, axis=1)
        bits.append(float((sums_N - scores_NO[:, 0]).mean() / np.log(2)))
        shares.append(float((scores_NO.argmax(1) == 0).mean()))
    return np.array(bits), np.array(shares)


@pytest.mark.slow
def test_accuracy_often_has_a_break_where_log_loss_is_a_power_of_size() -> None:
    bits, shares = log_loss_and_accuracy()
    draws = np.random.default_rng(2)
    n_seen = {"log loss": 0, "accuracy": 0}
    for _ in range(N_LAWS):
        points: dict[str, list[LawPoint]] = {"log loss": [], "accuracy": []}
        for size in SIZES:
            for seed in range(N_SEEDS):
                loss = 3 * (size / SIZES[0]) ** -0.3 * np.exp(draws.normal(0, NOISE))
                right = draws.binomial(N_ITEMS, np.interp(loss, bits, shares)) / N_ITEMS
                for name, value in (("log loss", loss), ("accuracy", 1 - right)):
                    point = LawPoint(size, 20 * size, float(value), "a", seed)
                    points[name].append(point)
        for name, own in points.items():
            n_seen[name] += broken_law(own, 199).p < LEVEL
    assert n_seen["log loss"] <= 6
    assert n_seen["accuracy"] >= 12
