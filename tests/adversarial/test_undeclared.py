"""A field that differs and is not declared: the simplest way to compare two things at once."""

import pytest

from paribus.errors import ConfoundError


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
