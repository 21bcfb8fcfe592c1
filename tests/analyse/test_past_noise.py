"""What earlier studies say of the noise: the largest spread under the same yardstick."""

from pathlib import Path

from handmade_study import make_study

from paribus.analyse import largest_past_noise, study_findings, upper_sd


def test_the_largest_spread_under_the_same_yardstick_is_told_with_its_study(tmp_path: Path) -> None:
    assert largest_past_noise(tmp_path, {"kind": "halves"}) is None
    kept = make_study(tmp_path, name="done")
    measure = kept.read_plan()["design"]["primary"]["measure"]
    found = largest_past_noise(tmp_path, measure)
    assert found is not None
    spreads = [
        arm.judgement.comparison.sd for arm in study_findings(kept).arms if arm.judgement.comparison
    ]
    assert found == (max(spreads), "done", 4)
    assert found.upper_sd == upper_sd(max(spreads), 4)
    assert largest_past_noise(tmp_path, {**measure, "n_items": 7}) is None


def test_a_study_that_is_not_done_tells_nothing(tmp_path: Path) -> None:
    kept = make_study(tmp_path, name="done")
    (kept.folder / "cells.json").write_text("[]")
    assert largest_past_noise(tmp_path, kept.read_plan()["design"]["primary"]["measure"]) is None
