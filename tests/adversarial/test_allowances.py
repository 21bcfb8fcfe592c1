"""What `allow` lets pass is named beside each comparison, field by field and with a reason.

And four ways to say something that then counts for nothing: two levels that are equal, a number of
times the size that is nearly one, a baseline of twice its own size, a control that is the baseline.
"""

import re

import pytest

from paribus.cli.terminal.console import console
from paribus.cli.terminal.plan_tables import print_judged
from paribus.errors import ConfoundError, SpecError
from paribus.escapes import on_one_line

DESIGN = """
factor = ["architecture.mask"]
match = "nothing"
budget = "tokens_read"
allow = {}
[arms.plain]
[arms.other]
architecture.mask = "causal & window(5)"
architecture.dropout = 0.9
"""


def test_what_is_allowed_is_named_beside_the_pair(plan_design) -> None:
    allowed = DESIGN.format('{ "architecture.dropout" = "the paper has it so" }')
    (one,) = plan_design(allowed).judged
    assert one.allowed == ("dropout",)
    assert one.description == "differs in mask; and, allowed: dropout"
    assert one.mark == "and, allowed: dropout"
    without = DESIGN.format("{}").replace("architecture.dropout = 0.9\n", "")
    (one,) = plan_design(without).judged
    assert (one.allowed, one.mark) == ((), "")


def test_what_a_budget_leaves_unequal_is_named_too(plan_design) -> None:
    longer = """
    factor = "stages.1"
    allow = { tokens_read = "what the stage adds is asked" }
    [[base.stages]]
    kind = "pretrain"
    [[base.stages]]
    kind = "adapt"
    objective = "causal"
    [arms.plain]
    stages.1 = false
    [arms.other]
    """
    (one,) = plan_design(longer).judged
    assert one.description == (
        "differs in stages.1; and, allowed: tokens_read in all; reads 2 × the bytes of text; is"
        " scored on 2.94 × the tokens; takes 2.26 × the training FLOPs; is asked as causal (50 % of"
        " its training), plain as prefix"
    )


@pytest.mark.parametrize("table", ["architecture", "training"])
def test_a_whole_table_cannot_be_allowed(plan_design, table: str) -> None:
    said = f"allow has '{table}', a whole table; name the fields inside that may differ: {table}."
    with pytest.raises(SpecError, match=re.escape(said)):
        plan_design(DESIGN.format(f'{{ {table} = "the paper has it so" }}') + "training.warmup = 3")


@pytest.mark.parametrize(
    "reason",
    [
        "x",
        ".",
        "why not",
        "so be it",
        "…………………………",
        "fine\u200b\u200b\u200b\u200b\u200b\u200b\u200b",
        "1 2 3 4 5 6 7 8",
        "ääääääääääää",
    ],
)
@pytest.mark.parametrize("field", ["allow", "compound"])
def test_a_reason_says_why(plan_design, field: str, reason: str) -> None:
    if field == "allow":
        design = DESIGN.format(f'{{ "architecture.dropout" = "{reason}" }}')
    else:
        design = f'compound = {{ other = "{reason}" }}\n' + DESIGN.format("{}").replace(
            'factor = ["architecture.mask"]',
            'factor = ["architecture.mask", "architecture.dropout"]',
        )
    with pytest.raises(SpecError, match="which is no reason; say why in 3 words or more"):
        plan_design(design)
    plan_design(design.replace(f'"{reason}"', '"as in the paper"'))
    plan_design(design.replace(f'"{reason}"', '"两个因素在论文中是一起使用的"'))


@pytest.mark.parametrize("levels", ["0.1", "0.0"])
def test_two_equal_levels_are_no_factor(plan_design, levels: str) -> None:
    design = f"""
    baseline = "causal+low"
    match = "nothing"
    [factors.mask]
    path = "architecture.mask"
    levels = ["causal", "prefix"]
    [factors.dropout.levels]
    low = {{ architecture = {{ dropout = 0.0 }} }}
    high = {{ architecture = {{ dropout = {levels} }} }}
    """
    if levels == "0.1":
        assert len(plan_design(design).arms) == 4
        return
    said = "factors.dropout: the levels 'low' and 'high' are equal: their arms are the same runs"
    with pytest.raises(SpecError, match=said):
        plan_design(design)


TIMES = """
factor = {}
match = {{ by = "non_embedding_parameters", moves = "d_ff" }}
budget = "tokens_read"
[arms.plain]
{}
[arms.other]
architecture.positions = "none"
{}
"""
OWN = 'match = {{ by = "non_embedding_parameters", moves = "d_ff", times = {} }}'


def test_a_number_of_times_that_is_nearly_one_is_a_size_on_purpose(plan_design) -> None:
    nearly = TIMES.format('["architecture.positions"]', "", OWN.format(1.019))
    with pytest.raises(ConfoundError, match="sizes that are unequal on purpose are a factor"):
        plan_design(nearly)
    (one,) = plan_design(TIMES.format('["architecture.positions"]', "", "")).judged
    assert one.factors == ("positions",)


def test_the_baseline_is_not_of_several_times_its_own_size(plan_design) -> None:
    design = TIMES.format('["architecture.positions", "match"]', OWN.format(2), "")
    said = r"match\.times is 2, but this is the baseline, to whose size the others are brought"
    with pytest.raises(SpecError, match=said):
        plan_design(design)
    plan_design(TIMES.format('["architecture.positions"]', OWN.format(1), ""))


def test_a_control_that_is_the_baseline_shows_nothing(plan_design) -> None:
    design = """
    factor = "architecture.mask"
    control = "same"
    [arms.plain]
    [arms.window]
    architecture.mask = "causal & window(5)"
    [arms.same]
    architecture.mask = "{}"
    """
    said = "control is 'same', which is the same run as the baseline 'plain', so it cannot come out"
    with pytest.raises(SpecError, match=said):
        plan_design(design.format("causal"))
    with pytest.raises(SpecError, match="control is 'same', which is the same run as 'window'"):
        plan_design(design.format("causal & window(5)"))
    (one,) = plan_design(design.format("causal & same_side")).judged
    assert one.arm == "window"


def test_an_allowed_table_is_let_pass_as_it_comes_and_no_further(plan_design) -> None:
    reasons = '"architecture.encoder" = "as in the paper", "cut contexts" = "as in the paper"'
    text = DESIGN.format(f"{{ {reasons} }}")
    text = text.replace("architecture.dropout = 0.9", "architecture.encoder = {}")
    (one,) = plan_design(text).judged
    assert (one.factors, "encoder" in one.allowed) == (("mask",), True)
    with pytest.raises(ConfoundError, match=r"2 factors: mask, encoder\.shared;"):
        plan_design(text.replace("encoder = {}", "encoder = { shared = true }"))


def test_a_field_that_counts_beside_a_kind_can_be_allowed(plan_design) -> None:
    text = """
    factor = "architecture.mask"
    match = "nothing"
    allow = { %s }
    [base]
    architecture.positions = "alibi"
    [arms.plain]
    [arms.other]
    architecture = { mask = "causal & window(5)", positions = { kind = "rotary", theta = 3.0 } }
    """
    kind = '"architecture.positions.kind" = "the paper has it so"'
    with pytest.raises(ConfoundError, match=r"2 factors: mask, positions\.theta;"):
        plan_design(text % kind)
    plan = plan_design(text % f'{kind}, "architecture.positions.theta" = "the paper has it so"')
    assert plan.judged[0].allowed == ("positions", "positions.theta")
    assert plan.unused_allowances == {}


def test_line_breaks_in_what_a_design_says_forge_no_line(
    plan_design, capsys: pytest.CaptureFixture[str]
) -> None:
    assert on_one_line("one\ntwo\u2028three") == "one two three"
    reason = "all are meant\\njudged     other against plain: differs in mask"
    text = f'compound = {{ other = "{reason}" }}' + DESIGN.format("{}").replace(
        '"architecture.mask"', '"architecture.mask", "architecture.dropout"'
    )
    print_judged(plan_design(text), console())
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert "(meant: all are meant judged other against plain: differs in mask)" in printed


MIXED = """
factor = "architecture.mask"
budget = "tokens_read"
allow = { %s }
[arms.plain]
[arms.other]
architecture.mask = "prefix"
[arms.other.objective]
kind = "mixture"
components = [
    { objective = "prefix", weight = 0.001 },
    { objective = "spans" },
    { objective = "continuation" },
]
"""


def test_an_allowed_mixture_is_let_pass_with_one_component_more_and_its_share(plan_design) -> None:
    kind = '"objective.kind" = "the paper has it so"'
    said = r"mask, objective\.components\.2 \(continuation, 50 % of the weight\);"
    with pytest.raises(ConfoundError, match=said):
        plan_design(MIXED % kind)
    both = f'{kind}, "objective.components.2" = "the paper has it so"'
    plan = plan_design(MIXED % both)
    allowed = ("objective (spans, 50 % of the weight)", "continuation, 50 % of the weight")
    assert allowed[0] in plan.judged[0].allowed
    assert any(allowed[1] in name for name in plan.judged[0].allowed)
    assert plan.unused_allowances == {}


SOURCES = """
factor = "architecture.mask"
budget = "tokens_read"
allow = { %s }
[base.corpus]
sources = [
    { kind = "translation", n_documents = 400, form = "text" },
    { kind = "copy", n_documents = 400, form = "text", weight = 0.5 },
    { kind = "sort", n_documents = 400, form = "text" },
]
[arms.plain]
[arms.other]
architecture.mask = "prefix"
[arms.other.corpus]
sources = [
    { kind = "translation", n_documents = 400, form = "text" },
    { kind = "copy", n_documents = 400, form = "text", weight = 9.0 },
    { kind = "sort", n_documents = 400, form = "text" },
]
"""


def test_a_whole_list_of_sources_is_not_allowed_and_each_field_of_it_can_be(plan_design) -> None:
    said = r"allow has 'corpus.sources', a whole list of tables; .*: corpus\.sources\.1\.weight$"
    with pytest.raises(SpecError, match=said):
        plan_design(SOURCES % '"corpus.sources" = "the text of both is alike"')
    plan = plan_design(SOURCES % '"corpus.sources.1" = "some copies beside it"')
    assert plan.judged[0].allowed == ("corpus.sources.1.weight",)
    with pytest.raises(ConfoundError, match=r"corpus\.sources is .*, but it is not the factor"):
        plan_design(SOURCES % '"corpus.sources.0" = "some copies beside it"')
