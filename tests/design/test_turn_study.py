"""The design of conversations that comes with paribus, and arms of equal size."""

import dataclasses
import json

import pytest

from paribus.design.design_files import CONVERSATIONS, designs_folder, find_design, shipped_designs
from paribus.design.turn_arms import conversation_arms, design_arms, find_turn_design
from paribus.design.turn_study import TurnQuestion, TurnTiming, study_turns
from paribus.errors import SpecError
from paribus.record.turn_study import TurnStudy, turn_rows, turn_study_json
from paribus.report.turn_page import PlotFile, turn_page
from paribus.spec import load, resolve
from paribus.spec.conversation import CUSTOMS
from paribus.spec.match import Match
from paribus.spec.price import count_parameters


def shipped_study(timing: TurnTiming | None = None) -> TurnStudy:
    design = find_turn_design("turns", "smoke")
    question = TurnQuestion(design.question, design.conversation, design.match.by)
    return study_turns(design_arms(design), question, timing)


@pytest.fixture(scope="module")
def study() -> TurnStudy:
    return shipped_study(TurnTiming(n_repeats=2, device="cpu"))


def test_a_design_of_conversations_trains_nothing() -> None:
    assert not set(CONVERSATIONS) & set(shipped_designs())
    assert all((designs_folder() / f"{name}.toml").is_file() for name in CONVERSATIONS)
    with pytest.raises(SpecError, match="turns is a design of conversations, which trains nothing"):
        find_design("turns")
    with pytest.raises(SpecError, match="positions is neither a design of conversations nor a"):
        find_turn_design("positions")


@pytest.mark.parametrize("scale", [None, "laptop", "smoke"])
def test_arms_have_the_parameters_of_the_baseline(scale: str | None) -> None:
    design = find_turn_design("turns", scale)
    arms = design_arms(design)
    assert arms[0].name == design.baseline == "causal"
    assert {arm.custom for arm in arms} == set(CUSTOMS)
    sizes = [count_parameters(resolve(arm.architecture)).total for arm in arms]
    assert max(sizes) / min(sizes) < 1 + 2 * design.match.tolerance
    assert {arm.architecture.max_length for arm in arms} == {design.conversation.length}


def test_what_is_measured_is_what_was_counted(study: TurnStudy) -> None:
    assert study.is_measured
    for arm in study.arms:
        for turn in arm.turns:
            assert turn.measured is not None
            assert turn.measured.n_read == turn.n_read
            assert turn.measured.n_read_again == turn.n_read_again
            assert turn.measured.cache_bytes == turn.cache_bytes
            assert len(turn.measured.first_token_seconds) == study.n_repeats == 2
            assert min(turn.measured.first_token_seconds) > 0


def test_a_study_is_written_as_json_and_as_rows(study: TurnStudy) -> None:
    table = json.loads(json.dumps(turn_study_json(study)))
    assert table["format"] == 1
    assert [arm["name"] for arm in table["arms"]] == [arm.name for arm in study.arms]
    rows = turn_rows(study)
    assert len(rows) == len(study.arms) * study.n_turns
    assert rows[0]["measured_n_read"] == rows[0]["n_read"] == study.n_user
    assert "first_token_seconds_2" in rows[0]


def test_the_page_says_who_pays_more_and_from_when(study: TurnStudy) -> None:
    counted = dataclasses.replace(study, arms=tuple(map(without_times, study.arms)))
    page = turn_page(counted, [PlotFile("flops.svg", "FLOPs", "Counted.")])
    assert "![FLOPs](flops.svg)" in page
    assert (
        "- encoder-decoder, encode conversation against causal: less in turn 1 and more from turn"
        " 2 on by count. Cache: less in every turn." in page
    )
    assert "- prefix-LM, growing prefix against causal: more in every turn by count." in page
    assert "Counted; nothing was measured." in page
    assert "by the clock" in turn_page(study, [])
    assert "Measured on cpu, float32" in turn_page(study, [])


def without_times(arm):
    turns = [dataclasses.replace(turn, measured=None) for turn in arm.turns]
    return dataclasses.replace(arm, turns=tuple(turns))


def test_architectures_are_matched_where_it_is_asked() -> None:
    sizes = {"n_vocab": 31, "d_model": 32, "n_layers": 4, "max_length": 27}
    named = {
        "gpt2": load("gpt2", **sizes, n_heads=2),
        "t5": load("t5", **sizes, n_heads=2, d_head=16, changes={"encoder.n_layers": 4}),
    }
    conversation = find_turn_design("turns", "smoke").conversation
    match = Match(by="parameters", moves=("depth", "d_ff"), tolerance=0.05)
    arms = conversation_arms(named, conversation, match)
    assert [arm.label for arm in arms] == [
        "gpt2",
        "t5, encode conversation",
        "t5, encode each turn",
    ]
    assert arms[1].moved_fields == arms[2].moved_fields != {}


def test_a_custom_that_an_arm_cannot_have_is_refused() -> None:
    design = find_turn_design("turns", "smoke", {"arms.causal.custom": "growing prefix"})
    with pytest.raises(SpecError, match=r"arms\.causal\.custom is 'growing prefix', but it holds"):
        design_arms(design)
    one = find_turn_design("turns", "smoke", {"arms.prefix-LM.custom": "growing prefix"})
    labels = [arm.label for arm in design_arms(one)]
    assert "prefix-LM, growing prefix" in labels
    assert "prefix-LM, first prompt as prefix" not in labels


def test_a_precision_that_there_is_not_is_refused() -> None:
    with pytest.raises(SpecError, match="dtype is 'int3'; use float32, bfloat16, float16"):
        TurnTiming(dtype="int3")
    with pytest.raises(SpecError, match="n_repeats is 0; use 1 or more"):
        shipped_study(TurnTiming(n_repeats=0, device="cpu"))
