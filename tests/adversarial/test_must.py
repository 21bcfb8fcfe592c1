"""Manipulation checks that look like checks and are none: asked of the verdict's own arms and
scores, of nothing that is judged, or of a yardstick that nobody measures.
"""

import pytest

from paribus.errors import SpecError

ARMS = """
factor = "architecture.mask"
[arms.plain]
[arms.prefix]
architecture.mask = "prefix"
[arms.window]
architecture.mask = "causal & window(5)"
"""

SLY = [
    # it turns "prefix is worse" into no word: only a gain is ever told
    (
        """must = [{ that = "prefix > plain" }]""",
        """must = [{ that = "prefix > plain", for = ["window"] }]""",
        r"must\.0\.that is 'prefix > plain', and the verdict on 'prefix' against 'plain', which"
        r" hangs on it, is of the same arms and the same scores",
    ),
    (  # the same in percent
        """must = [{ that = "prefix > 100 % of plain", for = ["prefix"] }]""",
        """must = [{ that = "prefix > 90 % of plain", for = ["window"] }]""",
        r"'prefix > 100 % of plain', and the verdict on 'prefix' against 'plain'",
    ),
    (  # a check from which nothing hangs can never fail
        """must = [{ that = "plain > window", for = [["plain", "prefix"]] }]""",
        """must = [{ that = "plain > window", for = [["prefix", "plain"]] }]""",
        r"must\.0\.for has 'plain' against 'prefix', and nothing that is judged has that name",
    ),
    (
        """must = [{ that = "plain > window", for = [] }]""",
        """must = [{ that = "plain > window", for = ["prefix"] }]""",
        r"must\.0\.for is \[\]; name arms, contrasts or pairs",
    ),
    (
        """must = [{ that = "plain > window", for = ["prefix"], on = "halves.valid" }]""",
        """must = [{ that = "plain > window", for = ["prefix"], on = "halves.test" }]""",
        r"must\.0\.on is 'halves\.valid', which is no yardstick of this design",
    ),
]


@pytest.mark.parametrize(("sly", "honest", "said"), SLY)
def test_a_check_that_checks_nothing_is_refused_and_an_honest_one_is_planned(
    plan_design, sly: str, honest: str, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        plan_design(sly + ARMS)
    assert len(plan_design(honest + ARMS).design.must) == 1
