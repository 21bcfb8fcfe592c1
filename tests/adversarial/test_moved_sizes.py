"""What a match moves in one arm and not in the other, and what else a budget leaves unequal."""

import json
from pathlib import Path
from typing import Any

import pytest

from paribus.errors import ConfoundError

GATED = """
factor = ["architecture.mask", "architecture.feed_forward.gated"MATCH]
comparisons = [["x", "y"]]
budget = "tokens_read"
[base.architecture]
n_layers = 8
d_model = 32
[arms.plain]
[arms.x]
architecture = { feed_forward.gated = true, mask = "prefix" }
match = { by = "non_embedding_parameters", moves = ["d_ff"], tolerance = 0.02 }
[arms.y]
architecture.feed_forward.gated = true
match = { by = "non_embedding_parameters", moves = MOVES, tolerance = 0.02 }
"""
CONTRAST = GATED.replace('comparisons = [["x", "y"]]', "contrasts.mask = { x = 1, y = -1 }")


def _gated(text: str, moves: str, match: str = "") -> str:
    return text.replace("MOVES", moves).replace("MATCH", match)


@pytest.mark.parametrize("text", [GATED, CONTRAST])
def test_matches_that_move_other_fields_are_a_factor(plan_design: Any, text: str) -> None:
    said = (
        "matches that move other fields, or match by another size, are a factor: x is matched by"
        " non embedding parameters with moves d_ff, and y by .* with moves depth and d_ff; set it"
        " equal, name it in factor"
    )
    with pytest.raises(ConfoundError, match=said):
        plan_design(_gated(text, '["depth", "d_ff"]'))
    with pytest.raises(ConfoundError, match="differs in 2 factors: mask, match"):
        plan_design(_gated(text, '["depth", "d_ff"]', ', "match"'))
    assert plan_design(_gated(text, '["d_ff"]')).judged[0].factors == ("mask",)


def test_a_move_that_an_arm_does_not_need_is_no_factor(plan_design: Any) -> None:
    """What is near enough as written stays so, whatever may move."""
    text = _gated(GATED, '["depth", "d_ff"]').replace("feed_forward.gated = true, mask", "mask")
    text = text.replace("architecture.feed_forward.gated = true\n", "")
    assert plan_design(text).judged[0].factors == ("mask",)


@pytest.mark.parametrize(
    ("moves", "said"), [('["depth", "d_ff"]', "n_layers 6 for 8 by the match"), ('["d_ff"]', None)]
)
def test_what_a_match_moves_stands_beside_the_pair(
    plan_design: Any, moves: str, said: str | None
) -> None:
    text = _gated(GATED, moves).replace('[["x", "y"]]', '[["y", "plain"]]')
    (one,) = [one for one in plan_design(text).judged if one.arm == "y"]
    moved = [detail for detail in one.details if detail.endswith(" by the match")]
    assert all(detail in one.description for detail in moved)
    if said is None:
        assert [detail.split()[0] for detail in moved] == ["feed_forward.d_ff"]
    else:
        assert said in moved


def test_a_short_text_that_is_read_many_times_is_told(plan_design: Any, tmp_path: Path) -> None:
    text = """
    factor = "corpus.sources.0.paths"
    match = "nothing"
    budget = "BUDGET"
    base.training.n_steps = 40
    primary.measure = { kind = "task", task = { name = "copy", kind = "choices", n_items = 60, \
language = { kind = "copy", n_documents = 2000, min_length = 4 } } }
    primary.margin = 2
    [arms.plain]
    corpus.sources = [{ kind = "files", paths = "PATH/long.jsonl" }]
    [arms.other]
    corpus.sources = [{ kind = "files", paths = "PATH/OTHER.jsonl" }]
    """
    for name, first, n_texts in (("long", 0, 4000), ("like", 4000, 4000), ("short", 8000, 400)):
        rows = [
            json.dumps({"text": f"row {first + number:05} of this text"})
            for number in range(n_texts)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    notes = {}
    for other in ("short", "like"):
        own = text.replace("PATH", str(tmp_path)).replace("OTHER", other)
        (one,) = plan_design(own.replace("BUDGET", "bytes_read")).judged
        notes[other] = [note for note in one.notes if "reads its text" in note]
        if other == "short":
            plan = plan_design(own.replace("BUDGET", "tokens_read"))
            (line,) = [line for line in plan.control_lines if line.path == "epochs"]
            assert " × by the length of its text" in line.note
    assert len(notes["short"]) == 1
    assert notes["like"] == []


def test_training_that_takes_more_work_is_told(plan_design: Any) -> None:
    text = """
    factor = "FACTOR"
    budget = "tokens_read"
    [arms.plain]
    [arms.other]
    FACTOR = "causal"
    """
    (one,) = plan_design(text.replace("FACTOR", "objective")).judged
    assert one.notes[-1].endswith(" × the training FLOPs")
    mask = text.replace("FACTOR", "architecture.mask").replace("causal", "prefix")
    assert plan_design(mask).judged[0].notes == ()
