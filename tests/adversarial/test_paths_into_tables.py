"""A factor frees exactly what it names: a path into a table that one arm lacks does not free the
table.
"""

import pytest

from paribus.errors import ConfoundError

ENCODER = """
factor = FACTOR
match = "nothing"
budget = "tokens_read"
[arms.plain]
[arms.other]
architecture.encoder = { n_layers = 2, mask = "causal" }
"""
STAGE = """
factor = FACTOR
budget = "tokens_read"
compound = { other = "the steps are those of both stages" }
[[base.stages]]
kind = "pretrain"
[[base.stages]]
kind = "adapt"
training = { n_steps = 6 }
[arms.plain]
[arms.other]
stages = { 0 = { training = { n_steps = 18 } }, 1 = false }
"""


def test_a_path_into_an_encoder_does_not_free_the_encoder(plan_design) -> None:
    said = (
        r"architecture\.encoder is None in plain, .* architecture\.encoder\.mask is a field of a"
        r" table that plain lacks, so architecture\.encoder would be the honest factor"
    )
    with pytest.raises(ConfoundError, match=said):
        plan_design(ENCODER.replace("FACTOR", '"architecture.encoder.mask"'))
    (one,) = plan_design(ENCODER.replace("FACTOR", '"architecture.encoder"')).judged
    assert one.factors == ("encoder",)


def test_a_path_into_an_encoder_that_both_arms_have_is_a_factor(plan_design) -> None:
    both = ENCODER.replace(
        "[arms.plain]", "[arms.plain]\narchitecture.encoder = { n_layers = 2, mask = 'full' }"
    )
    (one,) = plan_design(both.replace("FACTOR", '"architecture.encoder.mask"')).judged
    assert one.factors == ("encoder.mask",)
    sly = both.replace('n_layers = 2, mask = "causal"', 'n_layers = 3, mask = "causal"')
    with pytest.raises(ConfoundError, match=r"architecture\.encoder\.n_layers is 2 in plain, 3"):
        plan_design(sly.replace("FACTOR", '"architecture.encoder.mask"'))


def test_a_path_into_a_stage_does_not_free_the_stage(plan_design) -> None:
    inside = '["stages.1.objective", "stages.0.training.n_steps"]'
    with pytest.raises(ConfoundError, match=r"so stages\.1 would be the honest factor"):
        plan_design(STAGE.replace("FACTOR", inside))
    plan_design(STAGE.replace("FACTOR", '["stages.1", "stages.0.training.n_steps"]'))


def test_a_path_into_one_kind_does_not_free_the_kind(plan_design) -> None:
    design = """
    factor = "architecture.positions.theta"
    [arms.plain]
    [arms.other]
    architecture.positions = POSITIONS
    """
    with pytest.raises(ConfoundError, match=r"architecture\.positions\.kind is 'rotary' in plain"):
        plan_design(design.replace("POSITIONS", '"none"'))
    plan_design(design.replace("POSITIONS", '{ kind = "rotary", theta = 500.0 }'))


def test_a_level_that_adds_a_table_has_the_table_as_its_factor(plan_design) -> None:
    """Whatever leaves of it the level writes: the encoder is there or is not."""
    plan = plan_design(
        """
        baseline = "without"
        match = "nothing"
        budget = "tokens_read"
        [factors.encoder.levels]
        without = {}
        with = { architecture = { encoder = { n_layers = 2 } } }
        """
    )
    (one,) = plan.judged
    assert one.factors == ("encoder",)
