"""A field that differs and is not declared: the simplest way to compare two things at once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paribus.analyse.control_faults import control_faults
from paribus.design import Plan, plan_record
from paribus.errors import ConfoundError
from paribus.record import Mark

PlanDesign = Callable[[str], Plan]


def test_a_second_field_is_refused_and_one_alone_is_not(plan_design) -> None:
    honest = """
    factor = "architecture.mask"
    [arms.plain]
    [arms.window]
    architecture.mask = "causal & window(5)"
    """
    plan_design(honest)
    with pytest.raises(ConfoundError, match=r"architecture\.dropout is 0\.0 in plain, 0\.1"):
        plan_design(honest + "architecture.dropout = 0.1\n")


TWO_FOLDERS = """
factor = "{factor}"
[base.training]
length = 32
[arms.plain]
corpus.sources = [{{ kind = "files", paths = "{one}", max_document = 200 }}]
[arms.other]
corpus.sources = [{{ kind = "files", paths = "{other}", max_document = {size} }}]
{arm}
"""


def test_one_text_in_two_folders_is_no_difference(plan_design: PlanDesign, tmp_path: Path) -> None:
    places = {"one": tmp_path / "one", "other": tmp_path / "other"}
    text = "\n\n".join(f"{number * 7919 % 9973} words" * 9 for number in range(300))
    for place in places.values():
        place.mkdir()
        (place / "text.txt").write_text(text)
    mask = 'architecture.mask = "prefix"'
    honest = TWO_FOLDERS.format(factor="architecture.mask", size=200, arm=mask, **places)
    plan = plan_design(honest)
    (line,) = [line for line in plan.control_lines if line.path == "corpus.sources"]
    assert (line.mark, line.note) == (Mark.FOLLOWS, "the same text under two names")
    assert [one.description for one in plan.judged] == ["differs in mask"]
    assert control_faults(plan_record(plan)) == ()
    with pytest.raises(ConfoundError, match=r"corpus\.sources is .* but it is not the factor"):
        plan_design(TWO_FOLDERS.format(factor="architecture.mask", size=150, arm=mask, **places))
    (places["other"] / "text.txt").write_text(text.replace("words", "signs"))
    with pytest.raises(ConfoundError, match=r"corpus\.sources is .* but it is not the factor"):
        plan_design(honest)


def test_sources_in_another_order_are_one_factor(plan_design: PlanDesign) -> None:
    copy, sort = [
        f'{{ kind = "{kind}", n_documents = 400, form = "text" }}' for kind in ("copy", "sort")
    ]
    arms = f"""
factor = "corpus.sources"
match = "nothing"
budget = "tokens_read"
primary.measure = {{ kind = "halves", n_items = 9, max_bytes = 30 }}
[arms.plain]
corpus.sources = [{copy}, {sort}]
[arms.other]
corpus.sources = [{sort}, {copy}]
"""
    (judged,) = plan_design(arms).judged
    assert (judged.kind, judged.factors) == ("simple", ("corpus.sources",))
