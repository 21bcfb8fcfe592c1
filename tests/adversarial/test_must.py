"""Manipulation checks that look like checks and are none: asked of the verdict's own arms and
scores under whatever name, of nothing that is judged, or of a yardstick that nobody measures.
"""

import pytest

from paribus.errors import SpecError

OTHERS = """
[base.corpus]
sources = [{ kind = "copy", n_documents = 400, form = "text", min_length = 16, max_length = 20 }]
[[others]]
kind = "halves"
split = "valid"
n_items = 4
max_bytes = 24
[[others]]
kind = "probe"
probe = { kind = "rank", n_texts = 4 }
quantity = "effective rank"
[[others]]
kind = "probe"
probe = { kind = "context", n_texts = 4 }
quantity = "gain of context"
[[others]]
kind = "probe"
probe = { kind = "gradients", n_texts = 4 }
quantity = "gradient norm per target"
""" + "".join(
    [
        f"""
[[others]]
kind = "task"
[others.task]
kind = "generation"
name = "{name}"
language = {{ kind = "{language}", n_documents = 400, min_length = 3, max_length = 4 }}
source = "{{question}}"
references = "{{answer}}"
n_items = 4
"""
        for name, language in (("copied", "copy"), ("sorted", "sort"))
    ]
)
ARMS = f"""
factor = ["architecture.mask", "architecture.dropout"]
comparisons = [["prefix", "plain"]]
{OTHERS}
[arms.plain]
[arms."plain again"]
[arms."nearly plain"]
architecture.dropout = 0.001
[arms.prefix]
architecture.mask = "prefix"
[arms."noisy prefix"]
architecture.mask = "prefix"
architecture.dropout = 0.5
[arms.noisy]
architecture.dropout = 0.5
[arms.window]
architecture.mask = "causal & window(5)"
"""

CROSSES = r"so do those of prefix against plain, which hangs on it, and one outcome of it alone"
NOT_ALIKE = r"which asks of the text that the verdict on prefix against plain is read from"

# what a check may not be, what is said of it, and what is checked instead
SLY = [
    # it turns "prefix is worse" into no word: only a gain is ever told
    ('{ that = "prefix > plain" }', CROSSES, None),
    ('{ that = "prefix > 90 % of plain" }', CROSSES, None),  # the same in percent
    ('{ that = "prefix > plain again" }', CROSSES, None),  # under another name of the run
    ('{ that = "prefix > nearly plain" }', CROSSES, None),  # against a run that comes near
    ('{ that = "prefix > plain", on = "halves.valid" }', CROSSES, None),  # on another split
    ('{ that = "prefix > plain", on = "copied.test" }', CROSSES, None),  # in another form
    ('{ that = "prefix > plain", on = "sorted.test" }', CROSSES, None),  # of any other text
    ('{ that = "prefix > plain", on = "context: gain of context.test" }', CROSSES, None),
    ('{ that = "prefix > plain", on = "gradients: gradient norm per target.test" }', CROSSES, None),
    (  # step by step: what is above something that is above the other is above the other
        '{ that = "prefix > window", on = "sorted.test" },'
        ' { that = "window > plain", on = "sorted.test" }',
        CROSSES,
        None,
    ),
    # of one side alone
    (
        '{ that = "prefix > chance + 0.1" }',
        NOT_ALIKE + ", and this hangs on it; ask the same of plain, ask of other text",
        '{ that = "prefix > chance + 0.1" }, { that = "plain > chance + 0.1" }',
    ),
    (
        '{ that = "prefix > chance + 0.2" }, { that = "plain > chance + 0.1" }',
        NOT_ALIKE,
        None,
    ),
    (
        '{ that = "prefix > chance + 1", on = "copied.test" }',  # its text in another form
        NOT_ALIKE,
        '{ that = "prefix > chance + 1", on = "sorted.test" }',
    ),
    (
        '{ that = "prefix > noisy prefix" }',
        NOT_ALIKE,
        '{ that = "prefix > noisy prefix" }, { that = "plain > noisy" }',
    ),
    ('{ that = "nearly plain > noisy" }', NOT_ALIKE, None),
    (
        '{ that = "plain > plain again", on = "sorted.test" }',
        r"must\.0\.that is 'plain > plain again', and these are one run under two names; name",
        None,
    ),
    (  # a check from which nothing hangs can never fail
        '{ that = "plain > window", for = [["plain", "prefix"]] }',
        r"must\.0\.for has 'plain' against 'prefix', and nothing that is judged has that name",
        '{ that = "prefix > plain", on = "rank: effective rank.test" }',
    ),
    (
        '{ that = "plain > window", for = [] }',
        r"must\.0\.for is \[\]; name arms, contrasts or pairs",
        '{ that = "plain > noisy", on = "sorted.test", for = ["prefix"] }',
    ),
    (
        '{ that = "plain > noisy", on = "pairs.valid" }',
        r"must\.0\.on is 'pairs\.valid', which is no yardstick of this design",
        None,
    ),
]


@pytest.mark.parametrize(("sly", "said", "honest"), SLY)
def test_a_check_that_checks_nothing_is_refused_and_an_honest_one_is_planned(
    plan_design, sly: str, said: str, honest: str | None
) -> None:
    with pytest.raises(SpecError, match=said):
        plan_design(f"must = [{sly}]{ARMS}")
    if honest is not None:
        assert plan_design(f"must = [{honest}]{ARMS}").design.must


FACTORIAL = f"""
baseline = "causal+rotary"
{OTHERS}
[contrasts.gap]
"prefix+rotary" = 1
"prefix+none" = -1
"causal+rotary" = -1
"causal+none" = 1
[factors.mask]
path = "architecture.mask"
levels = ["causal", "prefix"]
[factors.positions]
path = "architecture.positions"
levels = ["rotary", "none"]
"""


def test_checks_do_not_settle_the_sign_of_an_interaction(plan_design) -> None:
    one = '{ that = "prefix+rotary > prefix+none", on = "sorted.test" }'
    like = '{ that = "causal+rotary > causal+none", on = "sorted.test" }'
    against = '{ that = "causal+none > causal+rotary", on = "sorted.test" }'
    assert plan_design(f"must = [{one}, {like}]{FACTORIAL}")
    with pytest.raises(SpecError, match="settle the sign of gap, which hangs on them"):
        plan_design(f"must = [{one}, {against}]{FACTORIAL}")
