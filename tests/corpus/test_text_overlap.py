"""Texts that stand in the training text of a corpus."""

from pathlib import Path

import numpy as np
import pytest
from byte_models import held_out_texts

from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.corpus.text_overlap import SoughtItem, SoughtTexts, Text, _fold, are_drawn
from paribus.spec.corpus import Corpus

WORDS = [f"word{n}" for n in range(60)]


def text(first: int, last: int) -> str:
    return " ".join(WORDS[first:last])


def standing(dataset: TokenisedCorpus, *items: str) -> list[bool]:
    sought = SoughtTexts([SoughtItem(((item,),)) for item in items])
    return sought.standing([sought.seen_in(dataset)])


def test_a_long_text_stands_there_if_half_of_its_windows_do(tmp_path: Path) -> None:
    dataset = held_out_texts(tmp_path, [text(0, 30), text(40, 60)], test=0.0)
    unknown = " ".join(f"other{n}" for n in range(30))
    items = {
        text(3, 20): True,
        text(3, 20).replace(" ", "\n"): True,
        f"{text(0, 20)} {unknown[:60]}": True,
        f"{text(0, 10)} {unknown}": False,
        unknown: False,
        text(0, 30).upper(): True,
        text(0, 30).replace(" ", "."): True,
        text(0, 30)[::-1]: True,
    }
    assert standing(dataset, *items) == list(items.values())


@pytest.mark.parametrize(
    ("item", "trained"),
    [
        ("the mare ate its hay here", "the\u00a0mare\u2009ate\u3000its\u2028hay here"),
        ("the mare ate its hay here", "the ma\u00adre a\u200bte its h\u2060ay here"),
        ("Straße über den Fluß gebaut", "STRASSE U\u0308BER DEN FLUSS GEBAUT"),
        ("в начале было слово", "В НАЧАЛЕ БЫЛО СЛОВО"),
        ("ΣΙΣΥΦΟΣ και ο βράχος", "Σίσυφος και ο βράχος"),
        ("the “mare” ate… its hay", '"The mare" ate its hay'),
        (
            "ABC 123 ガギグ",
            "\uff21\uff22\uff23 \uff11\uff12\uff13 \uff76\uff9e\uff77\uff9e\uff78\uff9e",
        ),
        ("漢字を、読む人がいる", "漢字を\u3000読む人がいる。"),
    ],
)
@pytest.mark.parametrize("tokenizer", [{"kind": "bytes"}, {"kind": "bpe", "n_vocab": 258}])
def test_white_space_case_and_form_of_characters_do_not_matter(
    tmp_path: Path, item: str, trained: str, tokenizer: dict[str, object]
) -> None:
    dataset = held_out_texts(tmp_path, [f"x{trained}y"], test=0.0, tokenizer=tokenizer)
    other = item[::2] * 2
    assert standing(dataset, item, other) == [True, False]


def test_bytes_that_are_no_text_are_passed_over() -> None:
    data = np.frombuffer("ab é".encode() + b"\x80\xe4" + "c–d".encode(), np.uint8)
    folded = _fold(data)
    assert bytes(folded[folded > 0]) == b"abec-d"
    assert len(folded) == len(data)


def test_a_text_that_was_cut_elsewhere_is_found(tmp_path: Path) -> None:
    dataset = held_out_texts(tmp_path, [text(0, 15), text(15, 30)], test=0.0)
    assert standing(dataset, text(7, 22)) == [True]


def test_a_short_text_is_found_whole_and_in_a_row(tmp_path: Path) -> None:
    dataset = held_out_texts(tmp_path, ["1+0+1+1+0=1", "abcdefghijklmnopqrstuvwxyz"], test=0.0)
    items = {
        "1+0+1+1+0=1": True,
        "1+0+1 +1+0=": True,
        "1+0+1+1+1=1": False,
        "cdefghijklmnopqrstuvw": True,
        "abcdefghijklmnopqr stuvwxy": True,
        "abcdefghijklmnopqrtuvwxyz": False,
    }
    assert standing(dataset, *items) == list(items.values())


def test_windows_in_other_places_make_no_short_text(tmp_path: Path) -> None:
    dataset = held_out_texts(tmp_path, ["abcdefghij", "cdefghijkl"], test=0.0)
    assert standing(dataset, "abcdefghijkl") == [False]


def test_a_text_shorter_than_any_window_is_a_document_of_its_own(tmp_path: Path) -> None:
    dataset = held_out_texts(tmp_path, ["68+38=9", "12+34=5 and more"], test=0.0)
    assert standing(dataset, "68+38=9", "12+34=5", "8+38=9", "") == [True, False, False, False]


@pytest.mark.parametrize("form", ["pairs", "text", "conversations"])
@pytest.mark.parametrize("tokenizer", [{"kind": "bytes"}, {"kind": "bpe", "n_vocab": 300}])
def test_form_and_tokenizer_do_not_matter(
    tmp_path: Path, form: str, tokenizer: dict[str, object]
) -> None:
    source = {"kind": "copy", "n_documents": 60, "form": form}
    table = {"sources": [source], "tokenizer": tokenizer, "test": 0.0, "valid": 0.0}
    dataset = prepare_corpus(Corpus.model_validate(table), tmp_path, show_progress=False)
    pairs = Corpus.model_validate({**table, "sources": [{**source, "form": "pairs"}]})
    known = prepare_corpus(pairs, tmp_path, show_progress=False)
    (reader,) = known.readers["train"]
    found = []
    for number in range(reader.shard.n_documents):
        pieces = [
            known.decode(reader.shard.tokens[i:j].tolist())
            for i, j in reader.shard.piece_bounds(number)
        ]
        found.append("".join(pieces))
    strange = found[0].translate({ord("a") + n: ord("z") - n for n in range(26)})
    assert standing(dataset, *found, strange) == [True] * len(found) + [False]


def test_text_that_is_held_out_is_no_training_text(tmp_path: Path) -> None:
    dataset = held_out_texts(tmp_path, [text(0, 30), text(30, 60)])
    assert standing(dataset, text(0, 20)) == [False]


def parts_standing(dataset: TokenisedCorpus, *items: Text) -> list[bool]:
    is_drawn = are_drawn([(item,) for item in items])
    sought = SoughtTexts([SoughtItem((item,), is_drawn) for item in items])
    return sought.standing([sought.seen_in(dataset)])


def test_an_answer_or_a_question_alone_is_enough_where_it_is_long(tmp_path: Path) -> None:
    dataset = held_out_texts(tmp_path, [text(0, 8), "the cat is here"], test=0.0)
    items = {
        ("an unknown question", text(0, 8)): True,
        (text(0, 8), "an unknown answer"): True,
        (text(0, 8)[::-1], "an unknown answer"): True,
        ("an unknown question that is long enough", "the cat"): False,
        ("is the cat here?", "yes"): False,
    }
    assert parts_standing(dataset, *items) == list(items.values())


def test_short_answers_count_where_letters_are_drawn_at_random(tmp_path: Path) -> None:
    letters = np.random.default_rng(0).choice(list("abcdefghijklmnopqrstuvwxyz"), (60, 12))
    answers = ["".join(row) for row in letters]
    items = [(f"{answer}=", answer) for answer in answers]
    assert are_drawn([(item,) for item in items])
    assert not are_drawn([(item,) for item in items[:3]])  # too few to tell
    words = [(f"how many {text(n, n + 3)} are there", f"{n} of them") for n in range(50)]
    assert not are_drawn([(item,) for item in words])
    assert are_drawn([(item,) for item in (*items, *items)])  # each once, however often it is asked
    dataset = held_out_texts(tmp_path, [f"it is {one}, he said" for one in answers[:30]], test=0.0)
    assert parts_standing(dataset, *items) == [True] * 30 + [False] * 30
