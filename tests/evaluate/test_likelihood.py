"""Nats of targets: one by one as in any batch, in any order, and as computed by hand."""

import math
import random
from dataclasses import replace

import pytest
import torch
from byte_models import BYTE_TOKENIZER, ITEMS, VOCABULARY, byte_model, random_item, token_nats
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from paribus.batch import Batch
from paribus.corpus import Tokenizer, Turn
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate import Item, answer_totals, likelihoods
from paribus.evaluate.likelihood import AskedModel
from paribus.model import Transformer
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    LastToken,
    MaskedLM,
    Objective,
    PrefixLM,
    Seq2Seq,
    SpanCorruption,
)

ARMS = [
    ("gpt2", CausalLM()),
    ("llama", CausalLM()),
    ("unilm", PrefixLM()),
    ("unilm", UL2()),
    ("unilm", SpanCorruption()),
    ("mixtral", CausalLM()),
    ("switch", PrefixLM()),
    ("deepseek-v3", CausalLM()),
    ("t5", PrefixLM()),
    ("t5", UL2()),
    ("t5", SpanCorruption()),
    ("bart", Seq2Seq()),
    ("unilm", Seq2Seq()),
    ("encdec-shared", Seq2Seq()),
    ("bert", LastToken()),
]


def nats(
    model: Transformer, objective: Objective, items: tuple[Item, ...], n_sequences: int
) -> list[float]:
    return [
        one.nats
        for one in likelihoods(
            AskedModel(model, objective, BYTE_TOKENIZER), items, n_sequences=n_sequences
        )
    ]


@pytest.mark.parametrize(
    ("preset", "objective"), ARMS, ids=lambda given: getattr(given, "kind", given)
)
def test_any_batch_in_any_order_gives_what_each_item_gives_alone(
    preset: str, objective: Objective
) -> None:
    model = byte_model(preset)
    alone = nats(model, objective, ITEMS, 1)
    assert all(one > 0 for one in alone)
    shuffled = list(range(len(ITEMS)))
    random.Random(5).shuffle(shuffled)
    for n_sequences in (3, 1000):
        assert nats(model, objective, ITEMS, n_sequences) == pytest.approx(alone, rel=1e-5)
        moved = nats(model, objective, tuple(ITEMS[n] for n in shuffled), n_sequences)
        assert moved == pytest.approx([alone[n] for n in shuffled], rel=1e-5)


@pytest.mark.parametrize(
    ("preset", "objective"), [("gpt2", CausalLM()), ("t5", PrefixLM()), ("bert", LastToken())]
)
def test_items_are_answered_without_dropout(preset: str, objective: Objective) -> None:
    """The same weights with dropout and without give the same answers."""
    wet, dry = byte_model(preset, changes={"dropout": 0.5}), byte_model(preset)
    assert wet.spec.dropout == 0.5
    wet.load_state_dict(dry.state_dict())
    assert nats(wet.train(), objective, ITEMS, 3) == nats(dry, objective, ITEMS, 3)


@pytest.mark.parametrize("objective", [LastToken(), MaskedLM()], ids=lambda one: one.kind)
def test_under_a_prefix_mask_hidden_answers_see_the_whole_text(objective: Objective) -> None:
    """As under a full mask, whose weights are the same, and not as under a causal one."""
    label = "pseudo-likelihood" if objective.kind == "masked" else "likelihood"
    prefixed, full, causal = (
        [
            one.nats
            for one in likelihoods(
                AskedModel(byte_model("gpt2", changes={"mask": mask}), objective, BYTE_TOKENIZER),
                ITEMS,
                label,
            )
        ]
        for mask in ("prefix", "full", "causal")
    )
    assert prefixed == pytest.approx(full, rel=1e-6)
    assert all(
        one != pytest.approx(other, rel=1e-4) for one, other in zip(prefixed, causal, strict=True)
    )


def test_an_item_long_enough_for_a_detour_is_refused() -> None:
    """Its answer is seen 300 positions ahead: no shorter item has the room."""
    model = byte_model("gpt2", 400, {"mask": "by_layer(causal, strided(300))"})
    likelihoods(AskedModel(model, CausalLM(), BYTE_TOKENIZER), (random_item(250, 40),))
    with pytest.raises(
        SpecError, match=r"must predict the token at \d+, but it can see it: .* \(strided\(300\)\)"
    ):
        likelihoods(
            AskedModel(model, CausalLM(), BYTE_TOKENIZER),
            (random_item(250, 40), random_item(40, 310)),
        )


def test_answers_count_tokens_and_bytes_and_carry_names() -> None:
    given = (Item("one", "page", "déjà ", "vu 5 €"), Item("two", "page", "a", "b"))
    one, two = likelihoods(AskedModel(byte_model("gpt2"), CausalLM(), BYTE_TOKENIZER), given)
    assert (one.item, one.document, one.n_tokens, one.n_bytes, one.n_truncated_tokens) == (
        "one",
        "page",
        8,
        8,
        0,
    )
    assert (two.item, two.n_tokens, two.n_bytes) == ("two", 1, 1)
    assert one.bits_per_byte == pytest.approx(one.nats / math.log(2) / 8)


def test_a_target_is_as_likely_as_the_product_of_its_tokens() -> None:
    model, one = byte_model("gpt2"), random_item(23, 9)
    (answer,) = likelihoods(AskedModel(model, CausalLM(), BYTE_TOKENIZER), [one])
    text = [VOCABULARY.eos, *one.context.encode(), *one.target.encode()]
    logits = model(torch.tensor([text])).logits_BTV[0]
    assert answer.nats == pytest.approx(
        sum(token_nats(logits[n - 1], text[n]) for n in range(24, 33)), abs=1e-4
    )


def test_targets_of_one_length_are_a_distribution() -> None:
    """Over every single byte and every sign that could have followed, chances add up to one."""
    model = byte_model("unilm")
    found = likelihoods(
        AskedModel(model, PrefixLM(), BYTE_TOKENIZER),
        [Item(str(n), "", "abc", chr(n)) for n in range(128)],
    )
    text = torch.tensor([[VOCABULARY.eos, *b"abc"]])
    rest = model(Batch.of(text, prefix=4)).logits_BTV[0, -1].softmax(-1)[128:].sum().item()
    assert math.fsum(math.exp(-one.nats) for one in found) + rest == pytest.approx(1, abs=1e-5)


def test_the_last_token_asked_again_and_again_is_a_chain() -> None:
    model, one = byte_model("bert"), random_item(11, 7)
    (answer,) = likelihoods(AskedModel(model, LastToken(), BYTE_TOKENIZER), [one], n_sequences=4)
    read, total = [VOCABULARY.eos, *one.context.encode()], 0.0
    for token in one.target.encode():
        total += token_nats(
            model(torch.tensor([[*read, VOCABULARY.mask]])).logits_BTV[0, -1], token
        )
        read.append(token)
    assert answer.nats == pytest.approx(total, abs=1e-4)


def test_a_pseudo_likelihood_masks_each_token_in_turn() -> None:
    model = byte_model("bert")
    answers = likelihoods(
        AskedModel(model, MaskedLM(), BYTE_TOKENIZER), ITEMS, "pseudo-likelihood", n_sequences=5
    )
    for one, answer in zip(ITEMS, answers, strict=True):
        text, begins, total = (
            [VOCABULARY.eos, *one.context.encode(), *one.target.encode()],
            1 + len(one.context),
            0.0,
        )
        for place in range(begins, len(text)):
            hidden = torch.tensor([[*text[:place], VOCABULARY.mask, *text[place + 1 :]]])
            total += token_nats(model(hidden).logits_BTV[0, place], text[place])
        assert answer.nats == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize(
    ("preset", "objective", "n_kept"),
    [
        ("gpt2", CausalLM(), 10),
        ("unilm", PrefixLM(), 10),
        ("t5", PrefixLM(), 17),
        ("bert", LastToken(), 10),
    ],
)
def test_a_context_that_does_not_fit_is_cut_from_the_left_and_counted(
    preset: str, objective: Objective, n_kept: int
) -> None:
    model, long = byte_model(preset, max_length=17), random_item(40, 7)
    short = Item("short", "", long.context[-n_kept:], long.target)
    cut, whole = likelihoods(AskedModel(model, objective, BYTE_TOKENIZER), [long, short])
    assert (cut.n_truncated_tokens, whole.n_truncated_tokens) == (40 - n_kept, 0)
    assert cut.nats == pytest.approx(whole.nats, rel=1e-6)
    assert answer_totals([cut, whole]).n_truncated == 1
    assert answer_totals([cut, whole]).n_truncated_tokens == 40 - n_kept


def test_a_window_may_be_narrower_than_the_model() -> None:
    model, long = byte_model("gpt2"), random_item(40, 7)
    (narrow,) = likelihoods(AskedModel(model, CausalLM(), BYTE_TOKENIZER, window=17), [long])
    (cut,) = likelihoods(
        AskedModel(model, CausalLM(), BYTE_TOKENIZER, window=17),
        [Item("", "", long.context[-10:], long.target)],
    )
    assert narrow.n_truncated_tokens == 30
    assert narrow.nats == pytest.approx(cut.nats, rel=1e-6)
    wide = AskedModel(model, CausalLM(), BYTE_TOKENIZER, window=1000)
    assert likelihoods(wide, [long])[0].n_truncated_tokens == 0


def test_a_target_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(
        UnsupportedError, match=r"item 3\+20 has a target of 20 tokens, .* in a window of 17"
    ):
        likelihoods(
            AskedModel(byte_model("gpt2", max_length=17), CausalLM(), BYTE_TOKENIZER),
            [random_item(3, 20)],
        )


def test_what_sees_the_answer_is_refused_with_how_it_does() -> None:
    with pytest.raises(
        SpecError, match="position 0 must predict the token at 1, but it can see it: layer 0"
    ):
        likelihoods(AskedModel(byte_model("bert"), CausalLM(), BYTE_TOKENIZER), ITEMS)


def test_a_question_without_a_framing_is_refused() -> None:
    with pytest.raises(
        SpecError,
        match="'causal' for an encoder-decoder, but it leaves the encoder nothing to read",
    ):
        likelihoods(AskedModel(byte_model("t5"), CausalLM(), BYTE_TOKENIZER), ITEMS)


def test_another_tokenizer_than_the_models_is_refused() -> None:
    with pytest.raises(
        SpecError,
        match="the model has n_vocab 300, but the tokenizer and our special tokens need 363; give",
    ):
        likelihoods(
            AskedModel(byte_model("gpt2", changes={"n_vocab": 300}), CausalLM(), BYTE_TOKENIZER),
            ITEMS,
        )


def test_a_tokenizer_that_loses_text_is_refused() -> None:
    library = Library(models.WordLevel({"one": 0, "two": 1, "?": 2}, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.decoder = decoders.WordPiece()
    lossy = Tokenizer(library)
    likelihoods(
        AskedModel(byte_model("gpt2"), CausalLM(), lossy), [Item("good", "", "one", "two one")]
    )
    with pytest.raises(
        UnsupportedError, match="item bad has the target 'two  one', which the tokenizer does not"
    ):
        likelihoods(
            AskedModel(byte_model("gpt2"), CausalLM(), lossy), [Item("bad", "", "one", "two  one")]
        )
    with pytest.raises(
        UnsupportedError,
        match="item worse has the target 'two three', in which the tokenizer does no",
    ):
        likelihoods(
            AskedModel(byte_model("gpt2"), CausalLM(), lossy),
            [Item("worse", "", "one", "two three")],
        )


def test_nothing_asked_is_nothing_answered() -> None:
    assert likelihoods(AskedModel(byte_model("gpt2"), CausalLM(), BYTE_TOKENIZER), []) == ()


def test_turns_that_are_encoded_alone_are_scored_alike_in_any_batch() -> None:
    """Conversations of one turn and of several, beside each other and one by one."""
    model = byte_model("encdec-turns").double()
    asked = AskedModel(model, Seq2Seq(), BYTE_TOKENIZER, in_turns=True)
    items = []
    for number in range(5):
        turns = []
        for turn in range(number % 3):
            turns += [Turn("user", "q" * (turn + 1)), Turn("assistant", f"so {number}")]
        turns.append(Turn("user", "and then" + "?" * number))
        items.append(Item(f"{number}", "", "", "x" * (number + 1), turns=tuple(turns)))
    together = likelihoods(asked, items)
    alone = likelihoods(asked, items, n_sequences=1)
    assert [one.nats for one in together] == pytest.approx([one.nats for one in alone])
    as_one_turn = []
    for item in items:
        said = "".join(turn.content for turn in item.turns)
        as_one_turn.append(replace(item, turns=(Turn("user", said),)))
    others = likelihoods(asked, as_one_turn)
    for item, own, other in zip(items, together, others, strict=True):
        assert (own.nats == pytest.approx(other.nats)) == (len(item.turns) == 1)
