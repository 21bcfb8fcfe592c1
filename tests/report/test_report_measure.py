"""The unit that a report prints is that of the yardstick's measure."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from factorial_study import make_factorial_study

from paribus.report.contrasts import describe_effect_scale
from paribus.report.curve_plots import learning_plot
from paribus.report.details import detail_lines
from paribus.report.effect_plot import effect_plots
from paribus.report.report_data import gather_report_data
from paribus.spec.measure import LIKELIHOOD
from paribus.spec.yardstick import MEASURES


def test_the_unit_comes_from_the_measure_but_for_validation_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = gather_report_data(make_factorial_study(tmp_path))
    assert report.measure is LIKELIHOOD
    kind = report.plan.design.primary.measure.kind
    monkeypatch.setitem(MEASURES, kind, replace(LIKELIHOOD, unit="points"))
    assert report.measure.unit == "points"
    assert describe_effect_scale(report).startswith("Effects add in points;")
    assert "gain, points" in [line[0] for line in detail_lines(report)]
    axis = json.dumps(effect_plots(report)[0].spec)
    assert "gain in points (positive is better)" in axis
    assert '"titleAnchor": "end"' in axis  # a narrow page cuts a title in the middle
    assert "bits per byte" not in axis
    learning = learning_plot(report)
    assert learning is not None
    assert "bits per byte, validation text" in json.dumps(learning.spec)
    assert "Lower is better" in learning.caption
