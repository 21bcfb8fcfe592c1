"""One noise for all arms, declared in a design: what decides comes from it, or from nothing."""

from pathlib import Path

import pytest
from handmade_study import GAINS
from measures import LOWER
from sized_study import WIDE_GAINS, make_sized_study

from paribus.analyse import Findings, pool_noise, study_findings
from paribus.analyse.criterion import Criterion
from paribus.analyse.pooled_judgements import POOLED_NOISE_REMARK


def scores_of(found: Findings) -> dict[str, dict[int, float]]:
    table = {arm: {} for arm in found.plan.order}
    for row in found.reported_rows:
        table[row["arm"]][row["seed"]] = row["halves.test"]
    return table


def test_verdict_interval_and_p_come_from_the_pooled_residual(tmp_path: Path) -> None:
    found = study_findings(make_sized_study(tmp_path / "a", 5, WIDE_GAINS, equal_noise=True))
    plain = study_findings(make_sized_study(tmp_path / "b", 5, WIDE_GAINS))
    wanted = pool_noise(scores_of(found), "causal", measure=LOWER, criterion=Criterion(margin=0.02))
    assert found.pooled_noise == wanted
    assert plain.pooled_noise is None
    for arm in found.arms:
        made, own = arm.judgement.comparison, plain.arm(arm.name).judgement.comparison
        assert made is not None
        assert own is not None
        assert (made.low, made.high) == wanted.intervals[arm.name] != (own.low, own.high)
        assert (made.inner_low, made.inner_high) == wanted.inner_intervals[arm.name]
        assert (made.p, made.p_adjusted) == (wanted.p[arm.name], min(1, 4 * wanted.p[arm.name]))
        assert arm.judgement.verdict == made.verdict == wanted.verdicts[arm.name]
        assert (made.effect, made.sd, made.level) == pytest.approx(
            (own.effect, own.sd, 1 - 0.05 / 4)
        )
        assert POOLED_NOISE_REMARK in made.remarks
        assert POOLED_NOISE_REMARK in arm.judgement.description


def test_the_share_of_a_look_is_kept(tmp_path: Path) -> None:
    study = make_sized_study(tmp_path, 4, equal_noise=True, looks={"4": 0.04})
    found = study_findings(study)
    assert found.pooled_noise is not None
    assert found.pooled_noise.level == pytest.approx(1 - 0.04 / 2)


def test_an_arm_that_failed_is_unstable_and_the_others_share_their_noise(tmp_path: Path) -> None:
    found = study_findings(
        make_sized_study(tmp_path, 5, WIDE_GAINS, failed=[("a", 5)], equal_noise=True)
    )
    assert found.pooled_noise is not None
    assert set(found.pooled_noise.effects) == {"prefix", "input hidden", "b"}
    failed = found.arm("a").judgement
    assert (failed.verdict.word, failed.comparison) == ("unstable", None)
    assert failed.description.startswith(
        "unstable, the arm trained in 4 of 5, the baseline in 5 of 5; one noise is had from 3"
    )
    kept = found.arm("prefix").judgement.comparison
    assert kept is not None
    assert (kept.level, kept.n_comparisons) == (pytest.approx(1 - 0.05 / 4), 4)


@pytest.mark.parametrize("failed", [("causal", 2), ("prefix", 2)])
def test_where_no_noise_can_be_pooled_no_other_test_steps_in(
    tmp_path: Path, failed: tuple[str, int]
) -> None:
    found = study_findings(make_sized_study(tmp_path, 5, GAINS, failed=[failed], equal_noise=True))
    assert found.pooled_noise is None
    assert [(arm.judgement.verdict.word, arm.judgement.comparison) for arm in found.arms] == [
        ("unstable", None)
    ] * 2


def test_a_plan_of_before_it_could_be_declared_is_read_as_ever(tmp_path: Path) -> None:
    study = make_sized_study(tmp_path, 4)
    plan = study.read_plan()
    del plan["design"]["equal_noise"]
    study.write_plan(plan)
    assert study_findings(study).pooled_noise is None
