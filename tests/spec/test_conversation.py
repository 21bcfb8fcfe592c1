"""How the texts of a conversation lie, turn by turn, by each custom."""

import numpy as np
import pytest
from tiny_model import tiny_architecture

from paribus.errors import SpecError, UnsupportedError
from paribus.spec import resolve
from paribus.spec.conversation import (
    CUSTOM_DESCRIPTIONS,
    CUSTOMS,
    Conversation,
    Custom,
    encode_each_turn,
    possible_customs,
    require_custom,
    turn_texts,
)

CONVERSATION = Conversation(n_turns=3, n_user=5, n_answer=4)


def lengths(custom: Custom, turn: int) -> tuple[int, ...]:
    texts = turn_texts(CONVERSATION, custom, turn)
    layouts = (texts.before, texts.prompt, texts.end, texts.source_before, texts.source)
    return tuple(layout.length for layout in layouts)


def test_a_sequence_grows_by_a_prompt_and_the_last_token_said() -> None:
    assert lengths("one sequence", 1) == (0, 5, 8, 0, 0)
    assert lengths("one sequence", 2) == (8, 14, 17, 0, 0)
    assert lengths("one sequence", 3) == (17, 23, 26, 0, 0)
    assert [turn_texts(CONVERSATION, "one sequence", turn).n_new for turn in (1, 2)] == [5, 6]


def test_a_prefix_grows_or_stays() -> None:
    growing = turn_texts(CONVERSATION, "growing prefix", 2)
    assert (growing.before.prefix, growing.prompt.prefix, growing.end.prefix) == (5, 14, 14)
    fixed = turn_texts(CONVERSATION, "first prompt as prefix", 2)
    assert (fixed.before.prefix, fixed.prompt.prefix, fixed.end.prefix) == (5, 5, 5)


def test_an_encoder_reads_the_conversation_so_far_or_each_prompt() -> None:
    assert lengths("encode conversation", 1) == (0, 1, 4, 0, 5)
    assert lengths("encode conversation", 3) == (0, 1, 4, 14, 23)
    assert lengths("encode each turn", 1) == (0, 1, 4, 0, 5)
    assert lengths("encode each turn", 3) == (9, 11, 14, 10, 15)


def test_an_answer_is_a_document_with_its_prompt() -> None:
    texts = turn_texts(CONVERSATION, "encode each turn", 2)
    assert texts.source.documents is not None
    assert texts.prompt.documents is not None
    assert texts.source.documents.tolist() == [0] * 5 + [1] * 5
    assert texts.prompt.documents.tolist() == [0] * 5 + [1]


def test_the_masks_say_which_customs_there_are() -> None:
    expected = {
        "gpt2": ("one sequence",),
        "deepseek-v3": ("one sequence",),
        "unilm": ("growing prefix", "first prompt as prefix"),
        "t5": ("encode conversation",),
    }
    for preset, customs in expected.items():
        assert possible_customs(resolve(tiny_architecture(preset))) == customs


def test_each_turn_is_encoded_alone_by_the_same_parameters() -> None:
    whole = tiny_architecture("t5")
    spec = resolve(encode_each_turn(whole))
    assert possible_customs(spec) == ("encode each turn",)
    assert {str(block.cross) for block in spec.stack.layers} == {"documents_so_far"}
    assert spec.encoder is not None
    assert {str(rule) for rule in spec.encoder.masks} == {"same_document"}


@pytest.mark.parametrize("preset", ["bert", "hybrid", "mixed-heads"])
def test_what_sees_later_tokens_cannot_answer(preset: str) -> None:
    with pytest.raises(UnsupportedError, match="so it cannot answer token by token; use a causal"):
        possible_customs(resolve(tiny_architecture(preset)))


def test_a_custom_of_another_architecture_is_refused() -> None:
    with pytest.raises(
        SpecError,
        match="custom is 'growing prefix', but this architecture holds a conversation by 'one seq",
    ):
        require_custom(resolve(tiny_architecture("gpt2")), "growing prefix")


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(SpecError, match="n_user is 0; use 1 to 10,000,000"):
        Conversation(n_user=0)


def test_every_custom_is_described() -> None:
    assert tuple(CUSTOM_DESCRIPTIONS) == CUSTOMS
    assert np.all([text and not text.endswith(".") for text in CUSTOM_DESCRIPTIONS.values()])
