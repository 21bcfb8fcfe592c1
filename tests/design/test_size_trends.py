"""Other yardsticks of a ladder: asked at every size, and whether they change smoothly or with a
break.
"""

import random
from math import exp
from pathlib import Path
from typing import Any

import pytest
from trained_study import make_small_plan

from paribus.analyse.run_table import ladder_yardsticks, measures_of
from paribus.analyse.size_trends import NO_LOSS_LEFT, StudyTrends, study_trends
from paribus.design.cells import ladder_cells
from paribus.design.plan import Plan
from paribus.design.plan_table import plan_record
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord
from paribus.report.size_trends import TREND_HEADING, trend_lines, trend_sentences

ACCURACY, LOG_LOSS = "copies.test", "copies: log loss.test"
LANGUAGE = {"kind": "copy", "n_documents": 400, "min_length": 6, "max_length": 8}
TASK: dict[str, Any] = {"name": "copies", "kind": "choices", "language": LANGUAGE, "n_items": 7}
PROBE = {
    "kind": "probe",
    "probe": {"kind": "rank", "n_texts": 2, "length": 16},
    "quantity": "effective rank",
}
OTHERS = [
    {"kind": "task", "task": TASK},
    {"kind": "task", "task": {**TASK, "measure": "log loss"}},
    PROBE,
]
SIZES = [8, 12, 16, 24, 32, 48, 64, 96]
CHANGES: dict[str, Any] = {
    "budget": "tokens_read",
    "arms.reverse": None,
    "others": OTHERS,
    "ladder": {
        "sizes": SIZES,
        "tokens_per_parameter": [8, 32],
        "d_head": 4,
        "n_seeds": 3,
        "others": True,
    },
}


@pytest.fixture(scope="module")
def plan(study_cache: Path) -> Plan:
    return make_small_plan(study_cache, CHANGES)


@pytest.fixture(scope="module")
def record(plan: Plan) -> PlanRecord:
    return plan_record(plan)


def broken_share(n_parameters: float) -> float:
    """Wrong answers in points: hardly fewer up to some size, and far fewer from there on."""
    below = (n_parameters / 8000) ** 4
    return 75 * (1 + below) ** -0.25


def planted_rows(record: PlanRecord, sizes: list[int]) -> list[dict[str, Any]]:
    """A row for each run: the log loss follows a power of size, and accuracy has a break."""
    draws, rows = random.Random(7), []
    for rung in record.rungs:
        if rung.size not in sizes:
            continue
        for place, n_tokens in enumerate(rung.tokens):
            for arm in record.order:
                price = rung.arms[arm].price
                n_parameters = price.non_embedding_parameters
                for seed in (1, 2, 3):
                    wrong = broken_share(n_parameters) * exp(draws.gauss(0, 0.003))
                    bits = (0.2 + 6 * n_parameters**-0.2) * exp(draws.gauss(0, 0.003))
                    rows.append(
                        {
                            "arm": arm,
                            "seed": seed,
                            "purpose": "ladder",
                            "outcome": "finished",
                            "size": rung.size,
                            "parameters": price.parameters,
                            "non_embedding_parameters": n_parameters,
                            "planned_tokens": n_tokens,
                            "planned_flops": 6.0 * n_parameters * n_tokens,
                            # the shorter duration is another curve, and is not mixed in
                            ACCURACY: 100 - wrong if place else 25.0,
                            LOG_LOSS: bits if place else 2.0,
                        }
                    )
    return rows


@pytest.fixture(scope="module")
def trends(record: PlanRecord) -> StudyTrends:
    return study_trends(record, planted_rows(record, SIZES))


def test_yardsticks_are_asked_at_every_size_and_probes_are_not(
    plan: Plan, record: PlanRecord
) -> None:
    rates = {arm.name: 0.03 for arm in plan.arms}
    for cell in ladder_cells(plan, rates):
        assert cell.measures == (plan.design.primary.measure, *plan.design.others[:2])
    for purpose in ("ladder", "predicted"):
        assert len(measures_of(record, purpose)) == 3
    assert len(measures_of(record, "reported")) == 4
    assert [table["kind"] for table in ladder_yardsticks(record)] == ["task", "task"]


def test_without_the_field_a_ladder_is_measured_and_written_as_before(study_cache: Path) -> None:
    changes = {**CHANGES, "ladder": {**CHANGES["ladder"], "others": False}}
    plan = make_small_plan(study_cache, changes)
    rates = {arm.name: 0.03 for arm in plan.arms}
    assert {len(cell.measures) for cell in ladder_cells(plan, rates)} == {1}
    record = plan_record(plan)
    assert "others" not in record.design.table["ladder"]
    assert study_trends(record, planted_rows(record, SIZES)) == StudyTrends()


def test_the_field_needs_a_yardstick_that_is_no_probe(study_cache: Path) -> None:
    with pytest.raises(SpecError, match=r"ladder\.others is true, but others has no yardstick"):
        make_small_plan(study_cache, {**CHANGES, "others": [PROBE]})


def test_a_planted_break_is_seen_by_accuracy_alone(trends: StudyTrends) -> None:
    assert [(one.arm, one.column) for one in trends.trends] == [
        ("full", ACCURACY),
        ("causal", ACCURACY),
        ("full", LOG_LOSS),
        ("causal", LOG_LOSS),
    ]
    assert (trends.n_tests, trends.level) == (4, 0.0125)
    broken = {(one.arm, one.column): trends.is_broken(one) for one in trends.trends}
    assert broken == {
        ("full", ACCURACY): True,
        ("causal", ACCURACY): True,
        ("full", LOG_LOSS): False,
        ("causal", LOG_LOSS): False,
    }
    law = trends.trends[0].law
    assert law is not None
    assert 4000 < law.break_at.estimate < 16_000


def test_only_the_longest_duration_counts(trends: StudyTrends) -> None:
    for trend in trends.trends:
        assert len(trend.points) == len(SIZES) * 3
        assert [one.parameters for one in trend.means] == sorted(
            one.parameters for one in trend.means
        )
        assert 25.0 not in [one.score for one in trend.means]


def test_sentences_name_the_pair_of_measures_and_the_level(trends: StudyTrends) -> None:
    first, *pairs = trend_sentences(trends)
    assert first.startswith("5 % are shared by 4 tests: a law with a break fits better where p is")
    assert "below 0.0125" in first
    assert "does not show that there is no break" in first
    assert pairs == [
        f'"{arm}", the same answers by accuracy ({ACCURACY}) and by log loss ({LOG_LOSS}): a break'
        " is seen by accuracy (the loss falls faster above it) and not by log loss; accuracy often"
        " has one where the answers improve smoothly."
        for arm in ("full", "causal")
    ]


def test_a_line_has_the_ends_of_a_trend_and_the_break_that_is_seen(trends: StudyTrends) -> None:
    full, _, smooth, _ = trend_lines(trends)
    assert len(full) == len(TREND_HEADING)
    assert full[:4] == ("full", ACCURACY, "points", "8")
    assert full[4].startswith("25.")  # three of four are wrong in the smallest model
    assert "below, " in full[7]
    assert full[7].endswith("above")
    assert smooth[:4] == ("full", LOG_LOSS, "bits per item", "8")
    assert smooth[7] == "–"


def test_too_few_sizes_say_nothing_of_a_break(record: PlanRecord) -> None:
    few = study_trends(record, planted_rows(record, SIZES[:7]))
    assert few.n_tests == 0
    assert {one.refusal for one in few.trends} == {"7 sizes are too few: 8 or more are needed"}
    assert list(trend_sentences(few)) == [
        "7 sizes are too few to say whether a yardstick changes smoothly or with a break: that"
        " takes 8."
    ]


def test_runs_without_a_wrong_answer_leave_nothing_to_fit(record: PlanRecord) -> None:
    rows = planted_rows(record, SIZES)
    for row in rows:
        row.pop(LOG_LOSS)
        if row["size"] == SIZES[-1]:
            row[ACCURACY] = 100.0
    full, causal = study_trends(record, rows).trends
    assert full.refusal == causal.refusal == NO_LOSS_LEFT
    assert list(trend_sentences(StudyTrends((full,)))) == [
        f'"full", {ACCURACY}: no test of a break: {NO_LOSS_LEFT}.'
    ]
