"""Items that share 13 words in a row with the training text."""

from pathlib import Path

from byte_models import held_out_texts

from paribus.evaluate.tasks.overlap import overlapping_items

WORDS = [f"word{n}" for n in range(60)]


def text(first: int, last: int) -> str:
    return " ".join(WORDS[first:last])


def test_thirteen_words_in_a_row_are_found_whatever_their_case(tmp_path: Path) -> None:
    documents = [text(0, 30), text(31, 60), "nothing of it"]
    dataset = held_out_texts(tmp_path, documents, test=0.0)
    items = [
        (text(5, 18),),  # thirteen
        (text(5, 17),),  # twelve
        (f"Before, {text(32, 50).upper()}! after",),
        (text(25, 29) + " gap " + text(29, 42),),  # over the end of a document
        ("nothing of it",),
        (f"{text(5, 12)} other {text(12, 20)}",),
        ("short", text(40, 55)),
    ]
    assert overlapping_items([dataset], items) == [
        True,
        False,
        True,
        False,
        False,
        False,
        True,
    ]


def test_held_out_text_is_not_training_text(tmp_path: Path) -> None:
    dataset = held_out_texts(tmp_path, [text(0, 30), text(30, 60)])
    assert overlapping_items([dataset], [(text(0, 20),)]) == [False]
