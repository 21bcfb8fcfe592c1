"""What earlier studies say of the noise: the largest spread under the same yardstick."""

from pathlib import Path

from paribus.analyse import earlier_spread, findings, upper_sd
from small_study import made


def test_the_largest_spread_under_the_same_yardstick_is_told_with_its_study(tmp_path: Path) -> None:
    assert earlier_spread(tmp_path, {"kind": "halves"}) is None
    kept = made(tmp_path, name="done")
    measure = kept.plan()["design"]["primary"]["measure"]
    found = earlier_spread(tmp_path, measure)
    assert found is not None
    spreads = [arm.judgement.comparison.sd for arm in findings(kept).arms if arm.judgement.comparison]
    assert found == (max(spreads), "done", 4)
    assert found.upper == upper_sd(max(spreads), 4)
    assert earlier_spread(tmp_path, {**measure, "n_items": 7}) is None


def test_a_study_that_is_not_done_tells_nothing(tmp_path: Path) -> None:
    kept = made(tmp_path, name="done")
    (kept.folder / "cells.json").write_text("[]")
    assert earlier_spread(tmp_path, kept.plan()["design"]["primary"]["measure"]) is None
