"""A match as it is written: short forms, and what it may not say."""

import pytest
from pydantic import ValidationError

from paribus.spec.match import Match, match_lengths
from paribus.spec.reading import describe_faults


def problems(**table):
    with pytest.raises(ValidationError) as caught:
        Match.model_validate(table)
    return list(describe_faults(caught.value, table, Match))


def test_one_move_alone_is_short_for_a_list_of_it():
    alone, listed = (
        Match.model_validate({"by": "parameters", "moves": moves}) for moves in ("depth", ["depth"])
    )
    assert alone == listed
    assert alone.moves == ("depth",)
    assert Match(by="parameters", moves=("depth", "d_ff")).moves == ("depth", "d_ff")


def test_half_a_per_cent_of_the_baseline_is_near_enough_unless_told():
    match = Match(by="parameters", moves=("depth",))
    assert (match.tolerance, match.times) == (0.005, 1.0)


def test_input_and_target_share_the_training_length_unless_told():
    match = Match(by="training_flops", moves=("depth",))
    assert match_lengths(match, 11) == (5, 6)
    assert match_lengths(match.model_copy(update={"n_input": 7}), 11) == (7, 6)
    assert match_lengths(match.model_copy(update={"n_input": 7, "n_target": 3}), 11) == (7, 3)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            {"by": "parameters"},
            "moves is empty, but by is 'parameters'; say which of depth, width, d_ff may move",
        ),
        (
            {"by": "nothing", "moves": ["depth", "d_ff"]},
            "moves is depth, d_ff, but by is 'nothing'; leave it out, or say what is made equal",
        ),
        (
            {"by": "nothing", "times": 2.0},
            "times is 2.0, but by is 'nothing'; leave it out, or say what is made equal",
        ),
        (
            {"by": "parameters", "moves": ["depth", "depth"]},
            "moves is depth, depth; name each once",
        ),
        (
            {"by": "active_parameters", "moves": "d_ff", "n_target": 7},
            (
                "n_target is 7, but by is 'active_parameters', which has no length; leave it out,"
                " or match FLOPs"
            ),
        ),
        (
            {"by": "nothing", "n_input": 7},
            "n_input is 7, but by is 'nothing', which has no length; leave it out, or match FLOPs",
        ),
        (
            {"by": "parameters", "moves": "deep"},
            "moves is 'deep'; did you mean 'depth'? use 'depth', 'width' or 'd_ff'",
        ),
        (
            {"by": "train_flops", "moves": "d_ff", "n_input": 7},
            (
                "by is 'train_flops'; did you mean 'training_flops'? use 'nothing', 'parameters',"
                " 'non_embedding_parameters', 'active_parameters', 'training_flops' or"
                " 'inference_flops'"
            ),
        ),
        (
            {"by": "parameters", "moves": "d_ff", "tolerance": 1.0},
            "tolerance is 1.0 (float); use less than 1",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(table, problem):
    assert problems(**table) == [problem]


def test_nothing_may_be_made_equal():
    assert Match(by="nothing").moves == ()
