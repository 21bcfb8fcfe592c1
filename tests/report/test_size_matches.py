"""The methods say by which size arms were matched, also those with a match of their own."""

import pytest
from handmade_study import make_study, rewrite_plan

from paribus.report.report_data import gather_report_data
from paribus.report.size_matches import match_sentences

BY_PARAMETERS = {"by": "parameters", "moves": ["d_ff"], "times": 1.0}


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path)


def said_of(study, match=None, **own):
    """What is said of a design with this match, and with those of some arms."""
    design = study.read_plan()["design"]
    arms = dict(design["arms"])
    for arm, own_match in own.items():
        arms[arm] = {**arms[arm], "match": own_match}
    rewrite_plan(study, design={**design, "match": match, "arms": arms})
    return " ".join(match_sentences(gather_report_data(study)))


def test_one_match_is_said_of_all_arms(study):
    assert said_of(study, BY_PARAMETERS) == "Arms are matched by parameters."
    flops = {"by": "training_flops", "moves": ["d_ff"]}
    assert said_of(study, flops) == "Arms are matched by training FLOPs."


def test_nothing_is_said_where_nothing_is_matched(study):
    assert said_of(study) == ""
    assert said_of(study, {"by": "nothing", "moves": []}) == ""


def test_an_arm_with_another_match_is_named_with_it(study):
    own = {"by": "training_flops", "moves": ["d_ff"]}
    assert said_of(study, BY_PARAMETERS, prefix=own) == (
        'Arms are matched by parameters; "prefix" is matched by training FLOPs.'
    )


def test_an_arm_that_repeats_the_match_of_all_is_not_named(study):
    assert said_of(study, BY_PARAMETERS, prefix=BY_PARAMETERS) == "Arms are matched by parameters."


def test_an_arm_may_be_a_multiple_of_the_baseline_or_be_left_as_it_is(study):
    own = {"prefix": {"by": "parameters", "times": 2.0}, "input hidden": "nothing"}
    assert said_of(study, BY_PARAMETERS, **own) == (
        'Arms are matched by parameters; "prefix" is matched by parameters, to 2 times those of'
        ' the baseline; "input hidden" is not matched.'
    )


def test_a_level_of_a_factor_may_have_a_match_of_its_own(study):
    plan = study.read_plan()
    levels = {"narrow": {}, "wide": {"match": {"by": "active_parameters"}}}
    arms = dict(plan["arms"])
    arms["causal"] = {**arms["causal"], "levels": {"width": "narrow"}}
    arms["prefix"] = {**arms["prefix"], "levels": {"width": "wide"}}
    design = {**plan["design"], "match": BY_PARAMETERS, "factors": {"width": {"levels": levels}}}
    rewrite_plan(study, design=design, arms=arms)
    (said,) = match_sentences(gather_report_data(study))
    assert said.endswith('; "prefix" is matched by active parameters.')
