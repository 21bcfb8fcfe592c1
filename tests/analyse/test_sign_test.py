"""T26: an open number of seeds, looked at from 3 to 50, and the sign test that stands beside."""

from math import log, prod
from pathlib import Path

import numpy as np
import pytest
from noise_draws import N_DRAWS, NoiseDraw, heavy_tailed, normal, skewed
from sized_study import make_sized_study

from paribus.analyse import always_valid_t, compare
from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import moments
from paribus.analyse.sign_test import NOT_CONFIRMED, TOO_FEW_SEEDS, log_e_value, sign_test
from paribus.report.details import detail_lines
from paribus.report.markdown import markdown_report
from paribus.report.report_data import gather_report_data
from paribus.report.trust import trust_checks

LOOKS = range(3, 51)
ALPHA = 0.05


def false_words(arm: NoiseDraw, baseline: NoiseDraw, scale: float = 1.0) -> tuple[float, float]:
    """How often an arm without an effect is ever called better or worse, and how often the
    signs are silent then.
    """
    rng = np.random.default_rng(261)
    gains = scale * arm(rng, (N_DRAWS, max(LOOKS))) - baseline(rng, (N_DRAWS, max(LOOKS)))
    false = np.zeros(gains.shape, dtype=bool)
    for n in LOOKS:
        found = moments(gains[:, :n])
        false[:, n - 1] = np.abs(found.mean / found.standard_error) > always_valid_t(n, ALPHA)
    said = false.any(axis=1)
    first = false[said].argmax(axis=1) + 1
    signs = [
        sign_test(own[:n], ALPHA)
        for own, n in zip(gains[said].tolist(), first.tolist(), strict=True)
    ]
    silent = [one is None or not one.rejects for one in signs]
    return 100 * float(said.mean()), 100 * float(np.mean(silent))


@pytest.mark.parametrize(("draw", "most"), [(normal, 5), (heavy_tailed, 5)])
def test_symmetric_noise_says_something_false_in_few_open_studies(
    draw: NoiseDraw, most: float
) -> None:
    assert 0.5 <= false_words(draw, draw)[0] <= most


@pytest.mark.parametrize(("scale", "least", "most"), [(3, 8, 15), (10, 17, 25)])
def test_one_skewed_arm_says_more_and_the_signs_are_mostly_silent(
    scale: float, least: float, most: float
) -> None:
    false, silent = false_words(skewed, normal, scale)
    assert least <= false <= most
    assert silent > 50


def test_the_largest_evidence_seldom_reaches_its_bound_where_the_median_is_zero() -> None:
    signs = np.random.default_rng(263).random((N_DRAWS, 50)) < 0.5
    n = np.arange(1, 51)
    evidence = log_e_value(np.cumsum(signs, axis=1), n[None, :])
    assert 0.01 <= (evidence.max(axis=1) >= log(1 / ALPHA)).mean() <= 0.064


def test_the_evidence_by_hand() -> None:
    found = sign_test([0.1] * 8, ALPHA)
    assert found is not None
    assert (
        found.e_value
        == found.max_e_value
        == pytest.approx(2**8 * prod((2 * i - 1) / (2 * i) for i in range(1, 9)))
    )
    assert (found.rejects, found.favours_gain, found.n_gains, found.threshold) == (
        True,
        True,
        8,
        20,
    )
    later = sign_test([0.1] * 8 + [-0.1] * 4, ALPHA)
    assert later is not None
    assert later.e_value < 20 < later.max_e_value == found.max_e_value
    assert later.rejects
    mixed = sign_test([0.1, -0.1] * 4, ALPHA)
    assert mixed is not None
    assert not mixed.rejects
    assert sign_test([0.1] * 7, ALPHA) is None


def test_a_seed_without_a_difference_has_no_sign() -> None:
    found = sign_test([0.1] * 8 + [0.0] * 2, ALPHA)
    assert found is not None
    assert found.e_value == pytest.approx(2**8 * prod((2 * i - 1) / (2 * i) for i in range(1, 9)))
    none = sign_test([0.0] * 9, ALPHA)
    assert none is not None
    assert (none.e_value, none.rejects) == (1.0, False)


def test_a_word_that_the_signs_do_not_confirm_rests_on_symmetric_noise() -> None:
    few = compare([1.0, 1.1, 0.9, 1.05, 0.95, 1.02], Criterion(open_ended=True))
    assert few.verdict.word == "better"
    assert TOO_FEW_SEEDS in few.remarks
    same_sign = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.97, 1.01]
    assert (
        compare(same_sign, Criterion(open_ended=True)).remarks
        == compare(same_sign, Criterion(open_ended=True)).remarks[:1]
    )
    spread = [3.0, 2.5, 2.8, -0.3, 2.2, -0.2, 2.6, 2.4, -0.1, 2.7, 2.9, 2.3, -0.2, 2.5]
    silent = compare(spread, Criterion(open_ended=True))
    assert silent.verdict.word == "better"
    assert NOT_CONFIRMED in silent.remarks
    assert NOT_CONFIRMED in silent.description


def test_fixed_numbers_of_seeds_have_no_sign_test() -> None:
    made = compare([1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.97, 1.01])
    assert made.sign_test is None
    assert not any("symmetric" in remark for remark in made.remarks)


def test_the_report_of_an_open_number_says_what_it_rests_on(tmp_path: Path) -> None:
    material = gather_report_data(make_sized_study(tmp_path / "few", 5, seeds="open"))
    told = next(one for one in trust_checks(material) if one.name == "Shape of the noise")
    assert told.mark == "mind"
    assert "hold for symmetric noise" in told.text
    assert told.text.endswith("A sign test on the median stands beside from 8 seeds on.")
    assert (
        "It rests on symmetric noise: a sign test, which does not, is read from 8 seeds on."
        in markdown_report(material)
    )
    assert "rests on symmetric noise" in material.findings.arms[-1].judgement.description
    many = gather_report_data(make_sized_study(tmp_path / "many", 9, seeds="open"))
    told = next(one for one in trust_checks(many) if one.name == "Shape of the noise")
    assert "input hidden, speaks for a loss in the median: e " in told.text
    assert any(line[0] == "sign test, on the median" for line in detail_lines(many))
    assert "Shape of the noise" in markdown_report(many)
    fixed = gather_report_data(make_sized_study(tmp_path / "fixed", 5))
    assert not any(one.name == "Shape of the noise" for one in trust_checks(fixed))
