"""The kept ladder: planted laws stand where its runs do, and its arms miss their laws together."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from kept_studies import RESULTS, rows_of
from planted_laws import N_SEEDS, PARAMETERS, PREDICTED_PARAMETERS, PREDICTED_TOKENS, RUNG_NOISE
from planted_laws import TOKENS as PLANTED_TOKENS

from paribus.analyse.law_sensitivity import COMMON, OtherReading
from paribus.analyse.laws.fit import LawFit, law_intervals
from paribus.analyse.laws.points import LawCells
from paribus.analyse.laws.profile import difference, profile_interval, profile_p
from paribus.analyse.laws.rates import RatePoint, fit_rate_law
from paribus.analyse.laws.rung_noise import RungNoise
from paribus.analyse.laws.shared_misfit import SharingFit, fit_sharing
from paribus.analyse.run_table import Row
from paribus.analyse.study_laws import StudyLaws, ladder_fit, predict_rung, study_laws
from paribus.record.file_names import LADDER_RATES_FILE, PREDICTIONS_FILE
from paribus.record.plan import PlanRecord, parse_plan
from paribus.report.laws import (
    describe_floor,
    describe_noise,
    describe_shared_misfit,
    exponent_lines,
    law_lines,
    multiplier_sentences,
    reading_lines,
    warn_of_shared_misfit,
)

STUDY = "ladder-hour"
ARMS = dict(
    zip(
        ("causal", "prefix", "encoder-decoder P", "encoder-decoder shared", "encoder-decoder 2P"),
        PARAMETERS,
        strict=True,
    )
)
SHARED_AGAINST_CAUSAL = (3, 0)
LEVEL = 0.995  # what 10 tests leave of 5 %


@pytest.fixture(scope="module")
def plan() -> PlanRecord:
    path = RESULTS / STUDY / "plan.json"
    return parse_plan(json.loads(path.read_text()), path)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """The runs of the ladder, with numbers as a study has them."""
    typed: list[Row] = []
    for row in rows_of(RESULTS / STUDY / "rows.csv"):
        if row["purpose"] == "ladder":
            numbers = {name: float(row[name]) for name in ("halves.test", "rate", "planned_tokens")}
            counts = {name: int(row[name]) for name in ("size", "seed", "parameters")}
            typed.append({**row, **numbers, **counts})
    return typed


@pytest.fixture(scope="module")
def fit(plan: PlanRecord, rows: list[Row]) -> LawFit:
    return ladder_fit(plan, rows)


@pytest.fixture(scope="module")
def cells(fit: LawFit) -> dict[str, LawCells]:
    return {own.arm: own for own in fit.arms}


@pytest.fixture(scope="module")
def sharing(fit: LawFit) -> SharingFit:
    return fit_sharing(fit)


def kept_table(name: str) -> Any:
    return json.loads((RESULTS / STUDY / name).read_text())


def printed_lines() -> set[str]:
    return set((RESULTS / STUDY / "report.md").read_text().splitlines())


def printed(lines: Iterable[Sequence[str]]) -> set[str]:
    """Lines of a table as Markdown has them."""
    return {f"| {' | '.join(line)} |" for line in lines}


def test_laws_are_planted_where_the_runs_of_the_ladder_stand(cells):
    rungs = kept_table("plan.json")["rungs"]
    assert tuple(tuple(rung["tokens"]) for rung in rungs[:-1]) == PLANTED_TOKENS
    for arm, planted in ARMS.items():
        sizes = [rung["arms"][arm]["price"]["parameters"] for rung in rungs]
        assert tuple(sizes[:-1]) == PARAMETERS[planted]
        assert set(cells[arm].n_runs_C) == {N_SEEDS}
    last = rungs[-1]
    assert last["is_predicted"]
    assert last["arms"]["causal"]["price"]["parameters"] == PREDICTED_PARAMETERS
    assert last["tokens"] == [PREDICTED_TOKENS]


def test_planted_noise_is_that_of_its_seeds(cells):
    variances = [cells[arm].squares_C / (N_SEEDS - 1) for arm in ARMS]
    assert np.sqrt(np.mean(variances, axis=0)) == pytest.approx(RUNG_NOISE, rel=0.03)


def test_no_law_fits_and_arms_miss_theirs_together(fit, sharing):
    for noise in fit.noises:
        assert noise.lack_of_fit[0] < 1e-5
    shared, own, p = sharing.spreads_P3[0]
    assert shared == pytest.approx(0.0073, abs=5e-5)
    assert own == pytest.approx(0.0018, abs=5e-5)
    assert p < 1e-10


def test_an_interval_knows_of_a_second_valley(sharing):
    """The best fit has an E of 0. Other values of α's difference belong to a valley of another E:
    a search that stays in the first valley would leave out 0, which is not rejected.
    """
    fit: LawFit = sharing.fit
    assert fit.best.theta_PQ[0, 0] == 0
    functional = difference(fit.model, "alpha", *SHARED_AGAINST_CAUSAL)
    low, high = profile_interval(fit.data, fit.best, functional, fit.df_P, LEVEL)
    assert profile_p(fit.data, fit.best, functional, 0.0, fit.df_P)[0] > 1 - LEVEL
    assert low[0] < -0.05
    assert high[0] > 0.05


def test_the_printed_laws_are_those_of_the_kept_rows(fit):
    arms = [own.arm for own in fit.arms]
    laws = StudyLaws(
        fit=fit,
        estimates={arm: law_intervals(fit, place) for place, arm in enumerate(arms)},
        verdicts=(),
        multipliers=(),
        curves={},
        one_floor_p=None,
        rung_noise=RungNoise(np.ones((1, 1)), np.ones(1)),
        shared_misfit=None,
    )
    lines = printed(law_lines(laws))
    assert len(lines) == len(ARMS)
    assert lines <= printed_lines()


def test_what_was_locked_of_the_largest_run_follows_from_the_kept_rows(plan, fit):
    locked = kept_table(PREDICTIONS_FILE)
    predicted = [one.table for one in predict_rung(plan, fit, N_SEEDS)]
    assert [table["arm"] for table in predicted] == [table["arm"] for table in locked] == [*ARMS]
    for own, kept in zip(predicted, locked, strict=True):
        for name in ("loss", "low", "high"):
            assert own[name] == pytest.approx(kept[name], rel=1e-6)
        for name in ("parameters", "tokens", "n_seeds", "level"):
            assert own[name] == kept[name]


def test_rates_of_the_ladder_are_those_of_the_law_of_its_sweeps(plan, rows):
    kept = kept_table(LADDER_RATES_FILE)
    n_parameters = {
        rung.size: rung.arms[plan.baseline].price.non_embedding_parameters for rung in plan.rungs
    }
    points: list[RatePoint] = []
    for size, arms in kept["sweeps"].items():
        for arm, found in arms.items():
            points.append(RatePoint(arm, n_parameters[int(size)], found["rate"]))
    law = fit_rate_law(points)
    for name in ("power", "low", "high", "sd", "equal_powers_p"):
        assert getattr(law, name) == pytest.approx(kept["law"][name], rel=1e-6)
    for row in rows:
        assert row["rate"] == kept["rates"][str(row["size"])][row["arm"]]
        assert row["rate"] == pytest.approx(
            law.rate(row["arm"], n_parameters[row["size"]]), rel=2e-3
        )


@pytest.mark.slow
def test_what_the_report_prints_of_laws_follows_from_the_kept_rows(plan, rows):
    laws = study_laws(plan, rows)
    assert laws is not None
    assert laws.shared_misfit is not None
    lines = printed(law_lines(laws))
    lines |= printed(exponent_lines(laws.verdicts))
    lines |= printed(exponent_lines(laws.shared_misfit.verdicts))
    lines |= {f"- {sentence}" for sentence in multiplier_sentences(laws)}
    readings = [OtherReading(arm, COMMON, own) for arm, own in laws.shared_misfit.estimates.items()]
    lines |= {line for line in printed(reading_lines(laws, readings)) if COMMON in line}
    assert lines <= printed_lines()
    text = (RESULTS / STUDY / "report.md").read_text()
    for words in (
        describe_floor(laws),
        describe_noise(laws),
        describe_shared_misfit(laws),
        warn_of_shared_misfit(laws),
    ):
        assert words in text
