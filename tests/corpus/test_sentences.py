import re
from itertools import pairwise

import pytest

from paribus.corpus.sentences import sentence_starts


def parted(text: str) -> list[str]:
    data = text.encode()
    starts = [0, *sentence_starts(data).tolist(), len(data)]
    return [data[first:last].decode() for first, last in pairwise(starts)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["One. ", "Two! ", "Three? ", "Four"],
        ["He said “Go.” ", "She went."],
        ['("Really?!") ', "Yes."],
        ["A heading\n\n", "Its text goes\non here.\n", "End"],
        ["spaces   \n \t \n\n   ", "after"],
        ["1.5 is no end, e.g.this neither"],
        ["Far.                                                          ", "away."],
        ["No letter follows.  \n\n "],
        ["!"],
    ],
)
def test_sentences_end_where_people_end_them(sentences):
    assert parted("".join(sentences)) == sentences


def test_gaps_longer_than_a_look_are_crossed():
    gap = " " * 1000
    assert parted(f"One.{gap}Two.{gap}Three") == [f"One.{gap}", f"Two.{gap}", "Three"]


def test_a_plain_loop_finds_the_same_starts_in_real_text():
    text = re.__doc__ or ""
    found = sentence_starts(text.encode()).tolist()
    plain = re.compile(rb"(?:[.!?][\"')\]}*]*(?=\s)|\n[ \t]*(?=\n))\s+(?=\S)")
    assert found == sorted({match.end() for match in plain.finditer(text.encode())})
    assert len(found) > 50
