"""One noise for all arms: where a design declares it, verdicts come from it or not at all."""

from pathlib import Path

import numpy as np
import pytest
from handmade_study import GAINS
from measures import HIGHER, LOWER
from sized_study import WIDE_GAINS, make_sized_study

from paribus.analyse import Findings, pool_noise, study_findings
from paribus.analyse.criterion import Criterion
from paribus.analyse.pooled_noise import POOLED_NOISE_REMARK
from paribus.errors import SpecError


def _arms(scores: np.ndarray) -> dict[str, dict[int, float]]:
    return {name: dict(enumerate(row)) for name, row in zip("abcde", scores.tolist(), strict=False)}


def _covered(sds: tuple[float, ...], draws: int = 1000) -> float:
    """How often the interval of the second arm holds its true effect of zero, at 95 %."""
    rng, hits = np.random.default_rng(83), 0
    for _ in range(draws):
        scores = np.array(sds)[:, None] * rng.normal(size=(len(sds), 5)) + 10 * rng.normal(size=5)
        low, high = pool_noise(
            _arms(scores), "a", measure=LOWER, criterion=Criterion(family_alpha=0.05)
        ).intervals["b"]
        hits += low < 0 < high
    return 100 * hits / draws


def test_the_residual_of_all_arms_is_pooled() -> None:
    scores = np.random.default_rng(89).normal(size=(4, 5))
    found = pool_noise(_arms(scores), "a", measure=HIGHER, criterion=Criterion(margin=9))
    left = scores - scores.mean(1, keepdims=True) - scores.mean(0, keepdims=True) + scores.mean()
    assert (found.df, found.residual_sd) == (12, pytest.approx(np.sqrt((left**2).sum() / 12)))
    assert found.effects["c"] == pytest.approx(scores[2].mean() - scores[0].mean())
    assert found.score_sds == pytest.approx(
        dict(zip("abcd", scores.std(axis=1, ddof=1), strict=True))
    )
    assert {one.word for one in found.verdicts.values()} == {"equivalent"}
    assert found.level == 1 - 0.05 / 3


def test_equal_noise_covers_and_unequal_noise_does_not() -> None:
    assert _covered((1, 1, 1, 1, 1)) >= 97  # 98.75 for each of a family of four
    assert _covered((1, 3, 1, 1, 1)) < 96


def test_an_arm_equal_to_the_baseline_is_identical() -> None:
    scores = np.random.default_rng(89).normal(size=(3, 5))
    scores[1] = scores[0]
    found = pool_noise(_arms(scores), "a", measure=LOWER)
    assert found.verdicts["b"].word == "identical"


def test_pooling_needs_three_arms_and_whole_seeds() -> None:
    arms = _arms(np.random.default_rng(89).normal(size=(3, 5)))
    with pytest.raises(
        SpecError, match="equal_noise: a, b against a; use it from 3 arms, one the baseline"
    ):
        pool_noise({name: arms[name] for name in "ab"}, "a", measure=LOWER)
    del arms["c"][2]
    with pytest.raises(
        SpecError, match="equal_noise: arms differ in seeds; give every arm the same 3 or more"
    ):
        pool_noise(arms, "a", measure=LOWER)


def test_each_arms_own_spread_is_on_the_scale_of_the_pooled_one() -> None:
    scores = np.random.default_rng(89).normal(size=(4, 5)) + 10 * np.random.default_rng(97).normal(
        size=5
    )
    found = pool_noise(_arms(scores), "a", measure=HIGHER)
    assert np.mean(np.square(list(found.residual_sds.values()))) == pytest.approx(
        found.residual_sd**2
    )
    assert max(found.residual_sds.values()) < min(found.score_sds.values())
    many = np.array([1, 1, 1, 3])[:, None] * np.random.default_rng(101).normal(size=(4, 4000))
    assert list(
        pool_noise(_arms(many), "a", measure=HIGHER).residual_sds.values()
    ) == pytest.approx([np.sqrt((9 * s + 12 - s) / 12) for s in (1, 1, 1, 9)], rel=0.05)


def test_a_larger_family_widens_the_intervals() -> None:
    arms = _arms(np.random.default_rng(89).normal(size=(3, 5)))
    two, four = (
        pool_noise(arms, "a", measure=LOWER, criterion=Criterion(n_comparisons=m))
        for m in (None, 4)
    )
    assert (two.level, four.level) == (1 - 0.05 / 2, 1 - 0.05 / 4)
    assert four.intervals["b"][0] < two.intervals["b"][0] < two.inner_intervals["b"][0]


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
