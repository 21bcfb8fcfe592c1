"""The loss of a larger run, predicted before it is made, and compared with its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, inf, isfinite, log
from typing import Any

import numpy as np
from scipy.special import stdtrit

from paribus.analyse.laws.equal_loss import model_at
from paribus.analyse.laws.fit import LawFit, effective_df
from paribus.analyse.laws.points import unlogged
from paribus.analyse.laws.profile import covariance
from paribus.analyse.laws.solver import Array, LawData, LawModel, law_jacobian, solve
from paribus.errors import SpecError

REFUSAL = "refusal"  # in place of a prediction: why there is none
N_TRIED, WIDEST = 8, 6.0  # outcomes tried on each side, up to so many linear half-widths


@dataclass(frozen=True)
class LawPrediction:
    """The loss that an arm is expected to reach at (N, D), with a prediction interval for the
    geometric mean over so many seeds.
    """

    arm: str
    parameters: float
    tokens: float
    n_seeds: int
    loss: float
    low: float
    high: float
    level: float
    size_ratio: float  # parameters over the largest that was fitted
    token_ratio: float

    @property
    def table(self) -> dict[str, Any]:
        """As it is kept: an interval without an upper end has none."""
        return {**asdict(self), "high": self.high if isfinite(self.high) else None}


def read_prediction(table: Mapping[str, Any]) -> LawPrediction:
    """A prediction as it was kept."""
    high = table["high"]
    return LawPrediction(**{**table, "high": inf if high is None else high})


def read_predictions(tables: Iterable[Mapping[str, Any]]) -> list[LawPrediction]:
    """The predictions that were kept; nothing where none could be made."""
    return [read_prediction(table) for table in tables if REFUSAL not in table]


def prediction_refusal(tables: Iterable[Mapping[str, Any]]) -> str:
    """Why no prediction could be made, as it was kept; empty where there is nothing of the kind."""
    return "; ".join(str(table[REFUSAL]) for table in tables if REFUSAL in table)


@dataclass(frozen=True)
class PredictionOutcome:
    """A prediction beside what was then measured."""

    prediction: LawPrediction
    loss: float  # the geometric mean over seeds

    @property
    def inside(self) -> bool:
        """Does the outcome lie in the interval?"""
        return self.prediction.low <= self.loss <= self.prediction.high

    @property
    def error(self) -> float:
        """The share by which the outcome exceeds the prediction."""
        return self.loss / self.prediction.loss - 1

    @property
    def words(self) -> str:
        """What a report says of it."""
        if self.inside:
            return "within the interval"
        if self.loss > self.prediction.high:
            return "worse than predicted"
        return "better than predicted"


def predict_loss(
    fit: LawFit,
    parameters: float,
    tokens: float,
    arm: int = 0,
    n_seeds: int = 1,
    level: float = 0.95,
) -> LawPrediction:
    """The loss at (N, D), and the outcomes that an F test would not reject.

    A possible outcome is added to the cells, with the noise that such a mean has; the interval
    holds the outcomes for which the refitted laws do not fit significantly worse.
    """
    _require_place(parameters, tokens, n_seeds)
    place = model_at(fit.model, arm, np.array([log(parameters)]), np.array([log(tokens)]))
    fitted, gradient = law_jacobian(place, fit.best.theta_PQ[:1])
    variance = covariance(fit.data, fit.best)[0]
    new_variance = _outcome_variance(fit, arm, tokens, n_seeds)
    error = float(np.sqrt(gradient[0, 0] @ variance @ gradient[0, 0] + new_variance))
    df = min(float(effective_df(fit, gradient[0])[0]), float(fit.noises[arm].df[0]))
    critical = float(stdtrit(df, (1 + level) / 2))
    estimate = float(fitted[0, 0])
    low, high = _profile_ends(fit, place, estimate, critical, (critical * error, new_variance))
    cells = fit.arms[arm]
    return LawPrediction(
        arm=cells.arm,
        parameters=parameters,
        tokens=tokens,
        n_seeds=n_seeds,
        loss=exp(estimate),
        low=unlogged(low),
        high=unlogged(high),
        level=level,
        size_ratio=parameters / exp(float(cells.log_parameters_C.max())),
        token_ratio=tokens / exp(float(cells.log_tokens_C.max())),
    )


def compare_with_outcome(prediction: LawPrediction, losses: Sequence[float]) -> PredictionOutcome:
    """The prediction beside the losses of the seeds that it was made for."""
    if len(losses) != prediction.n_seeds:
        raise SpecError(
            f"outcome: {len(losses)} losses for a prediction of {prediction.n_seeds}; the interval"
            " holds for as many seeds as it was made for"
        )
    if not all(isfinite(loss) and loss > 0 for loss in losses):
        raise SpecError(f"outcome: a loss of {list(losses)} is not above 0")
    return PredictionOutcome(prediction, exp(float(np.mean(np.log(losses)))))


def _require_place(parameters: float, tokens: float, n_seeds: int) -> None:
    for name, value in (("parameters", parameters), ("tokens", tokens), ("n_seeds", n_seeds)):
        if not (isfinite(value) and value > 0):
            raise SpecError(f"prediction: {name} is {value:g}; use a number above 0")


def _outcome_variance(fit: LawFit, arm: int, tokens: float, n_seeds: int) -> float:
    """Of the mean of ln loss over new seeds: what seeds differ by after so many tokens, and, where
    the law misses cell means, how far these lie off it.
    """
    noise, cells = fit.noises[arm], fit.arms[arm]
    if not cells.pure_df:
        return float(noise.variance[0])
    order = np.argsort(cells.log_tokens_C)
    logs_C = np.log(cells.relative_variance_C)
    relative = exp(float(np.interp(log(tokens), cells.log_tokens_C[order], logs_C[order])))
    return float(noise.off_law[0]) + float(noise.seed_variance[0]) * relative / n_seeds


def _profile_ends(
    fit: LawFit, place: LawModel, estimate: float, critical: float, scale: tuple[float, float]
) -> tuple[float, float]:
    half_width, new_variance = scale
    model = LawModel(
        x_C=np.append(fit.model.x_C, place.x_C),
        z_C=np.append(fit.model.z_C, place.z_C),
        places_C5=np.concatenate([fit.model.places_C5, place.places_C5]),
        is_floor_Q=fit.model.is_floor_Q,
        centre=fit.model.centre,
    )
    tried = np.linspace(0, WIDEST * half_width, N_TRIED * int(WIDEST) + 1)
    outcomes = np.concatenate([estimate - tried, estimate + tried])
    roots_2T = _outcome_roots(fit, model, outcomes, new_variance).reshape(2, -1)
    ends: list[float] = []
    for side, roots in zip((-1.0, 1.0), roots_2T, strict=True):
        rising = np.maximum.accumulate(roots)
        if rising[-1] < critical:
            ends.append(side * np.inf)
        else:
            ends.append(estimate + side * float(np.interp(critical, rising, tried)))
    return ends[0], ends[1]


def _outcome_roots(fit: LawFit, model: LawModel, outcomes_T: Array, new_variance: float) -> Array:
    """√(S with an outcome − S without), for each outcome: 0 at the fitted one."""
    n = len(outcomes_T)
    log_loss = np.column_stack([np.repeat(fit.data.log_loss_PC[:1], n, axis=0), outcomes_T])
    weights = np.append(fit.data.weights_PC[0], 1 / new_variance)
    data = LawData(model, log_loss, np.tile(weights, (n, 1)))
    found = solve(data, np.repeat(fit.best.theta_PQ[:1], n, axis=0))
    return np.sqrt(np.maximum(found.misfit_P - fit.best.misfit_P[0], 0))
