"""Words on exponents of planted ladders of five arms, many ladders at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from planted_laws import (
    N_CELLS,
    PARAMETERS,
    RUNG_NOISE,
    SEED_NOISE,
    PlantedRuns,
    fit_planted,
    planted_laws,
    planted_runs,
    steeper,
)

from paribus.analyse.laws.exponents import (
    LEVEL,
    SAME,
    SYMBOLS,
    UNDECIDED,
    ExponentDifference,
    ExponentVerdict,
)
from paribus.analyse.laws.fit import LawFit, effective_df
from paribus.analyse.laws.profile import difference, profile_interval, profile_p
from paribus.analyse.laws.shared_misfit import fit_sharing
from paribus.spec.ladder import EXPONENT_MARGIN

SHARED, OWN = 0.0073, 0.0018  # of ln loss: how far cells of ladder-hour are off, beyond seeds


@dataclass(frozen=True)
class Misses:
    """What losses of a ladder differ from their laws by, as standard deviations of ln loss."""

    noise: float | NDArray[np.float64] = SEED_NOISE
    own: float = 0.0  # of each cell by itself
    shared: float = 0.0  # of all arms at one size and duration


KEPT = Misses(RUNG_NOISE, OWN, SHARED)


def planted_ladder(
    n_laws: int,
    misses: Misses,
    alpha: float = 0.0,
    beta: float = 0.0,
    floor: float = 0.0,
    seed: int = 3,
) -> list[PlantedRuns]:
    """Five arms under one law, but for the second, whose exponents and E are larger by so much."""
    rng = np.random.default_rng(seed)
    laws = planted_laws(rng, n_laws)
    rungs_off_PC = misses.shared * rng.normal(size=(n_laws, N_CELLS))
    runs: list[PlantedRuns] = []
    for number, arm in enumerate(PARAMETERS):
        law = laws
        if number == 1:
            law = steeper(laws, alpha, beta) + np.array([floor, 0, 0, 0, 0])
        runs.append(planted_runs(rng, law, arm, misses.noise, misses.own, rungs_off_PC))
    return runs


@dataclass(frozen=True)
class LadderFits:
    """Laws of many ladders, with one E for all arms and with an E for each."""

    one_floor: LawFit
    own_floors: LawFit


def fit_ladder(runs: list[PlantedRuns], heeds_common: bool = False) -> LadderFits:
    """Both fits; by request in the reading that heeds what arms miss their laws by together."""
    fits = [fit_planted(runs, shared_floor) for shared_floor in (True, False)]
    if heeds_common:
        fits = [fit_sharing(fit).fit for fit in fits]
    return LadderFits(*fits)


def planted_verdicts(fits: LadderFits, exponent: str, n_tests: int) -> list[ExponentVerdict]:
    """The second arm against the first, in every ladder, as one of so many tests."""
    one_floor = _differences(fits.one_floor, exponent, n_tests)
    own_floors = _differences(fits.own_floors, exponent, n_tests)
    verdicts: list[ExponentVerdict] = []
    for one, own in zip(one_floor, own_floors, strict=True):
        verdict = ExponentVerdict(
            arm="prefix",
            against="causal",
            exponent=exponent,
            margin=EXPONENT_MARGIN,
            n_tests=n_tests,
            one_floor=one,
            own_floors=own,
        )
        verdicts.append(verdict)
    return verdicts


def _differences(fit: LawFit, exponent: str, n_tests: int) -> list[ExponentDifference]:
    """As `exponent_difference` gives them, without the wider interval: no word needs it."""
    functional = difference(fit.model, exponent, 1, 0)
    df_P = effective_df(fit, functional.weights_Q[None])
    level = 1 - 2 * LEVEL / n_tests
    low_P, high_P = profile_interval(fit.data, fit.best, functional, df_P, level)
    p_P = profile_p(fit.data, fit.best, functional, 0.0, df_P)
    estimate_P = fit.best.theta_PQ @ functional.weights_Q
    differences: list[ExponentDifference] = []
    for estimate, low, high, p in zip(estimate_P, low_P, high_P, p_P, strict=True):
        found = ExponentDifference(
            estimate=float(estimate),
            low=float("nan"),
            high=float("nan"),
            inner_low=float(low),
            inner_high=float(high),
            p=float(p),
        )
        differences.append(found)
    return differences


def says_larger(verdict: ExponentVerdict) -> bool:
    """Is one exponent called larger, by the rule of reports?"""
    return verdict.word == f"{SYMBOLS[verdict.exponent]} larger"


def says_larger_with_one_floor(verdict: ExponentVerdict) -> bool:
    """Would one exponent be called larger if it were known that all arms have one E?"""
    return verdict.one_floor_word == f"{SYMBOLS[verdict.exponent]} larger"


def says_same(verdict: ExponentVerdict) -> bool:
    """Are both exponents called the same, by the rule of reports?"""
    return verdict.word == SAME


def says_same_with_one_floor(verdict: ExponentVerdict) -> bool:
    """Would both be called the same if it were known that all arms have one E?"""
    return verdict.one_floor_word == SAME


def flips(verdict: ExponentVerdict) -> bool:
    """Is the word of one E contradicted by own Es: by the other sign, or by another word?"""
    turns = verdict.one_floor.estimate * verdict.own_floors.estimate < 0
    if says_larger_with_one_floor(verdict) and turns:
        return True
    own_word = replace(verdict, one_floor=verdict.own_floors).one_floor_word
    return own_word not in (UNDECIDED, verdict.one_floor_word)
