"""A page of a study with one noise for all arms, or an open number of seeds, says so and what
it comes to.
"""

from html import unescape
from pathlib import Path

import pytest
from handmade_study import GAINS
from sized_study import WIDE_GAINS, make_sized_study

from paribus.analyse import detectable_effect
from paribus.analyse.power import upper_sd
from paribus.report.details import detail_lines
from paribus.report.intervals import describe_gain
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.sensitivity import sensitivity_lines
from paribus.report.trust import TrustCheck, trust_checks

OPEN = "The number of seeds is open: the verdict is read at {}, and may be at any number."


def named(name: str, found: list[TrustCheck]) -> TrustCheck | None:
    return next((one for one in found if one.name == name), None)


def test_every_arms_own_noise_stands_beside_the_pooled_one(tmp_path: Path) -> None:
    material = gather_report_data(make_sized_study(tmp_path, 5, WIDE_GAINS, equal_noise=True))
    pooled = material.findings.pooled_noise
    assert pooled is not None
    told = named("One noise", trust_checks(material))
    assert told is not None
    assert told.mark == "mind"
    assert (
        f"one spread, {pooled.residual_sd:.2g} bits per byte with 16 degrees of freedom"
        in told.text
    )
    assert all(f'{sd:.2g} for "{arm}"' in told.text for arm, sd in pooled.residual_sds.items())
    lines = {line[0]: line[1:] for line in detail_lines(material)}
    assert lines["the arm's own"] == tuple(
        f"{pooled.residual_sds[arm]:.3g}" for arm in WIDE_GAINS if arm != "causal"
    )
    assert set(lines["spread of scores, what it is judged against"]) == {
        f"{pooled.score_sds['causal']:.3g}"
    }
    assert "One noise</b> Declared before the runs" in render_page(material)
    assert "**One noise.** Declared before the runs" in markdown_report(material)
    seeds = named("Seeds", trust_checks(material))
    assert seeds is not None
    units = detectable_effect(5, 4, n_arms=5)
    assert f"an effect of {units:.2g} sd of the paired difference" in seeds.text
    assert (
        f"{units * upper_sd(2**0.5 * pooled.residual_sd, pooled.df + 1):.2g} for all" in seeds.text
    )


def test_a_noise_that_cannot_be_pooled_is_broken_ground(tmp_path: Path) -> None:
    material = gather_report_data(
        make_sized_study(tmp_path, 4, GAINS, failed=[("causal", 1)], equal_noise=True)
    )
    told = named("One noise", trust_checks(material))
    assert told is not None
    assert (told.mark, told.text) == (
        "no",
        "Declared, and not to be had: too few arms trained in every seed.",
    )
    assert '"prefix" against "causal" is unstable' in unescape(render_page(material))
    assert (
        named(
            "One noise", trust_checks(gather_report_data(make_sized_study(tmp_path / "plain", 4)))
        )
        is None
    )


def test_another_comparison_in_mid_schedule_gets_no_word_by_any_noise(tmp_path: Path) -> None:
    study = make_sized_study(tmp_path, 4, equal_noise=True)
    run = next(cell.run for cell in study.read_cells() if (cell.arm, cell.seed) == ("prefix", 1))
    path = tmp_path / run / "rows.jsonl"
    path.write_text(path.read_text().replace('"dense_flops": ', '"dense_flops": 1'))
    said = [
        one.text
        for one in sensitivity_lines(gather_report_data(study))
        if one.by == "training FLOPs" and one.arm == "prefix"
    ]
    assert all(text.startswith("not annealed: ") and text.endswith("; no verdict") for text in said)
    assert said


def test_an_open_number_of_seeds_is_told_first(tmp_path: Path) -> None:
    material = gather_report_data(make_sized_study(tmp_path, 6, seeds="open"))
    head, _, _ = render_page(material).partition('<div class="verdict')
    assert OPEN.format(6) in head
    assert "More seeds are to come" not in head
    assert markdown_report(material).splitlines()[2] == OPEN.format(6)
    assert f"% {OPEN.format(6)[:-1]}" in latex_table(material)
    seeds = named("Seeds", trust_checks(material))
    assert seeds is not None
    assert (seeds.mark, seeds.text.endswith(OPEN.format(6))) == ("yes", True)
    other = named("Other documents", trust_checks(material))
    assert other is not None
    assert other.text.endswith("says nothing of others.")
    assert 'seeds = "open"' in render_page(material).replace("&#34;", '"')


def test_a_page_of_three_seeds_has_no_interval_to_draw(tmp_path: Path) -> None:
    material = gather_report_data(make_sized_study(tmp_path, 3, seeds="open"))
    made = material.findings.arms[0].judgement.comparison
    assert made is not None
    said = "3 paired seeds: too few for an interval at 97.5 % that holds at any number of them"
    assert describe_gain(made).endswith(said)
    assert said in render_page(material)
    seeds = named("Seeds", trust_checks(material))
    assert seeds is not None
    assert seeds.text.startswith("3 seeds of an open number can show no difference, however large")


@pytest.mark.parametrize(("n_seeds", "gains"), [(5, WIDE_GAINS), (6, GAINS)])
def test_an_early_order_is_not_read_off_too_little(
    tmp_path: Path, n_seeds: int, gains: dict[str, float]
) -> None:
    material = gather_report_data(make_sized_study(tmp_path, n_seeds, gains))
    assert "How early the final order shows" not in render_page(material) + markdown_report(
        material
    )
