"""The interaction of a factorial stands first in every format, or the reason why it cannot be given."""

import base64
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from crossed_study import INTERACTION, MAIN, TURNED, crossed
from paribus.cli.terminal.verdicts import print_verdicts
from paribus.report.contrasts import contrasts, undeclared
from paribus.report.limits import limits
from paribus.report.material import Material, gathered
from paribus.report.page import page
from paribus.report.prose import latex, markdown
from paribus.report.rows import comma_separated, verdict_rows
from paribus.report.trust import grounds
from small_study import MANY, made


def printed(material: Material) -> str:
    console = Console(file=io.StringIO(), width=10_000)
    print_verdicts(material, console)
    return console.file.getvalue()


def formats(material: Material) -> dict[str, str]:
    html = page(material).partition("<main>")[2].partition("<script")[0]
    return {
        "page": html, "terminal": printed(material), "md": markdown(material), "tex": latex(material),
        "csv": comma_separated(verdict_rows(material)),
    }  # fmt: skip


def test_the_interaction_of_a_two_by_two_stands_before_every_pair(tmp_path: Path) -> None:
    material = gathered(crossed(tmp_path))
    one, *others = contrasts(material)
    assert [(other.name, other.word) for other in others] == [(name, "") for name in MAIN]
    assert (one.name, one.word) == (INTERACTION, "")
    assert one.headline == "Interaction of mask and reach, shown without a verdict"
    assert "98.33 % interval +0.2" in one.numbers
    assert one.meaning.startswith("Above zero: mask from causal to prefix gains more at reach far than at reach near.")
    assert one.meaning.endswith(
        'The design does not declare it, so it gets no verdict; contrasts = "default" would, before the first run.'
    )
    for name, text in formats(material).items():
        low = text.casefold()
        assert INTERACTION in low, name
        low = low.partition("\n")[2] if name == "csv" else low  # without the header
        assert low.index(INTERACTION) < low.index("prefix"), name
    assert len(re.findall(r"Interaction of mask and reach", printed(material))) == 1


def test_declared_contrasts_have_words_in_every_format(tmp_path: Path) -> None:
    material = gathered(crossed(tmp_path, contrasts="default"))
    assert [one.word for one in contrasts(material)] == ["better"] * 3
    first = contrasts(material)[0]
    assert first.headline == "Interaction of mask and reach is above zero, by more than the margin"
    told = formats(material)
    for name in (INTERACTION, *MAIN):
        assert all(name in text or f"{name[0].upper()}{name[1:]}" in text for text in told.values()), name
    assert f"{INTERACTION} & -- & +0.251 & " in told["tex"]
    seeds = next(one for one in grounds(material) if one.name == "Seeds")
    assert "in a family of 6 comparisons" in seeds.text


@pytest.mark.parametrize("contrasts", [None, "default"])
def test_a_failed_cell_is_named_where_the_interaction_would_stand(tmp_path: Path, contrasts: str | None) -> None:
    material = gathered(crossed(tmp_path, failed=(("prefix+far", 2),), contrasts=contrasts))
    said = "cannot be given: prefix+far did not train in 1 of 4 seeds"
    for name, text in formats(material).items():
        assert f"nteraction of mask and reach {said}" in text or f"{INTERACTION} & -- & -- & -- & {said}" in text, name


def test_simple_effects_are_given_without_a_word(tmp_path: Path) -> None:
    material = gathered(crossed(tmp_path, gains=TURNED, contrasts="default"))
    turned = next(one for one in contrasts(material) if one.name == MAIN[1])
    assert turned.headline.startswith("Reach from near to far cannot be given: it turns with mask")
    assert "At mask causal: gain −0.0" in turned.meaning
    assert turned.meaning.endswith("Simple effects get no verdict.")


def test_a_written_contrast_is_told_with_its_weights(tmp_path: Path) -> None:
    study = made(tmp_path, gains=MANY)
    plan = study.plan()
    plan["design"]["contrasts"] = {"far sight": {"long-window+near": 1.0, "prefix": -0.5, "causal": -0.5}}
    study.write_plan(plan)
    material = gathered(study)
    (one,) = contrasts(material)
    assert one.meaning == ("It is 1 × long-window+near − 0.5 × causal − 0.5 × prefix, in gains: above zero is better.")
    assert "far sight" in printed(material).splitlines()[0].casefold()


def test_the_page_carries_the_verdicts_as_a_table_to_download(tmp_path: Path) -> None:
    text = page(gathered(crossed(tmp_path)))
    found = re.search(r'href="data:text/csv;base64,([^"]+)" download="small-verdicts.csv"', text)
    assert found is not None
    assert INTERACTION in base64.b64decode(found[1]).decode()


def test_a_factorial_of_more_levels_without_contrasts_says_what_was_not_asked(tmp_path: Path) -> None:
    study = made(tmp_path, gains=MANY)
    assert undeclared(gathered(study)) == ""
    plan = study.plan()
    for place, arm in enumerate(plan["order"]):
        plan["arms"][arm]["levels"] = {"mask": str(place), "positions": "one"}
    study.write_plan(plan)
    said = "Whether mask and positions act on each other: the design declares no contrast that asks."
    assert said in limits(gathered(study))
