"""What reaches one position is its row of what reaches whom."""

import numpy as np
import pytest

from paribus.masks import SequenceLayout, parse_rule, reachability, sources_of


@pytest.mark.parametrize(
    "names",
    [
        ("causal", "causal"),
        ("full",),
        ("reverse", "causal"),
        ("causal & window(3)", "causal & window(3)", "window(2)"),
        ("prefix", "causal & strided(3)"),
    ],
    ids=" ".join,
)
def test_the_sources_of_a_position_are_its_row_of_reachability(names):
    stack = tuple(map(parse_rule, names))
    layout = SequenceLayout(11, prefix=4)
    rows = [sources_of(stack, layout, position) for position in range(11)]
    assert np.array_equal(np.stack(rows), reachability(stack, layout))
