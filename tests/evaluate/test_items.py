"""What is asked: the same texts whatever the tokenizer, parted where no character and hardly a
word is broken.
"""

from pathlib import Path

import pytest
from byte_models import held_out_pairs, held_out_texts

from paribus.errors import SpecError
from paribus.evaluate import Item, items_fingerprint, select_items
from paribus.evaluate.items import split_in_halves
from paribus.spec import DocumentHalves, HeldOutPairs, PseudoHalves

SENTENCE = "The quick brown fox jumps over the lazy dog, and Zoë's naïve façade cost 5 € — twice. "
TEXTS = [f"{n}. {SENTENCE[n:]}{SENTENCE * (n % 5)}" for n in range(40)]


def test_items_are_the_two_parts_of_a_document(tmp_path: Path) -> None:
    found = select_items(held_out_texts(tmp_path, TEXTS), DocumentHalves(max_bytes=1000))
    assert len(found) == len(TEXTS)
    assert {one.context + one.target for one in found} == set(TEXTS)
    assert all(one.context and one.target for one in found)


def test_items_and_their_order_do_not_depend_on_tokenizer_seed_or_company(tmp_path: Path) -> None:
    asked = DocumentHalves(n_items=11, max_bytes=100)
    bytewise = select_items(held_out_texts(tmp_path, TEXTS, test=0.6), asked)
    assert len(bytewise) == 11
    pieced = select_items(
        held_out_texts(tmp_path, TEXTS[::-1], test=0.6, tokenizer={"kind": "bpe", "n_vocab": 300}),
        asked,
    )
    assert pieced == bytewise
    assert items_fingerprint(pieced) == items_fingerprint(bytewise)
    more = select_items(
        held_out_texts(tmp_path, [*TEXTS, "One more document than before."], test=0.6), asked
    )
    assert len(set(more) - set(bytewise)) <= 1
    fewer = select_items(
        held_out_texts(tmp_path, TEXTS, test=0.6), DocumentHalves(n_items=10, max_bytes=100)
    )
    assert fewer == bytewise[:10]
    assert items_fingerprint(fewer) != items_fingerprint(bytewise)


def test_a_document_is_cut_to_so_many_bytes_before_it_is_halved(tmp_path: Path) -> None:
    for one in select_items(held_out_texts(tmp_path, TEXTS), DocumentHalves(max_bytes=64)):
        text = one.context + one.target
        assert 40 <= len(text.encode()) <= 64
        assert any(given.startswith(text) for given in TEXTS)


def test_equal_and_short_documents_are_left_out(tmp_path: Path) -> None:
    texts = [
        "too short",
        "long enough to be halved",
        "long enough to be halved",
        "another long enough document",
    ]
    built = held_out_texts(tmp_path, texts)
    assert {one.context + one.target for one in select_items(built, DocumentHalves())} == set(
        texts[1:]
    )
    assert len(select_items(built, DocumentHalves(min_bytes=8))) == 3
    assert select_items(built, PseudoHalves()) == select_items(built, DocumentHalves())


@pytest.mark.parametrize(
    "text", ["aaaaaaaa", "éééééééééé", "a€€€€€€€b", "𝄞𝄞𝄞", "x𝄞𝄞𝄞𝄞", "aaa𝄞b", "kurz und gut"]
)
def test_halves_are_of_whole_characters_and_about_as_long(text: str) -> None:
    context, target = split_in_halves(text)
    assert context + target == text
    assert abs(len(context.encode()) - len(text.encode()) / 2) <= len(text.encode()) / 8 + 4
    assert target


def test_halves_part_before_a_word_if_one_begins_soon() -> None:
    assert split_in_halves("one two three four five six") == ("one two three", " four five six")
    assert split_in_halves("onetwothreefour five six sevs") == ("onetwothreefour", " five six sevs")
    assert split_in_halves("onetwothreefourfive six seven") == ("onetwothreefour", "five six seven")
    assert split_in_halves("abcdefgh=abcdefgh") == ("abcdefgh=", "abcdefgh")


def test_parts_of_a_text_are_the_tokens_of_the_whole(tmp_path: Path) -> None:
    built = held_out_texts(tmp_path, TEXTS, tokenizer={"kind": "bpe", "n_vocab": 300}, test=0.5)
    found = select_items(built, DocumentHalves())
    assert found
    for one in found:
        assert built.encode(one.context) + built.encode(one.target) == built.encode(
            one.context + one.target
        )


def test_pairs_are_asked_whole_and_known_by_their_source(tmp_path: Path) -> None:
    built = held_out_pairs(
        tmp_path, [("how many", "one"), ("how many", "two"), ("who", "I" * 300), ("why", "because")]
    )
    found = {(one.context, one.target): one for one in select_items(built, HeldOutPairs())}
    assert found.keys() == {("how many", "one"), ("how many", "two"), ("why", "because")}
    one, two = found["how many", "one"], found["how many", "two"]
    assert one.document == two.document
    assert one.name != two.name
    assert len(select_items(built, HeldOutPairs(max_target_bytes=300))) == 4
    assert len(select_items(built, HeldOutPairs(n_items=2))) == 2


def test_no_item_at_all_is_refused(tmp_path: Path) -> None:
    built = held_out_texts(tmp_path, ["ten bytes.", "and some more"])
    with pytest.raises(
        SpecError,
        match=r"split 'test' has no document of 16 bytes or more in 2 documents; hold out a",
    ):
        select_items(built, DocumentHalves())
    with pytest.raises(
        SpecError, match=r"split 'valid' has no document of 16 .* in 0 documents; .* corpus.valid"
    ):
        select_items(built, DocumentHalves(split="valid"))
    with pytest.raises(
        SpecError,
        match=r"has no pair with a target of 1 bytes or less in 1 documents; .*other sizes",
    ):
        select_items(held_out_pairs(tmp_path, [("a", "bcd")]), HeldOutPairs(max_target_bytes=1))


def test_a_yardstick_for_other_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match="'pairs', which needs pairs, but the corpus has running text; use 'halves'"
    ):
        select_items(held_out_texts(tmp_path, TEXTS), HeldOutPairs())
    with pytest.raises(
        SpecError, match="'pseudo', which needs running text, but the corpus has pairs; use 'pairs'"
    ):
        select_items(held_out_pairs(tmp_path, [("a", "b")]), PseudoHalves())


def test_a_fingerprint_tells_items_apart_however_their_texts_are_parted() -> None:
    assert items_fingerprint([Item("a", "b", "c", "d")]) != items_fingerprint(
        [Item("a", "b", "cd", "")]
    )
    assert items_fingerprint([]) != items_fingerprint([Item("", "", "", "")])
