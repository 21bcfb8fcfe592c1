"""What a head is asked, by hand: where the text stands, what is pooled, what the answers are."""

import pytest
import torch

from paribus.batch import N_SPECIAL_TOKENS, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.objectives import Problem, pose_problem
from paribus.spec.objectives import (
    CausalLM,
    Mixture,
    MixtureComponent,
    Pooling,
    TextLabels,
    WordTags,
    components_of,
)

VOCABULARY = Vocabulary(10, torch.zeros(10 + N_SPECIAL_TOKENS, dtype=torch.int64))
EOS, PAD = VOCABULARY.eos, VOCABULARY.pad


def text(labels: list[list[int]], empty: bool = False) -> TextBatch:
    """Two texts in rows of five: three tokens and one, or none."""
    second = [PAD] * 5 if empty else [4, PAD, PAD, PAD, PAD]
    tokens = torch.tensor([[1, 2, 3, PAD, PAD], second])
    return TextBatch(
        k=0,
        rows_B=torch.arange(2),
        tokens_BT=tokens,
        documents_BT=torch.zeros_like(tokens),
        sentences_BT=torch.zeros_like(tokens),
        real_BT=tokens != PAD,
        labels_BM=torch.tensor(labels),
    )


def posed(pooling: Pooling = "mean", apart: bool = False, empty: bool = False) -> Problem:
    objective = TextLabels(n_labels=7, pooling=pooling)
    return pose_problem(objective, text([[5], [6]], empty), VOCABULARY, 0, False, apart)


def test_a_text_is_read_after_an_eos_which_is_not_pooled():
    problem = posed()
    assert problem.inputs.tokens_BT.tolist() == [[EOS, 1, 2, 3, PAD], [EOS, 4, PAD, PAD, PAD]]
    assert problem.inputs.layout.real_BT is not None
    assert problem.inputs.layout.real_BT.sum(1).tolist() == [4, 2]
    assert problem.pooled_BT is not None
    assert problem.pooled_BT.int().tolist() == [[0, 1, 1, 1, 0], [0, 1, 0, 0, 0]]
    assert torch.equal(torch.as_tensor(problem.inputs.layout.prefix), torch.tensor([4, 2]))
    assert problem.targets_BM.tolist() == [[5], [6]]
    assert problem.weights_BM.tolist() == [[1.0], [1.0]]


def test_nothing_stands_before_a_text_where_documents_are_apart():
    problem = posed(apart=True)
    assert problem.inputs.tokens_BT.tolist() == [[1, 2, 3, PAD, PAD], [4, PAD, PAD, PAD, PAD]]
    assert problem.pooled_BT is not None
    assert problem.pooled_BT.sum(1).tolist() == [3, 1]


def test_the_mean_the_greatest_the_last_and_the_first():
    states = torch.arange(2 * 5 * 2).view(2, 5, 2).float()
    assert posed("mean").gather_states(states).tolist() == [[[4, 5]], [[12, 13]]]
    assert posed("max").gather_states(states).tolist() == [[[6, 7]], [[12, 13]]]
    assert posed("last").gather_states(states).tolist() == [[[6, 7]], [[12, 13]]]
    assert posed("first").gather_states(states).tolist() == [[[2, 3]], [[12, 13]]]


@pytest.mark.parametrize("pooling", ["mean", "max", "last", "first"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_text_without_a_token_is_not_asked(pooling, apart):
    problem = posed(pooling, apart, empty=True)
    assert problem.weights_BM.tolist() == [[1.0], [0.0]]
    assert bool(torch.isfinite(problem.gather_states(torch.ones(2, 5, 2))).all())


def test_tags_are_asked_at_the_last_token_of_each_word():
    labels = [[-1, 0, 6, -1, -1], [2, -1, -1, -1, -1]]
    problem = pose_problem(WordTags(n_labels=7), text(labels), VOCABULARY, 0, False, False)
    assert problem.weights_BM.int().tolist() == [[0, 0, 1, 1, 0], [0, 1, 0, 0, 0]]
    assert problem.targets_BM[problem.weights_BM > 0].tolist() == [0, 6, 2]
    assert problem.pooled_BT is None
    states = torch.ones(2, 5, 3)
    assert problem.gather_states(states) is states


def test_a_head_and_other_objectives_read_other_texts():
    with pytest.raises(SpecError, match="'causal', which needs no labels, but the corpus has lab"):
        pose_problem(CausalLM(), text([[5], [6]]), VOCABULARY, 0, False, False)
    plain = text([[5], [6]])
    plain = TextBatch(
        k=0,
        rows_B=plain.rows_B,
        tokens_BT=plain.tokens_BT,
        documents_BT=plain.documents_BT,
        sentences_BT=plain.sentences_BT,
    )
    with pytest.raises(SpecError, match="'labels', which needs labelled texts, but the corpus"):
        pose_problem(TextLabels(n_labels=2), plain, VOCABULARY, 0, False, False)


def test_a_head_is_no_part_of_a_mixture():
    (component,) = components_of(TextLabels(n_labels=2))
    with pytest.raises(ValueError, match="components has 'labels', which reads labelled texts"):
        Mixture(components=(component, MixtureComponent(objective=CausalLM())))
