"""The price of each turn against numbers worked out here."""

import pytest
from tiny_model import tiny_architecture

from paribus.errors import SpecError
from paribus.spec import Flops, load, resolve
from paribus.spec.conversation import Conversation
from paribus.spec.turn_price import needed_length, price_turns

LAYERS, WIDTH, HEADS, HEAD, FEED_FORWARD, VOCABULARY = 3, 10, 2, 7, 13, 17
CONVERSATION = Conversation(n_turns=3, n_user=5, n_answer=4)


def small(preset: str, **changes: str):
    sizes = {
        "n_layers": LAYERS,
        "d_model": WIDTH,
        "n_heads": HEADS,
        "d_head": HEAD,
        "d_ff": FEED_FORWARD,
        "n_vocab": VOCABULARY,
        "max_length": 40,
    }
    return resolve(load(preset, **sizes, changes=changes))


def test_a_causal_turn_by_hand() -> None:
    first, second, third = price_turns(small("gpt2"), "one sequence", CONVERSATION)
    assert [(one.n_prompt, one.n_read, one.n_read_again) for one in (first, second, third)] == [
        (5, 5, 0),
        (14, 6, 0),
        (23, 6, 0),
    ]
    token = 4 * WIDTH * HEADS * HEAD + 2 * WIDTH * FEED_FORWARD
    pair, head = 2 * HEADS * HEAD, 2 * WIDTH * VOCABULARY
    visible = 9 + 10 + 11 + 12 + 13 + 14
    by_hand = Flops(
        2 * LAYERS * (6 * token + pair * 6 * 14) + head,
        2 * LAYERS * (6 * token + pair * visible) + head,
    )
    assert second.first_token_flops == by_hand
    rest = 3 * head + 2 * LAYERS * (3 * token + pair * (15 + 16 + 17))
    assert second.turn_flops == by_hand + Flops(rest, rest)
    key = 2 * HEADS * HEAD * LAYERS
    assert second.cache_bytes == second.reused_bytes == 2 * key * 17


def test_a_growing_prefix_reads_all_again_and_keeps_nothing() -> None:
    prices = price_turns(small("unilm"), "growing prefix", CONVERSATION)
    assert [(one.n_read, one.n_read_again) for one in prices] == [(5, 0), (14, 8), (23, 17)]
    assert [one.reused_bytes for one in prices] == [0, 0, 0]
    causal = price_turns(small("gpt2"), "one sequence", CONVERSATION)
    assert [one.cache_bytes for one in prices] == [one.cache_bytes for one in causal]


def test_a_prefix_that_stays_reads_what_is_new() -> None:
    fixed = price_turns(small("unilm"), "first prompt as prefix", CONVERSATION)
    assert [one.n_read for one in fixed] == [5, 6, 6]
    assert all(one.reused_bytes == one.cache_bytes for one in fixed)


def test_a_window_keeps_its_last_keys() -> None:
    prices = price_turns(small("gpt2", mask="causal & window(4)"), "one sequence", CONVERSATION)
    key = 2 * HEADS * HEAD * LAYERS
    assert [one.cache_bytes for one in prices] == [2 * key * 3] * 3


def test_an_encoder_reads_the_conversation_again_unless_it_is_causal() -> None:
    both_ways = price_turns(small("t5"), "encode conversation", CONVERSATION)
    assert [(one.n_read, one.n_read_again) for one in both_ways] == [(6, 0), (15, 8), (24, 17)]
    assert [one.reused_bytes for one in both_ways] == [0, 0, 0]
    causal = price_turns(small("encdec-causal-encoder"), "encode conversation", CONVERSATION)
    # the answer, but for its last token, went through the decoder before
    assert [(one.n_read, one.n_read_again) for one in causal] == [(6, 0), (10, 3), (10, 3)]
    assert all(0 < one.reused_bytes < one.cache_bytes for one in causal)


def test_prompts_that_are_encoded_alone_are_read_once() -> None:
    spec = small("t5", **{"encoder.mask": "same_document", "encoder.cross": "documents_so_far"})
    prices = price_turns(spec, "encode each turn", CONVERSATION)
    assert [(one.n_read, one.n_read_again) for one in prices] == [(6, 0), (7, 0), (7, 0)]
    assert all(one.reused_bytes == one.cache_bytes for one in prices)
    key = 2 * HEADS * HEAD * LAYERS
    assert [one.cache_bytes for one in prices] == [2 * key * n for n in (4 + 5, 9 + 10, 14 + 15)]


def test_equal_new_tokens_cost_little_more_in_the_tenth_turn_of_gpt2() -> None:
    prices = price_turns(resolve(load("gpt2", max_length=1280)), "one sequence", Conversation())
    assert prices[-1].first_token_flops.visible / prices[0].first_token_flops.visible < 1.5


def test_a_conversation_that_does_not_fit_is_refused() -> None:
    spec = resolve(tiny_architecture("gpt2"))
    assert needed_length("one sequence", Conversation(10, 5, 4)) == 89
    with pytest.raises(
        SpecError,
        match=r"n_turns is 10, and turns of 5 \+ 4 tokens make a text of 89, but max_length is 29",
    ):
        price_turns(spec, "one sequence", Conversation(10, 5, 4))


def test_a_value_has_bytes() -> None:
    with pytest.raises(SpecError, match="bytes_per_value is 0; use 1 or more"):
        price_turns(small("gpt2"), "one sequence", CONVERSATION, bytes_per_value=0)
