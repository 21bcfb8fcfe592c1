"""Conversations of which each turn is encoded alone: as rows of a batch, and one by one."""

import numpy as np
import torch
from byte_models import VOCABULARY, byte_model

from paribus.batch import TextBatch
from paribus.objectives import Problem, pose_problem
from paribus.objectives.framing import item_layout, item_problems, lay_item
from paribus.objectives.turn_layout import split_turns
from paribus.spec import load, resolve
from paribus.spec.conversation import encodes_turns
from paribus.spec.objectives import MixtureComponent, Seq2Seq

LENGTH = 83
ROLES = VOCABULARY.role_tokens
START, END = VOCABULARY.decoder_start, VOCABULARY.end_of_turn


def words(rng: np.random.Generator) -> list[int]:
    return rng.integers(256, size=rng.integers(1, 6)).tolist()


def conversation(rng: np.random.Generator, n_turns: int) -> list[int]:
    """Turns up to where the assistant speaks, sometimes after a word of the system."""
    ids: list[int] = []
    if rng.random() < 0.5:
        ids += [ROLES["system"], *words(rng), END]
    for turn in range(n_turns):
        ids += [ROLES["user"], *words(rng), END, ROLES["assistant"]]
        if turn < n_turns - 1:
            ids += [*words(rng), END]
    return ids


def row_batch(rows: list[tuple[list[int], list[int]]]) -> TextBatch:
    """Sources and targets as the rows of a corpus."""
    tokens = torch.full((len(rows), LENGTH), VOCABULARY.pad)
    real = torch.zeros_like(tokens, dtype=torch.bool)
    for number, (source, target) in enumerate(rows):
        whole = [*source, *target]
        tokens[number, : len(whole)] = torch.tensor(whole)
        real[number, : len(whole)] = True
    return TextBatch(
        k=0,
        rows_B=torch.arange(len(rows)),
        tokens_BT=tokens,
        documents_BT=torch.zeros_like(tokens),
        sentences_BT=torch.zeros_like(tokens),
        real_BT=real,
        target_starts_B=torch.tensor([len(source) for source, _ in rows]),
    )


def trained_problem(rows: list[tuple[list[int], list[int]]]) -> Problem:
    return pose_problem(
        Seq2Seq(),
        row_batch(rows),
        VOCABULARY,
        seed=0,
        has_encoder=True,
        separates_documents=True,
        encodes_turns=True,
    )


def test_what_stands_between_answers_is_a_document_of_the_source() -> None:
    user, assistant = ROLES["user"], ROLES["assistant"]
    first, second = [user, 1, 2, END, assistant], [user, 3, END, assistant]
    turns = split_turns([*first, 7, END, *second], VOCABULARY)
    assert turns.sources == (tuple(first), tuple(second))
    assert turns.text(START) == (START, 7, END, START)
    assert turns.text_starts == [0, 3]
    inputs = trained_problem([([*first, 7, END, *second], [8, 9, END])]).inputs
    assert inputs.source is not None
    assert inputs.source.tokens_BT[0, :9].tolist() == [*first, *second]
    assert inputs.source.layout.documents_BT is not None
    assert inputs.source.layout.documents_BT[0, :9].tolist() == [0] * 5 + [1] * 4
    assert inputs.tokens_BT[0, :6].tolist() == [START, 7, END, START, 8, 9]
    assert inputs.layout.documents_BT is not None
    assert inputs.layout.documents_BT[0, :6].tolist() == [0, 0, 0, 1, 1, 1]


def test_rows_of_a_batch_lie_as_each_conversation_does_alone() -> None:
    """A row of training is what an item is scored in, token by token: source, text, documents and
    what is asked.
    """
    spec = resolve(load("encdec-turns", changes={"n_vocab": VOCABULARY.size, "max_length": LENGTH}))
    layout = item_layout(MixtureComponent(objective=Seq2Seq()), spec, VOCABULARY, LENGTH)
    rng = np.random.default_rng(1)
    rows = [(conversation(rng, n), [*words(rng), END]) for n in (1, 2, 3, 2, 4, 1)]
    whole = trained_problem(rows)
    for number, (source, target) in enumerate(rows):
        item = lay_item(layout, "", source, target)
        (alone,) = item_problems(layout, item)
        sides = (
            (whole.inputs, alone.inputs),
            (whole.inputs.source, alone.inputs.source),
        )
        for ours, theirs in sides:
            assert ours is not None
            assert theirs is not None
            length = theirs.layout.length
            assert torch.equal(ours.tokens_BT[number, :length], theirs.tokens_BT[0])
            documents = theirs.layout.documents_BT
            if documents is None:
                documents = torch.zeros_like(theirs.tokens_BT)
            assert ours.layout.documents_BT is not None
            assert torch.equal(ours.layout.documents_BT[number, :length], documents[0])
            assert ours.layout.real_BT is not None
            assert int(ours.layout.real_BT[number].sum()) == length
        is_scored = whole.weights_BM[number] > 0
        assert whole.targets_BM[number][is_scored].tolist() == target
        at = alone.scored_positions_BM[0][alone.weights_BM[0] > 0]
        assert torch.equal(whole.scored_positions_BM[number][is_scored], at)


def test_pairs_without_roles_lie_as_before() -> None:
    rows = [([1, 2, 3], [4, 5]), ([6], [7, 8, 9])]
    given = {"vocabulary": VOCABULARY, "seed": 0, "has_encoder": True, "separates_documents": True}
    plain = pose_problem(Seq2Seq(), row_batch(rows), **given)
    turns = pose_problem(Seq2Seq(), row_batch(rows), **given, encodes_turns=True)
    assert plain.inputs.source is not None
    assert turns.inputs.source is not None
    assert torch.equal(plain.inputs.tokens_BT, turns.inputs.tokens_BT)
    assert torch.equal(plain.inputs.source.tokens_BT, turns.inputs.source.tokens_BT)
    assert torch.equal(plain.weights_BM, turns.weights_BM)
    assert torch.equal(
        plain.targets_BM[plain.weights_BM > 0], turns.targets_BM[turns.weights_BM > 0]
    )


def test_which_architectures_encode_each_turn_alone() -> None:
    def is_so(**changes: str) -> bool:
        return encodes_turns(resolve(load("encdec-turns", changes=changes)))

    assert is_so()
    assert is_so(**{"encoder.mask": "causal & same_document"})
    assert not is_so(**{"encoder.mask": "full"})
    assert not is_so(**{"encoder.cross": "full"})
    assert not is_so(mask="causal & same_document")
    assert not encodes_turns(resolve(load("gpt2")))
    assert not encodes_turns(resolve(load("t5")))


@torch.no_grad()
def test_an_early_answer_does_not_see_a_late_turn() -> None:
    model = byte_model("encdec-turns").double()
    rng = np.random.default_rng(2)
    source, target = conversation(rng, 2), [*words(rng), END]
    other = [*source[:-3], (source[-3] + 1) % 256, *source[-2:]]  # the user's last word
    states = []
    for one in (source, other):
        problem = trained_problem([(one, target)])
        states.append(model.hidden_states(problem.inputs).states_BTD[0])
    documents = problem.inputs.layout.documents_BT
    assert documents is not None
    is_early = documents[0] == 0
    assert torch.equal(states[0][is_early], states[1][is_early])
    assert not torch.equal(states[0][~is_early], states[1][~is_early])
