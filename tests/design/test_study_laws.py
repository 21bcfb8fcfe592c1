"""The laws of a study: from rows of its ladder to words, and a prediction that stays as it was."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf, log, nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy import stats
from trained_study import make_small_plan

from paribus.analyse.ladder_gains import ladder_gains
from paribus.analyse.law_sensitivity import (
    BOOTSTRAP,
    COMMON,
    EQUAL_NOISE,
    HUBER,
    NON_EMBEDDING,
    OtherReading,
)
from paribus.analyse.laws.fit import LawEstimate
from paribus.analyse.laws.prediction import prediction_refusal, read_predictions
from paribus.analyse.run_table import column_of
from paribus.analyse.study_laws import (
    POOLED_MISFIT_EDITION,
    ladder_fit,
    ladder_points,
    predict_rung,
    prediction_tables,
    study_laws,
    study_readings,
)
from paribus.design import Cell, study_run
from paribus.design.cells import ladder_cells
from paribus.design.execute import ExecutionResult
from paribus.design.plan_table import plan_record
from paribus.design.stage_tuning import rates_without_sweep
from paribus.design.study_run import freeze, lock_predictions, run_study
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import RecordError, SpecError
from paribus.record import Study, open_study
from paribus.record.file_names import PREDICTIONS_FILE
from paribus.record.plan import PlanRecord
from paribus.report.laws import (
    EXPONENT_HEADING,
    READING_HEADING,
    SHARED_HEADING,
    describe_fit,
    describe_floor,
    describe_noise,
    describe_shared_misfit,
    describe_unbounded,
    exponent_lines,
    law_lines,
    multiplier_sentences,
    reading_lines,
    warn_of_shared_misfit,
)
from paribus.report.numbers import significant
from paribus.workspace import Execution, Workspace

EXPONENTS = {"full": 0.45, "reverse": 0.45, "causal": 0.2}  # of size, arm by arm
FLOOR, NOISE = 0.8, 0.001
CHANGES: dict[str, Any] = {
    "budget": "tokens_read",
    "ladder": {
        "sizes": [16, 32, 48, 64],
        "tokens_per_parameter": [2, 8, 32],
        "prediction": {"size": 96, "tokens": 900_000},
    },
}


def planted_loss(arm: str, n_parameters: float, n_tokens: float) -> float:
    return FLOOR + 30 / n_parameters ** EXPONENTS[arm] + 40 / n_tokens**0.4


@pytest.fixture(scope="module")
def plan(study_cache: Path) -> PlanRecord:
    return plan_record(make_small_plan(study_cache, CHANGES))


@pytest.fixture(scope="module")
def rows(plan: PlanRecord) -> list[dict[str, Any]]:
    """A row for each cell of the ladder, with the loss of a planted law and a little noise."""
    column, draws, found = column_of(plan.design.primary.measure.table), random.Random(5), []
    for rung in plan.rungs:
        for n_tokens in rung.tokens:
            for arm in plan.order:
                own = rung.arms[arm]
                for seed in (1, 2, 3):
                    loss = planted_loss(arm, own.price.parameters, n_tokens)
                    row = {
                        "arm": arm,
                        "seed": seed,
                        "purpose": "predicted" if rung.is_predicted else "ladder",
                        "outcome": "finished",
                        "size": rung.size,
                        "parameters": own.price.parameters,
                        "planned_tokens": n_tokens,
                        column: loss * exp(draws.gauss(0, NOISE)),
                    }
                    found.append(row)
    return found


def test_the_points_are_the_finished_runs_of_the_ladder(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    assert len(ladder_points(plan, rows)) == 4 * 3 * 3 * 3
    open_rows = [{**rows[0], "outcome": "open"}, *rows[1:]]
    assert len(ladder_points(plan, open_rows)) == 4 * 3 * 3 * 3 - 1


def test_planted_exponents_are_told_apart(plan: PlanRecord, rows: list[dict[str, Any]]) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    assert laws.estimates["full"]["alpha"].low < 0.45 < laws.estimates["full"]["alpha"].high
    words = {(one.arm, one.exponent): (one.word, one.larger) for one in laws.verdicts}
    assert words["causal", "alpha"] == ("α larger", "full")
    assert words["reverse", "alpha"][0] != "α larger"
    assert [line[0] for line in law_lines(laws)] == ["full", "reverse", "causal"]
    assert ("causal", "full", "α") in {line[:3] for line in exponent_lines(laws.verdicts)}
    reverse, causal = multiplier_sentences(laws)
    assert "the compute that" in reverse
    assert causal == '"causal" against "full": no compute multiplier within the data.'


def test_arms_are_asked_together_for_misfit_and_those_of_older_plans_one_by_one(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    column, draws = column_of(plan.design.primary.measure.table), random.Random(8)
    off: dict[tuple[int, int], float] = {}
    moved: list[dict[str, Any]] = []
    for row in rows:
        factor = 1.0
        if row["arm"] == "causal":
            cell = row["size"], row["planned_tokens"]
            factor = off.setdefault(cell, exp(draws.gauss(0, 0.02)))
        moved.append({**row, column: row[column] * factor})
    older = plan.model_copy(update={"edition": POOLED_MISFIT_EDITION - 1})
    together, one_by_one = study_laws(plan, moved), study_laws(older, moved)
    assert together is not None
    assert one_by_one is not None
    widths: list[float] = []
    for laws in (one_by_one, together):
        own = laws.estimates["full"]["alpha"]  # an arm whose cells lie on its law
        widths.append(own.high - own.low)
    assert widths[1] > 2 * widths[0]
    assert ladder_fit(plan, moved).pools_misfit
    assert not ladder_fit(older, moved).pools_misfit
    assert "below 0.05 all points of the arm get a further variance" in describe_fit(one_by_one)
    pooled = re.search(r"the p of all arms together is (\S+)\. It is below", describe_fit(together))
    assert pooled
    assert float(pooled[1]) < 1e-6


def test_a_design_says_when_exponents_are_the_same(
    study_cache: Path, rows: list[dict[str, Any]]
) -> None:
    ladder = {**CHANGES["ladder"], "exponent_margin": 0.4}
    plan = plan_record(make_small_plan(study_cache, {**CHANGES, "ladder": ladder}))
    laws = study_laws(plan, rows)
    assert laws is not None
    assert {verdict.margin for verdict in laws.verdicts} == {0.4}
    lines = [" ".join(line) for line in exponent_lines(laws.verdicts)]
    assert any("same exponent within ±0.4" in line for line in lines)


def test_the_law_is_drawn_along_the_path_of_each_arm(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    for place, (arm, curve) in enumerate(laws.curves.items()):
        inside = [point for point in curve if not point.extrapolated]
        rungs = [rung.arms[arm].price.parameters for rung in plan.rungs if not rung.is_predicted]
        assert inside[0].parameters == pytest.approx(rungs[0])
        assert inside[-1].parameters == pytest.approx(rungs[-1])
        n_tokens = plan.rungs[0].tokens[-1]
        law = laws.fit.law(place)
        assert inside[0].loss == pytest.approx(law.loss(rungs[0], n_tokens), rel=1e-6)
        assert all(point.low < point.loss < point.high for point in curve)
        truth = planted_loss(arm, rungs[0], n_tokens)
        assert inside[0].low < truth < inside[0].high


def test_a_larger_run_is_predicted(plan: PlanRecord, rows: list[dict[str, Any]]) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    predictions = predict_rung(plan, laws.fit, 3)
    assert [one.arm for one in predictions] == laws.arms
    for one in predictions:
        truth = planted_loss(one.arm, one.parameters, one.tokens)
        assert one.low < truth < one.high
        assert one.loss == pytest.approx(truth, rel=0.01)


def test_a_ladder_of_which_little_is_run_has_no_law(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    smallest = [row for row in rows if row["size"] == 16]
    with pytest.raises(SpecError, match="a law needs"):
        study_laws(plan, smallest)


def test_a_study_without_a_ladder_has_no_law(study_cache: Path) -> None:
    assert study_laws(plan_record(make_small_plan(study_cache, {})), []) is None


def test_a_prediction_stays_as_it_was_written(tmp_path: Path) -> None:
    study = Study(tmp_path, tmp_path)
    assert study.read_predictions() == []
    study.lock_predictions([{"arm": "causal", "loss": 1.5}])
    study.lock_predictions([{"arm": "causal", "loss": 9.0}])
    assert study.read_predictions() == [{"arm": "causal", "loss": 1.5}]
    path = tmp_path / PREDICTIONS_FILE
    path.write_text(path.read_text().replace("1.5", "1.4"))
    with pytest.raises(RecordError, match=r"predictions\.json"):
        study.read_predictions()


def test_a_ladder_without_a_law_keeps_the_reason_in_place_of_a_prediction(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    diverged = [{**row, "outcome": "diverged"} for row in rows if row["size"] in (32, 48)]
    few = [row for row in rows if row["size"] not in (32, 48)] + diverged
    tables = prediction_tables(plan, few, 3)
    assert read_predictions(tables) == []
    refusal = prediction_refusal(tables)
    assert refusal.startswith(
        "no law could be fitted: 54 of 108 runs of the ladder have no score: 54 diverged; 27 at"
        " d_model 32, 27 at d_model 48; points"
    )
    assert "2 sizes, 2 with durations a factor of 4" in refusal
    good = prediction_tables(plan, rows, 3)
    assert [one.arm for one in read_predictions(good)] == ["full", "reverse", "causal"]
    assert prediction_refusal(good) == ""


class Notes(StudyWatcher):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_the_largest_run_begins_with_a_note_where_there_is_no_prediction(
    study_cache: Path, tmp_path: Path
) -> None:
    own, study, watcher = make_small_plan(study_cache, CHANGES), open_study(tmp_path, "a"), Notes()
    freeze(own, study)
    lock_predictions(own, [], study, watcher)  # no run of the ladder has a score
    reason = "no law could be fitted: points: none are given; a law needs more than 5 cells"
    assert study.read_predictions() == [{"refusal": reason}]
    lock_predictions(own, [], study, watcher)
    assert watcher.texts == 2 * [f"the largest run is made without a prediction: {reason}"]


def test_predictions_are_written_down_before_their_runs_begin(
    study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, study = make_small_plan(study_cache, CHANGES), open_study(tmp_path, "a")
    rounds: list[tuple[set[int], bool]] = []

    def note_round(cells: Sequence[Cell], *_: object) -> ExecutionResult:
        sizes = {cell.record.size for cell in cells}
        rounds.append((sizes, bool(study.read_predictions())))
        return ExecutionResult({}, ())

    monkeypatch.setattr(study_run, "execute_cells", note_round)
    run_study(own, study, Execution(Workspace(tmp_path, device="cpu")), StudyWatcher())
    assert rounds[-1] == ({96}, True)
    assert [is_predicted for _, is_predicted in rounds[:-1]] == [False] * (len(rounds) - 1)
    assert len(rounds) > 1


def test_nothing_is_predicted_of_runs_that_had_begun(study_cache: Path, tmp_path: Path) -> None:
    own, study, watcher = make_small_plan(study_cache, CHANGES), open_study(tmp_path, "a"), Notes()
    freeze(own, study)
    cells = ladder_cells(own, rates_without_sweep(own), is_predicted=True)
    (tmp_path / cells[1].name).mkdir()
    (tmp_path / cells[1].name / "rows.jsonl").write_text('{"step": 0}\n')
    lock_predictions(own, cells, study, watcher)
    (text,) = watcher.texts
    assert f"1 of its {len(cells)} runs had begun before anything was predicted" in text
    assert read_predictions(study.read_predictions()) == []


def test_laws_are_shown_under_other_readings(plan: PlanRecord, rows: list[dict[str, Any]]) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    readings = study_readings(plan, rows, laws)
    assert [(one.arm, one.reading) for one in readings[:3]] == [
        ("full", BOOTSTRAP),
        ("full", NON_EMBEDDING),
        ("full", HUBER),
    ]
    for one in readings:
        assert not one.refusal
        own = one.estimates["beta"]
        assert own.low <= own.estimate <= own.high
        assert own.estimate == pytest.approx(0.4, abs=0.05)
    by_reading = {one.reading: one.estimates for one in readings if one.arm == "full"}
    main = laws.estimates["full"]["alpha"]
    assert by_reading[BOOTSTRAP]["alpha"].estimate == main.estimate
    assert by_reading[NON_EMBEDDING]["alpha"].estimate < main.estimate  # it spans more of N
    lines = reading_lines(laws, readings)
    assert [line[1] for line in lines[:4]] == ["as above", BOOTSTRAP, NON_EMBEDDING, HUBER]
    assert len(lines) == 4 * 3
    assert all(len(line) == len(READING_HEADING) for line in lines)


def test_noise_that_differs_between_durations_is_told_and_weighs_the_points(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    assert describe_noise(laws) == ""
    column, draws = column_of(plan.design.primary.measure.table), random.Random(6)
    uneven: list[dict[str, Any]] = []
    for row in rows:
        is_short = row["planned_tokens"] < 3 * row["parameters"]
        noise = exp(draws.gauss(0, 0.03)) if is_short else 1.0
        uneven.append({**row, column: row[column] * noise})
    other = study_laws(plan, uneven)
    assert other is not None
    assert describe_noise(other).startswith(
        "The noise between seeds differs between places of the ladder (Bartlett's test, p = "
    )
    own = {
        one.arm: one for one in study_readings(plan, uneven, other) if one.reading == EQUAL_NOISE
    }
    assert list(own) == ["full", "reverse", "causal"]
    alike, weighed = own["full"].estimates["alpha"], other.estimates["full"]["alpha"]
    assert weighed.high - weighed.low < (alike.high - alike.low) / 2


def test_arms_that_miss_their_laws_together_are_told_with_a_reading(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    assert laws.shared_misfit is None
    assert describe_shared_misfit(laws) == warn_of_shared_misfit(laws) == ""
    column, draws = column_of(plan.design.primary.measure.table), random.Random(7)
    off = {(rung.size, n): exp(draws.gauss(0, 0.02)) for rung in plan.rungs for n in rung.tokens}
    moved = [{**row, column: row[column] * off[row["size"], row["planned_tokens"]]} for row in rows]
    other = study_laws(plan, moved)
    assert other is not None
    assert other.shared_misfit is not None
    sentence = describe_shared_misfit(other)
    assert sentence.startswith("At the same size and duration, arms miss their laws together: by ")
    assert f"{significant(100 * other.shared_misfit.shared)} % of the loss in common" in sentence
    assert 0.01 < other.shared_misfit.shared < 0.04
    assert other.shared_misfit.own < 0.002
    lines = exponent_lines(other.shared_misfit.verdicts)
    assert all(len(line) == len(SHARED_HEADING) for line in lines)
    by_pair = {(one.arm, one.exponent): one for one in other.shared_misfit.verdicts}
    found = by_pair["causal", "alpha"].one_floor
    assert found.p < 1e-6
    assert found.estimate < -0.1
    assert "can be too narrow, above all those of E, A and α" in warn_of_shared_misfit(other)
    own = {one.arm: one for one in study_readings(plan, moved, other) if one.reading == COMMON}
    assert list(own) == ["full", "reverse", "causal"]
    heeding, main = own["full"].estimates["E"], other.estimates["full"]["E"]
    assert heeding.low < FLOOR < heeding.high
    assert heeding.estimate != pytest.approx(main.estimate, rel=1e-3)


def test_gains_at_every_size_are_those_of_paired_seeds(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    gains = ladder_gains(plan, rows)
    (predicted,) = [rung.size for rung in plan.rungs if rung.is_predicted]
    assert len(gains) == 2 * (4 * 3 + 1)
    assert {one.arm for one in gains if one.size == predicted} == {"reverse", "causal"}
    not_run = [row for row in rows if row["size"] != predicted]
    assert predicted not in {one.size for one in ladder_gains(plan, not_run)}
    assert {(one.arm, one.against) for one in gains} == {("reverse", "full"), ("causal", "full")}
    column = column_of(plan.design.primary.measure.table)
    shortest = next(rung.tokens[0] for rung in plan.rungs if rung.size == 32)
    by_seed: dict[str, dict[int, float]] = {"full": {}, "causal": {}}
    for row in rows:
        if row["arm"] in by_seed and (row["size"], row["planned_tokens"]) == (32, shortest):
            by_seed[row["arm"]][row["seed"]] = row[column]
    expected = [by_seed["full"][seed] - by_seed["causal"][seed] for seed in (1, 2, 3)]
    (found,) = [
        one
        for one in gains
        if (one.arm, one.size) == ("causal", 32) and round(one.tokens_per_parameter) == 2
    ]
    assert found.mean == pytest.approx(fmean(expected))
    assert found.interval is not None
    half = stats.t.ppf(0.975, 2) * stdev(expected) / 3**0.5
    assert found.interval == pytest.approx((found.mean - half, found.mean + half))


@pytest.mark.parametrize("seeds", [(2,), (1, 3)])
def test_a_gain_of_few_seeds_has_no_interval_and_one_of_none_is_left_out(
    plan: PlanRecord, rows: list[dict[str, Any]], seeds: tuple[int, ...]
) -> None:
    few_seeds = [row for row in rows if row["arm"] != "causal" or row["seed"] in seeds]
    by_arm = {one.arm: one for one in ladder_gains(plan, few_seeds)}
    assert by_arm["causal"].interval is None
    assert by_arm["reverse"].interval is not None
    without = [row for row in rows if row["arm"] != "causal"]
    assert {one.arm for one in ladder_gains(plan, without)} == {"reverse"}


def test_the_assumption_of_one_floor_is_told(plan: PlanRecord, rows: list[dict[str, Any]]) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    assert laws.one_floor_p is not None
    assert laws.one_floor_p > 0.001
    assert "must also hold, at the same level, with an E for each arm" in describe_floor(laws)
    assert all(len(line) == len(EXPONENT_HEADING) for line in exponent_lines(laws.verdicts))


def test_three_sizes_are_too_few_to_redraw_cells(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    few = [row for row in rows if row["size"] != 64]
    laws = study_laws(plan, few)
    assert laws is not None
    readings = study_readings(plan, few, laws)
    lines = reading_lines(laws, readings)
    assert [("(no interval)" in line[-1]) for line in lines[:4]] == [False, False, False, True]


def test_runs_that_say_too_little_are_told_before_their_law(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    assert describe_unbounded(laws) == ""
    wild = {**laws.estimates["causal"], "alpha": LawEstimate(4.99, 0.0, 1e5)}
    loose = replace(laws, estimates={**laws.estimates, "causal": wild})
    assert describe_unbounded(loose).startswith('Exponents without a bound: "causal". These runs')
    (line,) = [line for line in law_lines(loose) if line[0] == "causal"]
    assert line[4] == "4.99 (0 to no bound)"


def test_a_number_without_a_bound_has_no_estimate(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    own = {
        "E": LawEstimate(0.0, 0.0, 1.0),
        "lnA": LawEstimate(40.0, -inf, inf),
        "lnB": LawEstimate(log(17_235), log(1e-40), log(407_460)),
        "alpha": LawEstimate(5.02, -20.0, 20.0),
        "beta": LawEstimate(0.0465, -0.32, inf),
    }
    loose = replace(laws, estimates={**laws.estimates, "causal": own})
    (line,) = [line for line in law_lines(loose) if line[0] == "causal"]
    assert line[1:6] == (
        "0 (0 to 1)",
        "no estimate",
        "1.72e+04 (0 to 4.07e+05)",
        "no estimate",
        "0.0465 (−0.32 to no bound)",
    )
    first = laws.verdicts[0]
    wide = replace(first.one_floor, low=-inf, high=inf)
    (told,) = exponent_lines([replace(first, one_floor=wide, own_floors=wide)])
    assert told[3:6] == ("no estimate", "no bound to no bound", "no estimate")


def test_a_number_without_an_interval_is_shown_where_it_means_anything(
    plan: PlanRecord, rows: list[dict[str, Any]]
) -> None:
    laws = study_laws(plan, rows)
    assert laws is not None
    values = {"E": 0.5, "lnA": 200.0, "lnB": log(7.2), "alpha": -53.2, "beta": 0.236}
    bare = {name: LawEstimate(value, nan, nan) for name, value in values.items()}
    found = reading_lines(laws, [OtherReading("causal", "bare", bare)])
    (line,) = [line for line in found if line[1] == "bare"]
    assert line[2:] == (
        "0.5 (no interval)",
        "no estimate",
        "7.2 (no interval)",
        "no estimate",
        "0.236 (no interval)",
    )
