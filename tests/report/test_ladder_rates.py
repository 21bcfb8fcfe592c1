"""The rates of a ladder in words: sizes in their order, arms in that of the design."""

from dataclasses import replace
from typing import Any

import pytest
from handmade_study import make_study

from paribus.report.ladder_rates import describe_rate_law, ladder_rate_lines
from paribus.report.report_data import ReportData, gather_report_data

LAW: dict[str, Any] = {
    "power": -0.3,
    "low": -0.446,
    "high": -0.154,
    "sd": 0.08,
    "factor": 1.083,
    "df": 9,
    "equal_powers_p": 0.2,
    "log_levels": {"prefix": 0.1, "causal": 0.2},
}
RECORD: dict[str, Any] = {
    "sweeps": {"128": {}, "64": {}, "96": {}},  # as a file of sorted keys has them
    "law": LAW,
    "rates": {},
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return gather_report_data(make_study(tmp_path_factory.mktemp("runs")))


def test_nothing_is_said_where_nothing_was_swept(report: ReportData) -> None:
    assert ladder_rate_lines(report) == []
    assert describe_rate_law(report) == ""


def test_the_power_has_its_interval_and_sizes_ascend(report: ReportData) -> None:
    words = describe_rate_law(replace(report, ladder_rates=RECORD))
    assert words.startswith("Every arm was swept at d_model 64, 96, 128;")
    assert "rate ∝ N^−0.300 (95 % interval −0.446 to −0.154, 9 degrees of freedom)" in words
    assert "by a factor of 1.08. The p of the F test that all arms have one power is 0.2." in words
    alone = {**RECORD, "law": {**LAW, "equal_powers_p": None}}
    assert "F test" not in describe_rate_law(replace(report, ladder_rates=alone))


def test_arms_are_in_the_order_of_the_design(report: ReportData) -> None:
    lines = ladder_rate_lines(replace(report, ladder_rates=RECORD))
    assert [line[0] for line in lines] == [arm for arm in report.order if arm in LAW["log_levels"]]
