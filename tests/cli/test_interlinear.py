"""Text of others on a terminal: nothing in it is obeyed, all of it fits."""

import pytest
from rich.cells import cell_len

from paribus.cli.terminal.interlinear import InterlinearRow, interlinear_lines
from paribus.cli.terminal.text_crop import crop_lines, escape_unprintable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 中 😀", "plain é 中 😀"),
        ("a\x1b[31mred\x07", "a\\x1b[31mred\\x07"),
        ("a\u202eb", "a\\u202eb"),
        ("a\r\nb", "a\\r\nb"),
        ("a\tb", "a\tb"),
        ("\x9b2J", "\\x9b2J"),
        ("\ufffd", "\ufffd"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert escape_unprintable(text) == shown


def test_a_text_that_fits_is_left_whole():
    assert crop_lines("one\n\ttwo\n", 20, is_complete=True) == ["one", "    two"]
    assert crop_lines("", 20, is_complete=True) == [""]


@pytest.mark.parametrize("letter", ["x", "中", "😀"])
def test_a_long_line_is_cut_at_the_width(letter):
    (line,) = crop_lines(letter * 50, 21, is_complete=True)
    assert cell_len(line) in (20, 21)
    assert line.endswith((f"{letter}…", " …"))


def test_what_is_left_out_shows_at_the_end():
    assert crop_lines("a\nb\nc", 9, is_complete=True, n_lines=2) == ["a", "b…"]
    assert crop_lines("cut her\ufffd", 9, is_complete=False) == ["cut her…"]
    assert crop_lines("123456789", 9, is_complete=False) == ["12345678…"]


def test_words_stand_over_one_another_and_break_together():
    rows = [
        InterlinearRow("read", ["a", "long", "b"]),
        InterlinearRow("told", ["first", "", "c"], "cyan"),
    ]
    assert [line.plain for line in interlinear_lines(rows, 40)] == [
        "read  a     long b",
        "told  first      c",
    ]
    narrow = [line.plain for line in interlinear_lines(rows, 16)]
    assert narrow == ["read  a     long", "told  first", "", "read  b", "told  c"]
    assert all(len(line) <= 16 for line in narrow)


def test_a_page_too_narrow_for_a_word_has_one_a_line():
    lines = [line.plain for line in interlinear_lines([InterlinearRow("read", ["one", "two"])], 3)]
    assert lines == ["read  one", "read  two"]
