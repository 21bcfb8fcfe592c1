"""Honest designs that look like sly ones, and runs that fail though their plan says nothing."""

import pytest

from paribus.errors import ConfoundError, SpecError

SHUFFLED = """
budget = "tokens_read"
baseline = "False+causal"
primary.measure = { kind = "pairs", n_items = 4 }
[base]
objective = "seq2seq"
corpus.sources = [{ kind = "copy", n_documents = 400, min_length = 4, max_length = 8 }]
[factors.targets]
path = "corpus.shuffled_targets"
levels = [false, true]
[factors.mask]
path = "architecture.mask"
levels = ["causal", "prefix"]
"""


def test_a_factor_of_wrong_targets_is_named_by_its_own_path(plan_design) -> None:
    assert len(plan_design(SHUFFLED).arms) == 4


LADDER = """
baseline = "causal+0.0"
budget = "tokens_read"
ladder = { sizes = [16, 32, 64], tokens_per_parameter = [1, 4] }
base.training.n_sequences = 1
%s
[factors.mask]
path = "architecture.mask"
levels = ["causal", "prefix"]
[factors.drop]
path = "architecture.dropout"
levels = [0.0, 0.1]
"""


def test_a_ladder_of_a_2_by_2_compares_no_diagonal(plan_design) -> None:
    plan = plan_design(LADDER % "")
    pairs = {(one.arm, one.against) for one in plan.judged if one.contrast is None}
    assert pairs == {("prefix+0.0", "causal+0.0"), ("causal+0.1", "causal+0.0")}
    with pytest.raises(ConfoundError, match="differs in 2 factors: mask, dropout"):
        plan_design(LADDER % 'comparisons = [["prefix+0.1", "causal+0.0"]]')


BALANCED = """
factor = "architecture.dropout"
base.training.n_micro_batches = %s
base.architecture.feed_forward = { kind = "experts", n_experts = 4, n_active = 1, balance = "%s" }
[arms.plain]
[arms.other]
architecture.dropout = 0.1
"""


@pytest.mark.parametrize(
    ("n", "balance", "said"),
    [
        ("2", "batch", r"n_micro_batches is 2 with a balance loss over the batch, which micro-"),
        ("3", "sequence", r"n_micro_batches is 3, which does not divide n_sequences 4"),
    ],
)
def test_micro_batches_that_no_run_can_have_are_refused(
    plan_design, n: str, balance: str, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        plan_design(BALANCED % (n, balance))
    assert len(plan_design(BALANCED % ("2", "sequence")).arms) == 2
