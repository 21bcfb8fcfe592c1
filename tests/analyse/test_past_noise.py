"""What earlier studies say of the noise: the largest spread under the same yardstick."""

from pathlib import Path

from handmade_study import make_study, rewrite_plan

from paribus.analyse import past_studies, study_findings, upper_sd
from paribus.record.plan import EDITION


def test_the_largest_spread_under_the_same_yardstick_is_told_with_its_study(tmp_path: Path) -> None:
    assert past_studies(tmp_path, {"kind": "halves"}) == (None, None)
    kept = make_study(tmp_path, name="done")
    measure = kept.read_plan()["design"]["primary"]["measure"]
    found, control_effect = past_studies(tmp_path, measure)
    assert found is not None
    spreads = [
        arm.judgement.comparison.sd for arm in study_findings(kept).arms if arm.judgement.comparison
    ]
    assert found[:3] == (max(spreads), "done", 4)
    assert found.upper_sd == upper_sd(max(spreads), 4)
    assert control_effect is None
    assert past_studies(tmp_path, {**measure, "n_items": 7}) == (None, None)


def test_a_study_that_is_not_done_tells_nothing(tmp_path: Path) -> None:
    kept = make_study(tmp_path, name="done")
    (kept.folder / "cells.json").write_text("[]")
    measure = kept.read_plan()["design"]["primary"]["measure"]
    assert past_studies(tmp_path, measure) == (None, None)


def test_what_a_working_control_was_worth_is_told(tmp_path: Path) -> None:
    kept = make_study(tmp_path, name="done")
    design = kept.read_plan()["design"]
    rewrite_plan(kept, edition=EDITION)
    control = study_findings(kept).control
    assert control is not None
    assert control.works
    assert past_studies(tmp_path, design["primary"]["measure"]).control_effect == control.effect
