"""Yardsticks that do not compare what they seem to: scores per token of two tokenizers."""

from typing import Any

import pytest

from paribus.errors import SpecError

CHOICES = """
factor = "{factor}"
match = "nothing"
budget = "bytes_read"
allow = {{ bytes_read = "a few steps" }}
base.training.length = 256
primary.margin = 2
[primary.measure]
kind = "task"
[primary.measure.task]
name = "translation-choices"
kind = "choices"
language = {{ kind = "translation", n_documents = 2000 }}
n_items = 30
normalisation = "{normalisation}"
[arms.plain]
[arms.other]
{other}
"""
OTHER_TOKENS = {
    "factor": "corpus.tokenizer",
    "other": "corpus.tokenizer = { kind = 'bpe', n_vocab = 300 }",
}
OTHER_MASK = {"factor": "architecture.mask", "other": "architecture.mask = 'causal & window(5)'"}


def test_scores_per_token_of_two_tokenizers_are_refused(plan_design: Any) -> None:
    said = (
        r"primary.measure: task.normalisation is 'token', and the options are \d+ tokens in other"
        r" and \d+ in plain, so equal probabilities .*; use 'byte', which no tokenizer moves"
    )
    with pytest.raises(SpecError, match=said):
        plan_design(CHOICES.format(**OTHER_TOKENS, normalisation="token"))


@pytest.mark.parametrize(
    ("normalisation", "arms"),
    [("byte", OTHER_TOKENS), ("sum", OTHER_TOKENS), ("token", OTHER_MASK)],
)
def test_scores_that_compare_are_planned(
    plan_design: Any, normalisation: str, arms: dict[str, str]
) -> None:
    plan = plan_design(CHOICES.format(**arms, normalisation=normalisation))
    assert plan.n_items == {"translation-choices.test": 30}
