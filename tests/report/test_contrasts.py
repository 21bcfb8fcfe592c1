"""The interaction of a factorial stands first in every format, or the reason why it cannot be
given.
"""

import base64
import io
import re
from pathlib import Path

import pytest
from factorial_study import INTERACTION, MAIN_EFFECTS, OPPOSITE_GAINS, make_factorial_study
from handmade_study import MANY_ARMS, make_study
from rich.console import Console

from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.report.contrasts import contrast_texts, undeclared_interaction
from paribus.report.csv_tables import to_csv, verdict_rows
from paribus.report.latex import latex_table
from paribus.report.limits import limitations
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.trust import trust_checks


def printed(material: ReportData) -> str:
    console = Console(file=io.StringIO(), width=10_000)
    print_verdicts(material, console)
    return console.file.getvalue()


def formats(material: ReportData) -> dict[str, str]:
    html = render_page(material).partition("<main>")[2].partition("<script")[0]
    return {
        "page": html,
        "terminal": printed(material),
        "md": markdown_report(material),
        "tex": latex_table(material),
        "csv": to_csv(verdict_rows(material)),
    }


def test_the_interaction_of_a_two_by_two_stands_before_every_pair(tmp_path: Path) -> None:
    material = gather_report_data(make_factorial_study(tmp_path))
    one, *others = contrast_texts(material)
    assert [(other.name, other.word) for other in others] == [(name, "") for name in MAIN_EFFECTS]
    assert (one.name, one.word) == (INTERACTION, "")
    assert one.headline == "Interaction of mask and reach, shown without a verdict"
    assert "98.33 % interval +0.2" in one.numbers
    assert one.meaning.startswith(
        "Above zero: mask from causal to prefix gains more at reach far than at reach near."
    )
    assert one.meaning.endswith(
        'The design does not declare it, so it gets no verdict; contrasts = "default" would, before'
        " the first run."
    )
    for name, text in formats(material).items():
        low = text.casefold()
        assert INTERACTION in low, name
        low = low.partition("\n")[2] if name == "csv" else low  # without the header
        assert low.index(INTERACTION) < low.index("prefix"), name
    assert len(re.findall(r"Interaction of mask and reach", printed(material))) == 1


def test_declared_contrasts_have_words_in_every_format(tmp_path: Path) -> None:
    material = gather_report_data(make_factorial_study(tmp_path, contrasts="default"))
    assert [one.word for one in contrast_texts(material)] == ["better"] * 3
    first = contrast_texts(material)[0]
    assert first.headline == "Interaction of mask and reach is above zero, by more than the margin"
    told = formats(material)
    for name in (INTERACTION, *MAIN_EFFECTS):
        assert all(
            name in text or f"{name[0].upper()}{name[1:]}" in text for text in told.values()
        ), name
    assert f"{INTERACTION} & -- & +0.251 & " in told["tex"]
    seeds = next(one for one in trust_checks(material) if one.name == "Seeds")
    assert "in a family of 6 comparisons" in seeds.text


@pytest.mark.parametrize("contrasts", [None, "default"])
def test_a_failed_cell_is_named_where_the_interaction_would_stand(
    tmp_path: Path, contrasts: str | None
) -> None:
    material = gather_report_data(
        make_factorial_study(tmp_path, failed=(("prefix+far", 2),), contrasts=contrasts)
    )
    said = "cannot be given: prefix+far did not train in 1 of 4 seeds"
    for name, text in formats(material).items():
        assert (
            f"nteraction of mask and reach {said}" in text
            or f"{INTERACTION} & -- & -- & -- & {said}" in text
        ), name


def test_simple_effects_are_given_without_a_word(tmp_path: Path) -> None:
    material = gather_report_data(
        make_factorial_study(tmp_path, gains=OPPOSITE_GAINS, contrasts="default")
    )
    turned = next(one for one in contrast_texts(material) if one.name == MAIN_EFFECTS[1])
    assert turned.headline.startswith("Reach from near to far cannot be given: it turns with mask")
    assert "At mask causal: gain −0.0" in turned.meaning
    assert turned.meaning.endswith("Simple effects get no verdict.")


def test_a_written_contrast_is_told_with_its_weights(tmp_path: Path) -> None:
    study = make_study(tmp_path, gains=MANY_ARMS)
    plan = study.read_plan()
    plan["design"]["contrasts"] = {
        "far sight": {"long-window+near": 1.0, "prefix": -0.5, "causal": -0.5}
    }
    study.write_plan(plan)
    material = gather_report_data(study)
    (one,) = contrast_texts(material)
    assert (
        one.meaning
        == 'It is 1 × "long-window+near" − 0.5 × "causal" − 0.5 × "prefix", in gains: above zero is'
        " better."
    )
    assert "far sight" in printed(material).splitlines()[0].casefold()


def test_the_page_carries_the_verdicts_as_a_table_to_download(tmp_path: Path) -> None:
    text = render_page(gather_report_data(make_factorial_study(tmp_path)))
    found = re.search(r'href="data:text/csv;base64,([^"]+)" download="small-verdicts.csv"', text)
    assert found is not None
    assert INTERACTION in base64.b64decode(found[1]).decode()


def test_a_factorial_of_more_levels_without_contrasts_says_what_was_not_asked(
    tmp_path: Path,
) -> None:
    study = make_study(tmp_path, gains=MANY_ARMS)
    assert undeclared_interaction(gather_report_data(study)) == ""
    plan = study.read_plan()
    for place, arm in enumerate(plan["order"]):
        plan["arms"][arm]["levels"] = {"mask": str(place), "positions": "one"}
    study.write_plan(plan)
    said = (
        "Whether mask and positions act on each other: the design declares no contrast that asks."
    )
    assert said in limitations(gather_report_data(study))
