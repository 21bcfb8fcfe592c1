"""Rows say tokens until each is at its end."""

import pytest
import torch
from byte_models import VOCABULARY, byte_model

from paribus.generate import Sampling
from paribus.generate.choosing import RowStream
from paribus.generate.requests import RowRequests
from paribus.generate.said_rows import SaidRows
from paribus.objectives.framing import Ids, plain_layout

WINDOW = 11
PAD, EOS = VOCABULARY.pad, VOCABULARY.eos


def said_rows(n_tokens: list[int], lengths: list[int], done_after: int | None = None) -> SaidRows:
    def is_done(_: int, tokens: Ids) -> bool:
        return len(tokens) == done_after

    layout = plain_layout(byte_model("gpt2", WINDOW).spec, VOCABULARY, WINDOW)
    requests = RowRequests(
        samplings=[Sampling(n_tokens=number) for number in n_tokens],
        streams=[RowStream(0, row) for row in range(len(n_tokens))],
        is_done=None if done_after is None else is_done,
    )
    inputs_BT = torch.full((len(lengths), max(lengths)), 97)
    return SaidRows(layout, inputs_BT, torch.tensor(lengths), requests)


def say_until_finished(rows: SaidRows, token_by_row: list[int]) -> None:
    while not rows.all_finished():
        rows.say(torch.tensor(token_by_row))


def test_each_row_has_its_own_limit_and_its_own_window() -> None:
    rows = said_rows([2, 7, 7], lengths=[5, 5, 9])
    say_until_finished(rows, [98, 99, 100])
    assert rows.lengths_B.tolist() == [2, 7, 3]
    assert rows.said_BT.tolist() == [
        [98, 98, *[PAD] * 5],
        [99] * 7,
        [100, 100, 100, *[PAD] * 4],
    ]


def test_a_row_that_says_an_end_says_padding_after_it() -> None:
    rows = said_rows([3, 3], lengths=[2, 2])
    assert rows.say(torch.tensor([EOS, 98])).tolist() == [EOS, 98]
    assert rows.say(torch.tensor([99, 98])).tolist() == [PAD, 98]
    assert not rows.all_finished()
    assert rows.say(torch.tensor([99, EOS])).tolist() == [PAD, EOS]
    assert rows.all_finished()
    assert rows.lengths_B.tolist() == [1, 3]


@pytest.mark.parametrize("done_after", [1, 3])
def test_who_asked_may_say_that_a_row_is_done(done_after: int) -> None:
    rows = said_rows([5, 2], lengths=[2, 3], done_after=done_after)
    say_until_finished(rows, [98, 99])
    assert rows.lengths_B.tolist() == [done_after, min(done_after, 2)]
