"""Fresh seeds of a finished design: which study of a series they make, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade_study import GAINS, make_study, sweep_record
from trained_study import design_table, make_small_plan

from paribus.analyse import study_findings
from paribus.design import plan_record
from paribus.design.series import Series, require_same_design, series_member
from paribus.design.study_run import _require_rates_of_series
from paribus.errors import RecordError, SpecError
from paribus.record import Study
from paribus.record.plan import PlanRecord, parse_plan
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.series import describe_series
from paribus.report.verdicts import describe_fresh_seeds
from paribus.spec.design import Design
from paribus.spec.design_reading import load_design

SEEDS = (1, 2, 3, 4)


@pytest.fixture
def design() -> Design:
    return load_design(design_table({"seeds": list(SEEDS)}))


def a_member(root: Path, number: int, seeds: list[int]) -> Study:
    """A later study of the series, finished by hand: under other seeds, and with the runs of
    the first.
    """
    study = make_study(root / f"of-{number}", name=f"small-{number}")
    earlier = {"study": "small", "number": 1, "seeds": list(SEEDS), "gains": []}
    plan = {
        **study.read_plan(),
        "series": {"first": "small", "number": number, "earlier": [earlier], "rates": None},
    }
    plan["design"]["seeds"] = seeds
    folder = root / "studies" / f"small-{number}"
    folder.parent.mkdir(exist_ok=True, parents=True)
    study.folder.rename(folder)
    own = Study(root, folder)
    own.write_plan(plan)
    return own


def test_the_second_study_has_fresh_seeds_after_those_of_the_first(
    tmp_path: Path, design: Design
) -> None:
    first = make_study(tmp_path, rates=sweep_record(GAINS))
    member = series_member(tmp_path, "small", design, 6)
    assert (member.name, member.design.seeds) == ("small-2", (5, 6, 7, 8, 9, 10))
    assert member.design.model_copy(update={"seeds": design.seeds}) == design
    assert (member.series.first, member.series.number) == ("small", 2)
    assert member.series.rates == dict.fromkeys(GAINS, 0.004)
    (earlier,) = member.series.earlier
    assert (earlier.study, earlier.number, earlier.seeds) == ("small", 1, SEEDS)
    made_of = study_findings(first).arm("prefix").judgement.comparison
    assert made_of is not None
    assert earlier.gains[0] == {
        "of": "prefix",
        "gain": made_of.effect,
        "low": made_of.low,
        "high": made_of.high,
        "level": made_of.level,
    }
    assert not any("verdict" in gain or "word" in gain for gain in earlier.gains)


def test_a_design_whose_own_seeds_are_not_run_has_no_fresh_ones(
    tmp_path: Path, design: Design
) -> None:
    said = (
        "--seeds is 6, but the design lists 4 seeds of its own; leave it out, or write seeds"
        " = 'open'"
    )
    with pytest.raises(SpecError, match=said):
        series_member(tmp_path, "small", design, 6)
    study = make_study(tmp_path)
    plan = study.read_plan()
    plan["design"]["seeds"] = [1, 2, 3, 4, 5]
    study.write_plan(plan)
    with pytest.raises(
        SpecError,
        match="Once the study small is finished, --seeds N makes a new study with N fresh seeds",
    ):
        series_member(tmp_path, "small", design, 6)


def test_a_study_that_was_begun_is_gone_on_with_and_not_made_larger(
    tmp_path: Path, design: Design
) -> None:
    make_study(tmp_path)
    begun = a_member(tmp_path, 2, [5, 6, 7, 8])
    assert series_member(tmp_path, "small", design, 4).name == "small-2"
    said = (
        "--seeds is 9, but small-2 was begun with 4 fresh seeds; give --seeds 4, because more seeds"
        " would be a second"
    )
    with pytest.raises(SpecError, match=said):
        series_member(tmp_path, "small", design, 9)
    with pytest.raises(SpecError, match=said):
        series_member(tmp_path, "small-2", design, 9)
    (begun.folder / "cells.json").unlink()  # planned, and nothing of it run
    assert series_member(tmp_path, "small", design, 9).design.seeds == tuple(range(5, 14))


def test_a_name_with_a_number_asks_for_that_study(tmp_path: Path, design: Design) -> None:
    make_study(tmp_path)
    assert series_member(tmp_path, "small-2", design, 4).name == "small-2"
    with pytest.raises(
        SpecError, match="--name is small-4, but the last study of the series of small is number 1"
    ):
        series_member(tmp_path, "small-4", design, 4)
    make_study(tmp_path / "x", name="small-2").folder.rename(tmp_path / "studies" / "small-2")
    with pytest.raises(
        SpecError,
        match="the study small-2 already exists and is not in the series of small; move",
    ):
        series_member(tmp_path, "small", design, 4)


def test_fresh_seeds_stay_below_those_of_sweeps(tmp_path: Path, design: Design) -> None:
    make_study(tmp_path)
    assert series_member(tmp_path, "small", design, 996).design.seeds[-1] == 1000
    said = (
        "--seeds is 997, but the series of small has used the seeds below 5; 996 are left below"
        " 1001"
    )
    with pytest.raises(SpecError, match=said):
        series_member(tmp_path, "small", design, 997)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"primary.margin": 0.4}, "primary.margin 0.5 → 0.4"), ({"control": "causal"}, "control")],
)
def test_fresh_seeds_of_another_design_are_refused(
    study_cache: Path, changes: dict[str, Any], said: str
) -> None:
    plans = [plan_record(make_small_plan(study_cache, one)) for one in ({}, changes)]
    member = _member_of(plans[0])
    fresh = {
        **plans[0].table,
        "design": {**plans[0].design.table, "seeds": [4, 5, 6, 7], "looks": None},
    }
    require_same_design(member, parse_plan(fresh, Path("plan.json")))
    with pytest.raises(
        SpecError, match=r"little has another design: design.*; fresh seeds need the same design"
    ) as fault:
        require_same_design(member, plans[1])
    assert said in str(fault.value)


def _member_of(plan: PlanRecord) -> Any:
    class Known:
        first_plan = plan
        series = Series("little", 2, ())

    return Known()


def test_a_later_study_trains_at_the_rates_of_the_first(study_cache: Path) -> None:
    plan = replace(
        make_small_plan(study_cache),
        series=Series("little", 2, (), {"full": 0.05, "causal": 0.04, "reverse": 0.03}),
    )
    _require_rates_of_series(plan, {"full": 0.05, "causal": 0.04, "reverse": 0.03})
    said = (
        "the sweep of little found the rate 0.04 for causal, and now it comes out as 0.02; use the"
        " version that"
    )
    with pytest.raises(RecordError, match=said):
        _require_rates_of_series(plan, {"full": 0.05, "causal": 0.02, "reverse": 0.03})


def test_the_report_says_which_study_it_is_and_shows_the_earlier_without_a_word(
    tmp_path: Path, design: Design
) -> None:
    study = make_study(tmp_path)
    member = series_member(tmp_path, "small", design, 6)
    study.write_plan({**study.read_plan(), "series": member.series.table})
    material = gather_report_data(study)
    first, second = describe_series(material)
    assert first.startswith(
        "Study 2 of a series: 4 fresh seeds, 1 to 4, judged alone. Earlier studies of the series"
    )
    assert second.startswith(
        "Study 1 (small; 4 seeds, 1 to 4), gains in bits per byte,"
        ' without a verdict: "prefix" +0.00'
    )
    assert not any(word in second for word in ("better", "worse", "equivalent", "inconclusive"))
    for text in (render_page(material), markdown_report(material), latex_table(material)):
        assert "Study 2 of a series" in text
        assert "Study 1 (small" in text
    assert describe_series(gather_report_data(make_study(tmp_path / "alone"))) == []
    assert describe_fresh_seeds(material) == ""


def test_the_first_study_names_the_later_ones_beside_it(tmp_path: Path) -> None:
    first = make_study(tmp_path)
    a_member(tmp_path, 2, [5, 6, 7, 8])
    later = a_member(tmp_path, 3, [9, 10, 11, 12])
    (said,) = describe_series(gather_report_data(first))
    assert (
        said
        == "Study 1 of a series. Later studies of it, each of fresh seeds and judged alone: small-2"
        " and small-3."
    )
    later.write_plan({**later.read_plan(), "series": None})  # a study of its own
    assert describe_series(gather_report_data(first))[0].endswith("judged alone: small-2.")


def test_an_anonymous_report_keeps_the_series_and_the_control(
    tmp_path: Path, design: Design
) -> None:
    study = make_study(tmp_path)
    member = series_member(tmp_path, "small", design, 6)
    study.write_plan({**study.read_plan(), "edition": 2, "series": member.series.table})
    material = gather_report_data(study, anonymous=True)
    text = markdown_report(material)
    assert "Study 2 of a series" in text
    assert 'The positive control works: "input hidden" loses' in text
