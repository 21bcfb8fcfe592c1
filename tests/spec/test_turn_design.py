"""A design of conversations: what is read, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from paribus.errors import SpecError
from paribus.spec.conversation import Conversation
from paribus.spec.turn_design import load_turn_design

TABLE: dict[str, Any] = {
    "question": "What does a turn cost?",
    "baseline": "causal",
    "base": {"preset": "gpt2", "n_layers": 2},
    "arms": {"causal": {}, "prefix": {"architecture": {"mask": "prefix"}}},
    "scales": {"smoke": {"n_turns": 3, "base": {"d_model": 24}}},
}


def test_a_scale_and_changes_are_laid_over_the_rest() -> None:
    design = load_turn_design(TABLE, "smoke", {"n_user": 7, "base.n_layers": 3})
    assert design.conversation == Conversation(3, 7, 64)
    assert design.base == {"preset": "gpt2", "n_layers": 3, "d_model": 24}
    assert load_turn_design(TABLE).conversation == Conversation()


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('question = "?"\nbaseline = "a"\n[base]\npreset = "gpt2"\n[arms.a]\n')
    assert list(load_turn_design(path).arms) == ["a"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"arms": {f"arm {number}": {} for number in range(65)}},
            "arms has 65 arms; use at most 64, or several designs",
        ),
        (
            {"baseline": "casual"},
            "baseline is 'casual', which is not an arm; did you mean 'causal'",
        ),
        ({"base": {"preset": "gpt2", "max_length": 9}}, "base.max_length is given; leave it out"),
        ({"arms": {}}, "arms"),
        ({"arms": {"causal": {}, "a/b": {}}}, "arms.a/b cannot be an arm's name; use up to 80"),
        ({"n_turns": 0}, "n_turns is 0"),
        ({"turns": 3}, "turns is not a key here"),
        ({"arms": {"causal": {"custom": "by mail"}}}, "arms.causal.custom is 'by mail'"),
        ({"scales": 3}, "scales is 3; write tables smoke, laptop, hour, paper"),
        ({"scales": {"week": {}}}, "scales.week is not a key here"),
        ({"scales": {"hour": 3}}, "scales.hour is 3; write a table that is laid over the rest"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        load_turn_design({**TABLE, **changes})


def test_a_scale_that_is_not_there_is_met_with_those_there_are() -> None:
    with pytest.raises(SpecError, match="scale is 'hour'; this design has smoke"):
        load_turn_design(TABLE, "hour")
